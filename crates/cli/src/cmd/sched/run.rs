//! `manycore sched run`: spreads the threads of named work over clusters, or packs them.

use crate::{
    cli::SchedRun,
    failure::{self, Failure, Outcome},
    output, placement_args,
    progress::StatusLine,
    signals::{self, Signals},
    source,
};
use manycore_sched::{
    affinity::{AffinityEnd, AffinityEvent, AffinityObserver, AffinityRequest, AffinitySession, Units, text},
    run::{Engine, Target, TargetPolicy},
};
use manycore_study::format_command;

/// Keeps threads spread or packed until the work has ended or a signal arrives, and restores everything.
///
/// # Errors
/// [`Failure::Input`] if the work does not exist or the machine has only one cluster. [`Failure::Missing`] if the engine
/// or the right to use it is missing, or something could not be restored. [`Failure::Status`] with the exit status of the
/// command if that is not 0.
pub fn run(args: &SchedRun) -> Outcome {
    match Engine::from(args.with) {
        Engine::SchedExt => Err(Failure::missing(
            "this manycore was built without a sched_ext scheduler; --with affinity needs none",
        )),
        Engine::Affinity => with_affinity(args),
    }
}

fn with_affinity(args: &SchedRun) -> Outcome {
    let groups = args.targets();
    let what = describe(args, &groups);
    let request = AffinityRequest {
        groups,
        level: args.level.map(Into::into),
        interval: args.interval,
        what: what.clone(),
    };
    let caught: &[i32] = if args.command.is_empty() { &signals::ENDS } else { &signals::ALL };
    let signals = Signals::catch(caught)?;
    let session = AffinitySession::begin(&source::live()?, &request)?;
    let mut display = SessionDisplay::new(args, session.units().clone());
    display.began(&what, args.command.is_empty());
    let end = session.run(&signals, &mut display)?;
    display.ended(&end);
    report(end, args.quiet)
}

/// Reports what was restored, and returns the exit status of the command.
fn report(end: AffinityEnd, quiet: bool) -> Outcome {
    let restored = end
        .restored
        .map_err(Failure::from)
        .and_then(|restored| placement_args::report_restored(&restored, &end.journal, quiet));
    match end.status {
        Some(status) => failure::of_command(status, restored),
        None => restored,
    }
}

/// Describes the request for the journal.
fn describe(args: &SchedRun, groups: &[TargetPolicy]) -> String {
    let each = groups.iter().map(|TargetPolicy { target, policy }| match target {
        Target::Process(pid) => format!("--pid {pid}"),
        Target::Name(name) => format!("--name {name}"),
        Target::Cgroup(path) => format!("--cgroup {path}={policy}"),
        Target::Command(words) => format!("-- {}", format_command(words)),
    });
    let each: Vec<String> = each.collect();
    let policy = manycore_sched::run::Policy::from(args.policy);
    format!("sched run --with affinity --policy {policy} {}", each.join(" "))
}

/// Shows a session on standard error.
struct SessionDisplay {
    units: Units,
    verbose: bool,
    quiet: bool,
    /// On a terminal that no command uses.
    line: Option<StatusLine>,
}

impl SessionDisplay {
    fn new(args: &SchedRun, units: Units) -> Self {
        let is_plain = args.quiet || args.verbose || !args.command.is_empty();
        let line = StatusLine::of_stderr(is_plain);
        Self { units, verbose: args.verbose, quiet: args.quiet, line }
    }

    fn note(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        if let Some(line) = &mut self.line {
            line.clear();
        }
        output::note(&format!("manycore: {text}"));
    }

    fn began(&mut self, what: &str, until_signal: bool) {
        let over = self.units.level.counted(self.units.all.len());
        let end = if until_signal { ", until all processes have ended or Ctrl-C" } else { "" };
        self.note(&format!("{what}: {over}{end}"));
    }

    fn ended(&mut self, end: &AffinityEnd) {
        for line in text::summary(&end.totals) {
            self.note(&line);
        }
    }
}

impl AffinityObserver for SessionDisplay {
    fn event(&mut self, event: &AffinityEvent) {
        if let AffinityEvent::Interval(report) = event {
            let words = text::interval(report, &self.units);
            if let Some(line) = &mut self.line {
                line.draw(&[words]);
            } else if self.verbose {
                for step in &report.steps {
                    self.note(&text::step(step));
                }
                self.note(&words);
            }
        }
        if let Some(words) = text::event(event, &self.units) {
            self.note(&words);
        }
    }
}

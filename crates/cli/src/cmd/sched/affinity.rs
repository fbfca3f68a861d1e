//! `manycore sched run --with affinity`: spreads the threads of named work over clusters, or packs them.

use super::run::{SessionLine, describe, report_end};
use crate::{
    cli::SchedRun,
    failure::Outcome,
    signals::{self, Signals},
    source,
};
use manycore_sched::affinity::{
    AffinityEvent, AffinityObserver, AffinityRequest, AffinitySession, AffinityTotals, Units, text,
};
use manycore_text::units::counted;

/// Keeps threads spread or packed until the work has ended or a signal arrives, and restores everything.
///
/// # Errors
/// An input error if the work does not exist or the machine has only one cluster; what is missing, if that is the right to
/// move it, or something could not be restored; the exit status of the command if that is not 0.
pub fn run(args: &SchedRun) -> Outcome {
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
    let end = session.run(&signals, &mut display);
    display.ended(&end.totals);
    report_end(end.restored, &end.journal, end.status, args.quiet)
}

/// Shows a session on standard error.
struct SessionDisplay {
    units: Units,
    line: SessionLine,
}

impl SessionDisplay {
    fn new(args: &SchedRun, units: Units) -> Self {
        Self { units, line: SessionLine::new(args) }
    }

    fn note(&mut self, text: &str) {
        self.line.note(text);
    }

    fn began(&mut self, what: &str, until_signal: bool) {
        let over = counted(self.units.all.len(), &self.units.level.to_string());
        let end = if until_signal { ", until all processes have ended or Ctrl-C" } else { "" };
        self.note(&format!("{what}: {over}{end}"));
    }

    fn ended(&mut self, totals: &AffinityTotals) {
        for line in text::summary(totals) {
            self.note(&line);
        }
    }
}

impl AffinityObserver for SessionDisplay {
    fn event(&mut self, event: &AffinityEvent) {
        if let AffinityEvent::Interval(report) = event {
            let steps = || report.steps.iter().map(text::step).collect();
            self.line.interval(&text::interval(report, &self.units), steps);
        }
        if let Some(words) = text::event(event, &self.units) {
            self.note(&words);
        }
    }
}

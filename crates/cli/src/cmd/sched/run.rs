//! `manycore sched run`: spreads tasks over clusters, or packs them.

use super::{affinity, kernel};
use crate::{
    cli::SchedRun,
    failure::{self, Failure, Outcome},
    output, placement_args,
    progress::StatusLine,
};
use manycore_control::journal::UndoResult;
use manycore_sched::run::{Engine, Policy, Target, TargetPolicy};
use manycore_study::format_command;
use std::process::ExitStatus;

/// Keeps tasks spread or packed until the work has ended or a signal arrives.
///
/// # Errors
/// Those of the engine; [`Failure::Input`] for options that the engine does not have.
pub fn run(args: &SchedRun) -> Outcome {
    match Engine::from(args.with) {
        Engine::SchedExt if args.level.is_some() => Err(Failure::input(
            "--level is for --with affinity: the scheduler spreads over clusters, where there are several",
        )),
        Engine::Affinity if args.progress.is_some() => {
            Err(Failure::input("--progress is for --policy auto, which affinities do not have"))
        }
        Engine::SchedExt => kernel::run(args),
        Engine::Affinity => affinity::run(args),
    }
}

/// Describes the request for the journal.
pub(super) fn describe(args: &SchedRun, groups: &[TargetPolicy]) -> String {
    let each = groups.iter().map(|TargetPolicy { target, policy }| match target {
        Target::Process(pid) => format!("--pid {pid}"),
        Target::Name(name) => format!("--name {name}"),
        Target::Cgroup(path) => format!("--cgroup {path}={policy}"),
        Target::Command(words) => format!("-- {}", format_command(words)),
    });
    let with = match Engine::from(args.with) {
        Engine::SchedExt => "",
        Engine::Affinity => " --with affinity",
    };
    let policy = format!("sched run{with} --policy {}", Policy::from(args.policy));
    [policy].into_iter().chain(each).collect::<Vec<_>>().join(" ")
}

/// Reports what was restored, and returns the exit status of the command if there was one, or why the session ended early.
pub(super) fn report_end(
    restored: Result<UndoResult, manycore_control::Error>,
    journal: &str,
    status: manycore_sched::Result<Option<ExitStatus>>,
    quiet: bool,
) -> Outcome {
    let restored = restored
        .map_err(Failure::from)
        .and_then(|restored| placement_args::report_restored(&restored, journal, quiet));
    match status {
        Ok(Some(status)) => failure::of_command(status, restored),
        Ok(None) => restored,
        Err(error) => {
            if let Err(failure) = restored {
                failure.report();
            }
            Err(error.into())
        }
    }
}

/// Shows a session on standard error: notes, and the latest interval in a line that is drawn again, or with `--verbose` all
/// intervals.
pub(super) struct SessionLine {
    verbose: bool,
    quiet: bool,
    /// On a terminal that no command uses.
    line: Option<StatusLine>,
}

impl SessionLine {
    pub(super) fn new(args: &SchedRun) -> Self {
        let is_plain = args.quiet || args.verbose || !args.command.is_empty();
        Self { verbose: args.verbose, quiet: args.quiet, line: StatusLine::of_stderr(is_plain) }
    }

    /// Prints a note.
    pub(super) fn note(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        if let Some(line) = &mut self.line {
            line.clear();
        }
        output::note(&format!("manycore: {text}"));
    }

    /// Shows an interval, with its details if all are shown.
    pub(super) fn interval(&mut self, text: &str, details: impl FnOnce() -> Vec<String>) {
        if let Some(line) = &mut self.line {
            line.draw(&[text.to_owned()]);
        } else if self.verbose {
            for detail in details() {
                self.note(&detail);
            }
            self.note(text);
        }
    }
}

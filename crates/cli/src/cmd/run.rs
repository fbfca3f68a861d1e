//! `manycore run`: runs a command on planned CPUs.

use crate::{
    cli::RunArgs,
    failure::{self, Failure, Outcome},
    output, placement_args,
    signals::{self, Signals},
};
use manycore_control::placement::{self, PlacedCommand};
use manycore_study::{format_command, with_workers};

/// Runs the command to its end, enforces the placement of its tasks, and shows where they ran.
///
/// # Errors
/// The plan cannot be made, or the command cannot be started. [`Failure::Status`] with the exit status of
/// the command if that is not 0.
pub fn run(args: &RunArgs) -> Outcome {
    let placement = placement_args::resolve(&args.placing)?;
    let (words, _) = with_workers(&args.command.command, placement.plan.workers.len());
    let subject = format_command(&words);
    let what = format!("run --place {} -- {subject}", placement.plan.policy);
    let signals = Signals::catch(&signals::ALL)?;
    let command = PlacedCommand { words, subject, what, wait: args.wait };
    let end = placement::run(&command, &placement, &signals)?;
    let restored = end
        .restored
        .map_err(Failure::from)
        .and_then(|restored| placement_args::report_restored(&restored, &end.journal, args.placing.quiet));
    let shown = placement_args::report_trace(&end.trace, &args.placing);
    if !args.placing.quiet && !args.wait && !end.left_running.unpinned.is_empty() {
        output::note("manycore: with --wait, manycore stays until such processes have ended");
    }
    let reported = end.waited.map_err(Failure::from).and(restored).and(shown);
    failure::of_command(end.status, reported)
}

//! `manycore pin`: places running processes on planned CPUs.

use crate::{
    cli::PinArgs,
    failure::{Failure, Outcome},
    output, placement_args,
    signals::{self, Signals},
};
use manycore_control::placement::{PinnedProcesses, RunningProcesses};
use manycore_linux::tasks;
use manycore_topology::CpuSet;

/// Moves the processes to the planned CPUs and enforces the placement until all of them have ended or a
/// signal arrives. Then restores their former CPUs.
///
/// # Errors
/// [`Failure::Input`] if a process does not exist or the plan cannot be made. [`Failure::Missing`] if a
/// task may not be moved; then no task is moved.
pub fn run(args: &PinArgs) -> Outcome {
    let signals = Signals::catch(&signals::ENDS)?;
    let processes = RunningProcesses::open(&args.pid)?;
    if args.once && (args.placing.trace.is_some() || args.placing.check.is_some()) {
        return Err(Failure::input(
            "with --once, pin exits without observing where tasks run; leave out --once to use --trace or --check",
        ));
    }
    let placement = placement_args::resolve(&args.placing)?;
    let what = describe(args, &placement.plan.policy);
    let note = |text: String| {
        if !args.placing.quiet {
            output::note(&format!("manycore: {text}"));
        }
    };
    let cpus = CpuSet::union_of(placement.plan.workers.iter().map(|worker| &worker.cpus));
    let mut pinned = PinnedProcesses::pin(processes, placement, &what, args.once)?;
    let moved = pinned.moved().words(&cpus);
    if args.once {
        let id = pinned.journal_id();
        let held_by = pinned.leave().held_by;
        note(format!("{moved}, held by {held_by}; 'manycore undo {id}' restores their CPUs"));
        return Ok(());
    }
    note(format!("{what}: {moved}, until all processes have ended or Ctrl-C"));
    let end = pinned.enforce(&signals)?;
    placement_args::report_restored(&end.restored, &end.journal, args.placing.quiet)?;
    placement_args::report_trace(&end.trace, None, &args.placing)
}

/// Describes the change for the journal: the command line, and the names of the processes.
fn describe(args: &PinArgs, place: &str) -> String {
    let names: Vec<String> = args.pid.iter().filter_map(|&pid| tasks::name(pid)).collect();
    let pids: Vec<String> = args.pid.iter().map(u32::to_string).collect();
    format!("pin --pid {} --place {place} ({})", pids.join(","), names.join(", "))
}

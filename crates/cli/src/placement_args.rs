//! The part that `run` and `pin` share: from options to a placement, and the report of how it ended.

use crate::{
    cli::{Enforcement, PlacementArgs},
    failure::{Failure, Outcome},
    output,
    sharing::TraceFile,
    signals::Signals,
    source, terminal,
};
use manycore_control::{
    journal::UndoResult,
    placement::{self, PlacementRequest, ResolvedPlacement, SignalSource},
};
use manycore_placement::{PlacementTrace, Reserve};
use manycore_sharing::Sharing;
use manycore_text::units;
use manycore_topo::trace_text;
use rustix::process::Signal;
use std::os::fd::BorrowedFd;

impl SignalSource for Signals {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }

    fn take(&self) -> Vec<Signal> {
        self.take()
    }

    fn take_for_command(&self) -> Vec<Signal> {
        self.take_for_command()
    }
}

/// Makes the plan that the command line requests.
///
/// # Errors
/// [`Failure::Input`] if the plan cannot be made on this machine or is for another machine.
/// [`Failure::Missing`] if the affinity of this process cannot be read.
pub fn resolve(args: &PlacementArgs) -> Outcome<ResolvedPlacement> {
    if let Some(folder) =
        args.trace.as_ref().and_then(|path| path.parent()).filter(|folder| !folder.as_os_str().is_empty())
        && !folder.is_dir()
    {
        return Err(Failure::input(format!("--trace: there is no directory {}", folder.display())));
    }
    if let Some(path) = &args.trace {
        output::check_file(path)?;
    }
    let machine = source::live()?;
    let request = PlacementRequest {
        plan: args.plan.as_ref().map(|path| source::plan(path, &machine)).transpose()?,
        policy: args.place.clone(),
        workers: args.workers.map(|count| count as usize),
        reserve: args.reserve.clone().unwrap_or(Reserve::Nothing),
        exclusive: args.exclusive,
        memory: args.memory.clone(),
        enforcement: match args.hold {
            Enforcement::Auto => placement::Enforcement::Auto,
            Enforcement::Affinity => placement::Enforcement::Affinity,
        },
    };
    Ok(request.resolve(machine)?)
}

/// Reports the changes of a journal that could not be restored.
///
/// # Errors
/// [`Failure::Missing`] if there are any.
pub fn report_restored(restored: &UndoResult, journal: &str, quiet: bool) -> Outcome {
    if !quiet {
        for line in &restored.changed_by_others {
            output::note(&format!("manycore: {line}"));
        }
    }
    restored.failure(journal).map_or(Ok(()), |failure| Err(Failure::missing(failure)))
}

/// Prints where the tasks ran and what they shared, and evaluates `--check`.
///
/// # Errors
/// [`Failure::Check`] with `--check` if the plan did not hold. An error if the output file cannot be
/// written.
pub fn report_trace(trace: &PlacementTrace, shared: Option<&Sharing>, args: &PlacementArgs) -> Outcome {
    if !args.quiet {
        let mut document = trace_text::render(trace);
        if let Some(line) = shared.and_then(manycore_sharing::sentence) {
            document.paragraph(line);
        }
        let text = document.text(terminal::of_stderr());
        output::layout_note(text.trim_end());
    }
    if let Some(path) = &args.trace {
        let json =
            serde_json::to_vec_pretty(&TraceFile { trace, sharing: shared }).map_err(Failure::missing)?;
        output::write_file(path, &json)?;
    }
    let Some(least) = args.check else { return Ok(()) };
    let observed = units::percent(trace.coverage().unwrap_or(0.0));
    match trace.held_with_coverage(least) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::Check("the plan did not hold".to_owned())),
        None => Err(Failure::Check(format!(
            "not shown that the plan held: {observed} of the CPU time was observed in place, --check={} was requested",
            units::percent(least)
        ))),
    }
}

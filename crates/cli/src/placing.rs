//! What `run` and `pin` share: from options to a placement, and how it ended.

use crate::{
    cli::{Enforcement, PlacementArgs},
    failure::{Failure, Outcome},
    output, source,
};
use manycore_control::{
    journal::UndoResult,
    placement::{self, PlacementRequest, PlacementSession, ResolvedPlacement},
};
use manycore_placement::{PlacementTrace, Reserve};
use manycore_text::units;
use manycore_topo::trace_text;

/// Ends a placement: gives the tasks what they had before, and reports what was left.
///
/// # Errors
/// [`Failure::Missing`] where something could not be restored.
pub fn take_back(follow: PlacementSession, quiet: bool) -> Outcome {
    let id = follow.journal_id();
    told(&follow.restore()?, &id, quiet)
}

/// The placement that the options request, on this machine.
///
/// # Errors
/// [`Failure::Input`] where it cannot be met here or is for another machine, [`Failure::Missing`] where our own
/// affinity cannot be read.
pub fn aim(args: &PlacementArgs) -> Outcome<ResolvedPlacement> {
    if let Some(folder) =
        args.out.as_ref().and_then(|out| out.parent()).filter(|folder| !folder.as_os_str().is_empty())
        && !folder.is_dir()
    {
        return Err(Failure::input(format!("--out: there is no folder {}", folder.display())));
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
    Ok(placement::resolve_placement(machine, request)?)
}

/// Tells what of a journal could not be taken back.
///
/// # Errors
/// [`Failure::Unavailable`] where that is something.
pub fn told(restored: &UndoResult, id: &str, quiet: bool) -> Outcome {
    if !quiet {
        for line in &restored.changed_by_others {
            output::note(&format!("manycore: {line}"));
        }
    }
    restored.failure(id).map_or(Ok(()), |failure| Err(Failure::missing(failure)))
}

/// Prints where the tasks ran, and evaluates `--check`.
///
/// # Errors
/// [`Failure::Check`] with `--check` if the plan did not hold. An error if the output file cannot be
/// written.
pub fn show(trace: &PlacementTrace, args: &PlacementArgs) -> Outcome {
    if !args.quiet {
        output::note(trace_text::render(trace).trim_end());
    }
    if let Some(path) = &args.out {
        let json = serde_json::to_vec_pretty(trace).map_err(Failure::missing)?;
        output::write_file(path, &json)?;
    }
    let Some(least) = args.check else { return Ok(()) };
    let seen = units::percent(trace.coverage().unwrap_or(0.0));
    match trace.held_with_coverage(least) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::Check("the plan did not hold".to_owned())),
        None => Err(Failure::Check(format!(
            "not shown that the plan held: {seen} of the CPU time was observed in place, --check={} was requested",
            units::percent(least)
        ))),
    }
}

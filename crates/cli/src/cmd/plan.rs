//! `manycore plan`: prints which CPUs each worker gets, draws the plan, and writes it in the syntax of
//! other programs.

use crate::{
    cli::PlanArgs as Args,
    failure::{Failure, Outcome},
    output, source,
};
use manycore_placement::{Export, ExportFormat, PlacementPlan, UnusedCpus};
use manycore_render::terminal::Terminal;
use manycore_topo::{
    plan_text::{self, WorkerLines},
    svg,
};
use manycore_topology::Machine;

/// Makes the plan, writes the picture if requested, then prints the plan.
///
/// # Errors
/// The source does not describe a machine, the machine cannot meet the request, or an output cannot be
/// written.
pub fn run(args: &Args, terminal: Terminal) -> Outcome {
    let machine = source::machine(&args.source)?;
    let plan = plan(args, &machine)?;
    let left_out = UnusedCpus::new(&args.place, &machine, &args.reserve);
    // The text is made before any file is written, so that an error leaves no files.
    let exported = args
        .export
        .map(|format| Ok::<_, Failure>((format, export(args, format, &machine, &plan, &left_out)?)))
        .transpose()?;
    if let Some(path) = &args.svg {
        output::write_file(path, svg::render(&machine, Some(&plan)).as_bytes())?;
    }
    match exported {
        // These lines become part of a command line, where a comment would be read as arguments. So
        // comments go to standard error.
        Some((format, text)) if format.is_command_prefix() => {
            let (comments, words): (Vec<&str>, Vec<&str>) =
                text.split_inclusive('\n').partition(|line| line.starts_with('#'));
            for comment in comments {
                output::note(comment.trim_end());
            }
            output::print(&words.concat())
        }
        Some((_, text)) => output::print(&text),
        None => output::result(args.format, terminal, &plan, || {
            let grouped = WorkerLines::Grouped { hint: "--all lists each worker" };
            let lines = if args.all { WorkerLines::Each } else { grouped };
            plan_text::render(&plan, &machine, &left_out, lines)
        }),
    }
}

fn plan(args: &Args, machine: &Machine) -> Outcome<PlacementPlan> {
    let workers = match args.workers {
        Some(workers) => workers,
        None => args.place.capacity(machine, &args.reserve).map_err(Failure::input)?,
    };
    let plan = args.place.plan(machine, workers, &args.reserve).map_err(Failure::input)?;
    if args.exclusive {
        plan.check_exclusive().map_err(Failure::input)?;
    }
    Ok(plan)
}

fn export(
    args: &Args,
    format: ExportFormat,
    machine: &Machine,
    plan: &PlacementPlan,
    left_out: &UnusedCpus,
) -> Outcome<String> {
    args.memory.check(machine).map_err(Failure::input)?;
    let together = match (args.together, format.places_processes()) {
        (false, _) => None,
        (true, true) => Some(plan.together()),
        (true, false) => {
            let name = format.name();
            return Err(Failure::input(format!(
                "--together: {name} places the workers of one program separately; leave out --together, or request 1 worker"
            )));
        }
    };
    let export = Export {
        plan: together.as_ref().unwrap_or(plan),
        machine,
        policy: &args.place,
        memory: &args.memory,
        reserved: &left_out.reserved,
    };
    Ok(export.text(format))
}

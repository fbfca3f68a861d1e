//! `manycore plan`: says who runs where, draws it, and writes it in the words of other programs.

use crate::{
    cli::{Format, Plan as Args},
    failure::{Failure, Outcome},
    output, source,
};
use manycore_placement::{Dialect, Export, LeftOut, Plan};
use manycore_topo::{plan_text, svg};
use manycore_topology::Machine;

/// Makes the plan, writes the picture that was asked for, then prints the plan.
///
/// # Errors
/// The source describes no machine, it cannot meet the demand, or an output cannot be written.
pub fn run(args: &Args) -> Outcome {
    let machine = source::machine(&args.source)?;
    let plan = plan(args, &machine)?;
    let left_out = LeftOut::of(&args.place, &machine, &args.reserve);
    // Before anything is written, so that a refusal leaves nothing.
    let text = match (args.dialect, args.format) {
        (Some(dialect), _) => export(args, dialect, &machine, &plan, &left_out)?,
        (None, Format::Text) => plan_text::render(&plan, &machine, &left_out, args.all),
        (None, Format::Json) => output::json(&plan)?,
    };
    if let Some(path) = &args.svg {
        output::write_file(path, svg::render(&machine, Some(&plan)).as_bytes())?;
    }
    match args.dialect {
        // Such words stand in other lines, where a comment would be taken for words as well.
        Some(dialect) if dialect.is_words() => {
            let (comments, words): (Vec<&str>, Vec<&str>) =
                text.split_inclusive('\n').partition(|line| line.starts_with('#'));
            for comment in comments {
                output::note(comment.trim_end());
            }
            output::print(&words.concat())
        }
        _ => output::print(&text),
    }
}

fn plan(args: &Args, machine: &Machine) -> Outcome<Plan> {
    let workers = match args.workers {
        Some(workers) => workers,
        None => args.place.room(machine, &args.reserve).map_err(Failure::input)?,
    };
    let plan = args.place.plan(machine, workers, &args.reserve).map_err(Failure::input)?;
    if args.exclusive {
        plan.check_exclusive().map_err(Failure::input)?;
    }
    Ok(plan)
}

fn export(
    args: &Args,
    dialect: Dialect,
    machine: &Machine,
    plan: &Plan,
    left_out: &LeftOut,
) -> Outcome<String> {
    args.memory.check(machine).map_err(Failure::input)?;
    let together = match (args.together, dialect.places_programs()) {
        (false, _) => None,
        (true, true) => Some(plan.together()),
        (true, false) => {
            let name = dialect.name();
            return Err(Failure::input(format!(
                "--together: {name} tells the workers of one program apart; leave --together out, or ask for 1 worker"
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
    Ok(export.text(dialect))
}

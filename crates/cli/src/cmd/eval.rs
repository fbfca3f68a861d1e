//! `manycore eval`: evaluates this machine and gives advice.

use crate::{
    cli::{Eval, EvalBudget, Results},
    failure::Outcome,
    measuring::Run,
    source,
};
use manycore_evaluate::{Options, SECTIONS, Section, profile};
use manycore_linux::clock;
use manycore_render::terminal::Terminal;
use manycore_topology::Machine;

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Eval, terminal: Terminal) -> Outcome {
    let machine = source::live()?;
    let sections = chosen(&args.only);
    let profile = choose(&args.budget).for_cpus(machine.allowed.cpus.len());
    let profile = match args.budget.duration() {
        Some(budget) => manycore_evaluate::scaled_to(profile, &sections, budget),
        None => profile,
    };
    let options = Options::eval(profile, args.equivalent, args.seed.unwrap_or_else(clock::now_ns));
    measure(machine, options, &sections, &args.results, terminal)
}

/// Measures sections, saves the record and prints what it says.
pub(super) fn measure(
    machine: Machine,
    options: Options,
    sections: &[Section],
    to: &Results,
    terminal: Terminal,
) -> Outcome {
    let seconds = manycore_evaluate::seconds(&options.profile, sections);
    let mut run = Run::begin(options.subcommand, to, terminal, Some(seconds))?;
    let (record, ending) = manycore_evaluate::run(machine, options, sections, &mut run);
    run.end(record, ending.map_err(Into::into))
}

pub(super) fn choose(budget: &EvalBudget) -> profile::Profile {
    match budget {
        EvalBudget { full: true, .. } => profile::FULL,
        EvalBudget { standard: true, .. } => profile::STANDARD,
        EvalBudget { .. } => profile::QUICK,
    }
}

fn chosen(only: &[String]) -> Vec<Section> {
    let wanted = |section: &Section| only.is_empty() || only.iter().any(|name| name == section.name);
    SECTIONS.into_iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keep_their_order_for_any_command_line() {
        let names: Vec<&str> =
            chosen(&["matrix".to_owned(), "noise".to_owned()]).iter().map(|section| section.name).collect();
        assert_eq!(names, ["noise", "matrix"]);
        assert_eq!(chosen(&[]).len(), SECTIONS.len());
    }
}

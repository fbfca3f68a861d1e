//! `manycore eval`: evaluates this machine and says what follows.

use crate::{
    cli::{Eval, EvalBudget},
    experiment::interrupt,
    failure::{Failure, Outcome},
    output,
    suite::{self, SECTIONS, Section, profile},
};
use manycore_model::Machine;

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Eval) -> Outcome {
    let _ = interrupt::catch();
    let profile = choose(&args.budget);
    let sections: Vec<Section> = SECTIONS
        .into_iter()
        .filter(|section| args.only.is_empty() || args.only.iter().any(|name| name == section.name))
        .collect();
    let mut machine = Machine::default();
    machine.online = manycore_host::affinity::allowed().unwrap();
    let (record, ending) =
        suite::run(machine, profile, &sections, args.seed.unwrap_or(1), &mut |event| match event {
            suite::Event::Begin(section) => eprintln!("{}", section.title),
            suite::Event::Missed(missed) => eprintln!("missed {}: {}", missed.what, missed.why),
            suite::Event::Progress { .. } => {}
        });
    let text = serde_json::to_string(&record).unwrap();
    std::fs::create_dir_all(&args.out).map_err(Failure::missing)?;
    output::write_file(&args.out.join("record.json"), text.as_bytes())?;
    let e = manycore_model::evaluation::Evaluation::of(&record);
    output::print(&format!("{}\n", serde_json::to_string_pretty(&e).unwrap()))?;
    ending
}

fn choose(budget: &EvalBudget) -> profile::Profile {
    match budget {
        EvalBudget { full: true, .. } => profile::FULL,
        EvalBudget { standard: true, .. } => profile::STANDARD,
        EvalBudget { .. } => profile::QUICK,
    }
}

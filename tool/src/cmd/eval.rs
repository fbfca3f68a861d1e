//! `manycore eval`: evaluates this machine and gives advice.

use crate::{
    cli::{Eval, EvalBudget, Results},
    experiment::interrupt,
    failure::{Failure, Outcome},
    folder::Folder,
    progress::Progress,
    source,
    suite::{self, Asked, Event, SECTIONS, Section, profile},
};
use manycore_host::clock;
use manycore_model::{Machine, record::Missed};

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Eval) -> Outcome {
    let machine = source::live()?;
    let profile = choose(&args.budget).on(machine.allowed.cpus.len());
    let asked = Asked::eval(profile, args.equivalent, args.seed.unwrap_or_else(clock::now_ns));
    measure(machine, asked, &chosen(&args.only), &args.results)
}

/// Runs the suite on `sections`, saves the record, writes the report and prints it.
pub(super) fn measure(machine: Machine, asked: Asked, sections: &[Section], to: &Results) -> Outcome {
    interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
    let (verb, quiet) = (asked.verb, to.quiet);
    let folder = Folder::make(to.out.clone(), to.force, verb)?;
    let mut progress = Progress::new(suite::seconds(&asked.profile, sections), quiet);
    let (record, ending) = suite::run(machine, asked, sections, &mut |event| match event {
        Event::Begin(section) => progress.section(section.title),
        Event::Progress { left, .. } => progress.left(left),
        // Saved after each section, so that not even SIGKILL loses completed sections. The final save reports
        // write errors such as a full disk.
        Event::Measured(record) if !record.experiments.is_empty() => drop(folder.write_record(record)),
        Event::Measured(_) => {}
        Event::Missed(missed) => progress.note(&format!("{}: {}", missed.what, missed.why)),
    });
    progress.finish();
    if verb != "eval" && record.experiments.is_empty() {
        folder.give_up();
        let why = |missed: &Missed| Err(Failure::missing(missed.why.clone()));
        return ending.and_then(|()| record.missed.last().map_or(Ok(()), why));
    }

    let saved = folder.save(verb, record, quiet, to.format);
    let place = folder.record();
    match (saved, ending) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Err(Failure::Interrupted(_))) => Err(Failure::Interrupted(format!(
            "interrupted; the results so far are in {} (show them with: manycore report {0})",
            place.display()
        ))),
        (Ok(()), ending) => ending,
    }
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
    fn sections_keep_their_order_whatever_the_command_line_says() {
        let names: Vec<&str> =
            chosen(&["matrix".to_owned(), "noise".to_owned()]).iter().map(|section| section.name).collect();
        assert_eq!(names, ["noise", "matrix"]);
        assert_eq!(chosen(&[]).len(), SECTIONS.len());
    }
}

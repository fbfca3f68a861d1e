//! `manycore eval`: evaluates this machine and says what follows.

use crate::{
    cli::{Eval, EvalBudget, Format},
    experiment::interrupt,
    failure::{Failure, Outcome},
    output,
    progress::Progress,
    report::{self, Named},
    source,
    suite::{self, Event, SECTIONS, Section, profile},
};
use manycore_host::clock;
use manycore_model::Record;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Eval) -> Outcome {
    interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
    let started = clock::utc();
    let folder =
        args.out.clone().unwrap_or_else(|| PathBuf::from(format!("manycore-eval-{}", compact(&started))));
    make(&folder)?;
    let machine = source::live()?;
    let profile = choose(&args.budget);
    let sections = chosen(&args.only);
    let seed = args.seed.unwrap_or_else(clock::now_ns);

    let mut progress = Progress::new(suite::seconds(&profile, &sections), args.quiet);
    let (record, ending) = suite::run(machine, profile, &sections, seed, &mut |event| match event {
        Event::Begin(section) => progress.section(section.title),
        Event::Progress { left, .. } => progress.left(left),
        Event::Measured(_) => {}
        Event::Missed(missed) => progress.note(&format!("{}: {}", missed.what, missed.why)),
    });
    progress.finish();

    let saved = save(&folder, record, args.quiet, args.format);
    let place = folder.join("record.json");
    match (saved, ending) {
        (Err(failure), _) => Err(failure),
        (Ok(()), Err(Failure::Interrupted(_))) => Err(Failure::Interrupted(format!(
            "interrupted; what was measured is in {} (manycore report {0})",
            place.display()
        ))),
        (Ok(()), ending) => ending,
    }
}

fn choose(budget: &EvalBudget) -> profile::Profile {
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

/// `2026-11-21T19:40:58Z` as `20261121T194058Z`, which needs no quoting in a shell.
fn compact(utc: &str) -> String {
    utc.chars().filter(|character| !matches!(character, '-' | ':')).collect()
}

/// Makes the folder and sees to it before anything is measured that files can be written there.
fn make(folder: &Path) -> Outcome {
    fs::create_dir_all(folder)
        .map_err(|error| Failure::missing(format!("cannot make the folder {}: {error}", folder.display())))?;
    tempfile::tempfile_in(folder)
        .map_err(|error| Failure::missing(format!("cannot write into {}: {error}", folder.display())))?;
    Ok(())
}

/// Writes the record first: whatever else fails, that is what took the time. The judgement is printed even
/// where the disk is full.
fn save(folder: &Path, record: Record, quiet: bool, format: Format) -> Outcome {
    let text = serde_json::to_vec(&record)
        .map_err(|error| Failure::missing(format!("cannot write the record as JSON: {error}")))?;
    let all = [Named::judge("eval".to_owned(), record)];
    let page = folder.join("report.html");
    let written = output::write_file(&folder.join("record.json"), &text)
        .and_then(|()| output::write_file(&page, report::html(&all).as_bytes()))
        .and_then(|()| {
            let tables = report::csv(&all);
            tables
                .iter()
                .try_for_each(|(name, table)| output::write_file(&folder.join(name), table.as_bytes()))
        });
    let printed = match format {
        Format::Text if quiet => Ok(()),
        Format::Json => output::print(&report::json(&all)),
        Format::Text => output::print(&report::text(&all)),
    };
    if written.is_ok() && !quiet {
        eprintln!("The report is {}, beside the record and its tables.", page.display());
    }
    written.and(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_after_the_moment() {
        assert_eq!(compact("2026-11-21T19:40:58Z"), "20261121T194058Z");
    }

    #[test]
    fn sections_keep_their_order_whatever_the_command_line_says() {
        let names: Vec<&str> =
            chosen(&["matrix".to_owned(), "noise".to_owned()]).iter().map(|section| section.name).collect();
        assert_eq!(names, ["noise", "matrix"]);
        assert_eq!(chosen(&[]).len(), SECTIONS.len());
    }
}

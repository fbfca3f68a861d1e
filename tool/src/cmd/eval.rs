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
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Eval) -> Outcome {
    interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
    let started = clock::utc();
    let folder =
        args.out.clone().unwrap_or_else(|| PathBuf::from(format!("manycore-eval-{}", compact(&started))));
    let machine = source::live()?;
    make(&folder)?;
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

/// Writes the record first, before it is judged: whatever else fails, that is what took the time. The
/// judgement is printed even where the disk is full.
fn save(folder: &Path, record: Record, quiet: bool, format: Format) -> Outcome {
    let text = serde_json::to_vec(&record)
        .map_err(|error| Failure::missing(format!("cannot write the record as JSON: {error}")))?;
    let place = folder.join("record.json");
    let again = place.exists();
    let kept = output::write_file(&place, &text);
    let all = [Named::judge("eval".to_owned(), record)];
    let page = folder.join("report.html");
    let written = kept
        .and_then(|()| output::write_file(&page, report::html(&all).as_bytes()))
        .and_then(|()| write_tables(folder, &report::csv(&all), again));
    let printed = output::print(&match format {
        Format::Json => report::json(&all),
        Format::Text => report::text(&all),
    });
    if written.is_ok() && !quiet {
        output::note(&format!("The report is {}, beside the record and its tables.", page.display()));
    }
    written.and(printed)
}

/// Writes the tables; in the folder of an earlier run, `again`, those that this run has not are removed: they
/// would look like its results.
fn write_tables(folder: &Path, tables: &[(String, String)], again: bool) -> Outcome {
    let stale = |name: &&str| again && !tables.iter().any(|(written, _)| written == name);
    for path in report::CSV_NAMES.iter().copied().filter(stale).map(|name| folder.join(name)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let what = format!("cannot remove {}, a table of an earlier run: {error}", path.display());
                return Err(Failure::missing(what));
            }
            _ => {}
        }
    }
    tables.iter().try_for_each(|(name, table)| output::write_file(&folder.join(name), table.as_bytes()))
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

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
use std::{fs, io::ErrorKind, path::PathBuf};

/// Measures, saves the record, writes the report and prints it.
pub fn run(args: &Eval) -> Outcome {
    interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
    let started = clock::utc();
    let folder =
        args.out.clone().unwrap_or_else(|| PathBuf::from(format!("manycore-eval-{}", compact(&started))));
    let machine = source::live()?;
    let folder = Folder::make(folder)?;
    let profile = choose(&args.budget).on(machine.allowed.cpus.len());
    let sections = chosen(&args.only);
    let seed = args.seed.unwrap_or_else(clock::now_ns);

    let mut progress = Progress::new(suite::seconds(&profile, &sections), args.quiet);
    let (record, ending) = suite::run(machine, profile, &sections, seed, &mut |event| match event {
        Event::Begin(section) => progress.section(section.title),
        Event::Progress { left, .. } => progress.left(left),
        // So that not even a kill loses the sections that are done; a full disk is told at the end.
        Event::Measured(record) => drop(folder.write_record(record)),
        Event::Missed(missed) => progress.note(&format!("{}: {}", missed.what, missed.why)),
    });
    progress.finish();

    let saved = folder.save(record, args.quiet, args.format);
    let place = folder.record();
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

/// Where the results go.
struct Folder {
    path: PathBuf,
    /// Whether an earlier run has left its record here.
    used: bool,
}

impl Folder {
    /// Makes the folder and sees to it before anything is measured that files can be written there.
    fn make(path: PathBuf) -> Outcome<Self> {
        fs::create_dir_all(&path).map_err(|error| {
            Failure::missing(format!("cannot make the folder {}: {error}", path.display()))
        })?;
        tempfile::tempfile_in(&path)
            .map_err(|error| Failure::missing(format!("cannot write into {}: {error}", path.display())))?;
        Ok(Self { used: path.join("record.json").exists(), path })
    }

    fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }

    fn write_record(&self, record: &Record) -> Outcome {
        let text = serde_json::to_vec(record)
            .map_err(|error| Failure::missing(format!("cannot write the record as JSON: {error}")))?;
        output::write_file(&self.record(), &text)
    }

    /// Writes the record first, before it is judged: whatever else fails, that is what took the time. The
    /// judgement is printed even where the disk is full.
    fn save(&self, record: Record, quiet: bool, format: Format) -> Outcome {
        let kept = self.write_record(&record);
        let all = [Named::judge("eval".to_owned(), record)];
        let page = self.path.join("report.html");
        let written = kept
            .and_then(|()| output::write_file(&page, report::html(&all).as_bytes()))
            .and_then(|()| self.write_tables(&report::csv(&all)));
        let printed = output::print(&match format {
            Format::Json => report::json(&all),
            Format::Text => report::text(&all),
        });
        if written.is_ok() && !quiet {
            output::note(&format!("The report is {}, beside the record and its tables.", page.display()));
        }
        written.and(printed)
    }

    /// Writes the tables; those of an earlier run that this one has not are removed: they would look like its
    /// results.
    fn write_tables(&self, tables: &[(String, String)]) -> Outcome {
        let stale = |name: &&str| self.used && !tables.iter().any(|(written, _)| written == name);
        for path in report::CSV_NAMES.iter().copied().filter(stale).map(|name| self.path.join(name)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    let what =
                        format!("cannot remove {}, a table of an earlier run: {error}", path.display());
                    return Err(Failure::missing(what));
                }
                _ => {}
            }
        }
        tables
            .iter()
            .try_for_each(|(name, table)| output::write_file(&self.path.join(name), table.as_bytes()))
    }
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

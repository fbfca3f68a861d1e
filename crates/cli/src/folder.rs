//! The folder of a run's results: the record, the page and the tables.

use crate::{
    cli::Format,
    failure::{Failure, Outcome},
    output,
};
use manycore_experiment::Record;
use manycore_linux::clock;
use manycore_report::{self, NamedEvaluation};
use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// Converts `2026-11-21T19:40:58Z` into `20261121T194058Z`, which needs no quoting in a shell.
fn compact(utc: &str) -> String {
    utc.chars().filter(|character| !matches!(character, '-' | ':')).collect()
}

/// Returns a path of this name that does not exist yet. A number is appended where another run of the same
/// second has taken the name.
fn unused(name: &str) -> PathBuf {
    let numbered = (2..).map(|number| PathBuf::from(format!("{name}-{number}")));
    [PathBuf::from(name)].into_iter().chain(numbered).find(|path| !path.exists()).unwrap_or_default()
}

/// The folder for the results of one run.
pub struct Folder {
    path: PathBuf,
    /// Whether the folder was created for this run.
    made: bool,
    /// Whether the folder holds the record of an earlier run.
    used: bool,
}

impl Folder {
    /// Creates or opens the folder at `path`, or a new one named after the subcommand and the time. Checks before
    /// anything is measured that files can be written there. The record of an earlier run is overwritten with
    /// `force` only.
    ///
    /// # Errors
    /// [`Failure::Input`] if there is such a record, [`Failure::Missing`] if files cannot be written.
    pub fn open(path: Option<PathBuf>, force: bool, subcommand: &str) -> Outcome<Self> {
        let path =
            path.unwrap_or_else(|| unused(&format!("manycore-{subcommand}-{}", compact(&clock::utc()))));
        let used = path.join("record.json").exists();
        if used && !force {
            return Err(Failure::input(format!(
                "{} contains an earlier record: give --force to overwrite it, or another --out to keep it",
                path.display()
            )));
        }
        let made = !path.exists();
        fs::create_dir_all(&path).map_err(|error| {
            Failure::missing(format!("cannot create the directory {}: {error}", path.display()))
        })?;
        tempfile::tempfile_in(&path)
            .map_err(|error| Failure::missing(format!("cannot write into {}: {error}", path.display())))?;
        Ok(Self { path, made, used })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the record.
    pub fn record(&self) -> PathBuf {
        self.path.join("record.json")
    }

    /// Removes the folder if it was created for this run. Called when a run has no result worth keeping.
    pub fn discard(&self) {
        if self.made {
            // A folder that is not empty stays: `remove_dir` refuses it.
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Writes only the record.
    ///
    /// # Errors
    /// Those of [`output::write_file`].
    pub fn write_record(&self, record: &Record) -> Outcome {
        let text = serde_json::to_vec(record)
            .map_err(|error| Failure::missing(format!("cannot write the record as JSON: {error}")))?;
        output::write_file(&self.record(), &text)
    }

    /// Writes the record first, then evaluates it and prints the evaluation. If a later step fails, the
    /// measurement, which took the time, is still saved. The evaluation is printed even if the disk is full.
    ///
    /// # Errors
    /// [`Failure::Missing`] if a file cannot be written, [`Failure::ReaderGone`] if standard output is
    /// closed.
    pub fn save(&self, name: &str, record: Record, quiet: bool, format: Format) -> Outcome {
        let (all, written) = self.keep(name, record, quiet);
        let printed = output::print(&match format {
            Format::Json => manycore_report::json(&all),
            Format::Text => manycore_report::text(&all),
        });
        written.and(printed)
    }

    /// Writes the record, its report and its tables. Prints only a note that names the report.
    pub fn keep(&self, name: &str, record: Record, quiet: bool) -> ([NamedEvaluation; 1], Outcome) {
        let kept = self.write_record(&record);
        let all = [NamedEvaluation::new(name.to_owned(), record)];
        let page = self.path.join("report.html");
        let written = kept
            .and_then(|()| output::write_file(&page, manycore_report::html(&all).as_bytes()))
            .and_then(|()| self.write_tables(&manycore_report::csv(&all)));
        if written.is_ok() && !quiet {
            output::note(&format!(
                "The report is {}; the record and its tables are in the same directory.",
                page.display()
            ));
        }
        (all, written)
    }

    /// Writes the tables. Tables that an earlier run left here and this run does not have are removed, as is
    /// an earlier plan: they would pass for results of this run.
    fn write_tables(&self, tables: &[(String, String)]) -> Outcome {
        let stale = |name: &&str| self.used && !tables.iter().any(|(written, _)| written == name);
        let names = manycore_report::CSV_NAMES.iter().copied().filter(stale);
        // If this run has a plan, it is written after this.
        for path in names.chain(self.used.then_some("plan.json")).map(|name| self.path.join(name)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    let what =
                        format!("cannot remove {}, a table of an earlier record: {error}", path.display());
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
}

//! The folder of a run's results: the record, the page and the tables.

use crate::{
    cli::Results,
    failure::{Failure, Outcome},
    output,
};
use manycore_experiment::Record;
use manycore_linux::clock;
use manycore_report::{self, NamedEvaluation};
use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Converts `2026-11-21T19:40:58Z` into `20261121T194058Z`, which needs no quoting in a shell.
fn compact(utc: &str) -> String {
    utc.chars().filter(|character| !matches!(character, '-' | ':')).collect()
}

/// Creates a directory of this name in `base`. A number is appended where another run of the same second has taken
/// the name.
fn create_unused(base: &Path, name: &str) -> io::Result<PathBuf> {
    let numbered = (2..).map(|number| base.join(format!("{name}-{number}")));
    for path in [base.join(name)].into_iter().chain(numbered) {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => return created.map(|()| path),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Creates a directory for a run in the directory of all results.
///
/// # Errors
/// [`Failure::Missing`].
pub fn new_in(base: &Path, subcommand: &str) -> Outcome<PathBuf> {
    fs::create_dir_all(base).map_err(|error| unusable("create the directory", base, &error))?;
    create_unused(base, &format!("{subcommand}-{}", compact(&clock::utc())))
        .map_err(|error| unusable("create a directory in", base, &error))
}

/// Name of the link to the last results, beside them.
pub const LATEST: &str = "latest";

/// Name of the record in a directory of results.
pub const RECORD: &str = "record.json";

/// The folder for the results of one run.
pub struct Folder {
    path: PathBuf,
    /// The directory of all results, if this folder was created in it.
    base: Option<PathBuf>,
    /// The directories that were created for this run, innermost first.
    made: Vec<PathBuf>,
    /// Whether the folder holds the record of an earlier run.
    used: bool,
}

impl Folder {
    /// Creates or opens the directory of `--out`, or creates one named after the subcommand and the time in the
    /// directory of all results. Checks before anything is measured that files can be written there. The record of an
    /// earlier run is overwritten with `--force` only.
    ///
    /// # Errors
    /// [`Failure::Input`] if there is such a record, [`Failure::Missing`] if files cannot be written.
    pub fn open(to: &Results, subcommand: &str) -> Outcome<Self> {
        let folder = match &to.out {
            Some(path) => Self::given(path, to.force),
            None => Self::new_in(&to.base.results, subcommand),
        }?;
        match tempfile::tempfile_in(&folder.path) {
            Ok(_) => Ok(folder),
            Err(error) => {
                folder.discard();
                Err(unusable("write into", &folder.path, &error))
            }
        }
    }

    fn given(path: &Path, force: bool) -> Outcome<Self> {
        let used = path.join(RECORD).exists();
        if used && !force {
            return Err(Failure::input(format!(
                "{} contains an earlier record: give --force to overwrite it, or another --out to keep it",
                path.display()
            )));
        }
        let made = if path.exists() { Vec::new() } else { vec![path.to_owned()] };
        fs::create_dir_all(path).map_err(|error| unusable("create the directory", path, &error))?;
        Ok(Self { path: path.to_owned(), base: None, made, used })
    }

    fn new_in(base: &Path, subcommand: &str) -> Outcome<Self> {
        let was_there = base.exists();
        let path = new_in(base, subcommand)?;
        let made = [path.clone()].into_iter().chain((!was_there).then(|| base.to_owned())).collect();
        Ok(Self { path, base: Some(base.to_owned()), made, used: false })
    }

    /// Lets the link `latest` beside this folder point to it. A run does not fail for lack of the link: a file system
    /// may have none.
    fn link_as_latest(&self) {
        let (Some(base), Some(name)) = (&self.base, self.path.file_name()) else { return };
        let link = base.join(LATEST);
        // A file or a directory of this name belongs to the user.
        if fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink()) {
            return;
        }
        // Renamed into place, so that the link is there at all times.
        let new = base.join(format!(".{LATEST}-{}", std::process::id()));
        if symlink(name, &new).is_ok() && fs::rename(&new, &link).is_err() {
            let _ = fs::remove_file(&new);
        }
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the record.
    pub fn record(&self) -> PathBuf {
        self.path.join(RECORD)
    }

    /// Removes the directories that were created for this run. Called when a run has no result worth keeping.
    pub fn discard(&self) {
        for path in &self.made {
            // A directory that is not empty stays: `remove_dir` refuses it.
            let _ = fs::remove_dir(path);
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

    /// Writes the record, its report and its tables. Prints only a note that names the report.
    ///
    /// # Errors
    /// Those of [`output::write_file`].
    pub fn keep(&self, all: &[NamedEvaluation; 1], quiet: bool) -> Outcome {
        let page = self.path.join("report.html");
        self.write_record(&all[0].record)?;
        output::write_file(&page, manycore_report::html(all).as_bytes())?;
        self.write_tables(&manycore_report::csv(all))?;
        self.link_as_latest();
        if !quiet {
            output::note(&format!(
                "The report is {}; the record and its tables are in the same directory.",
                page.display()
            ));
        }
        Ok(())
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

/// The failure of a directory that cannot be used: before anything is measured, with the option that names another.
fn unusable(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::missing(format!(
        "cannot {what} {}: {error}; give a directory that you can write to with --out DIR",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::files::names_in;

    #[test]
    fn runs_of_one_second_get_directories_of_their_own() {
        let base = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            create_unused(base.path(), "eval-1").unwrap();
        }
        assert_eq!(names_in(base.path()), ["eval-1", "eval-1-2", "eval-1-3"]);
        assert!(create_unused(&base.path().join("none"), "eval-1").is_err());
    }

    #[test]
    fn a_discarded_run_leaves_no_directory() {
        let home = tempfile::tempdir().unwrap();
        let base = home.path().join("a/manycore-results");
        let first = Folder::new_in(&base, "eval").unwrap();
        let second = Folder::new_in(&base, "eval").unwrap();
        first.discard();
        assert_eq!(names_in(&base).len(), 1, "the directory of another run stays");
        second.discard();
        first.discard();
        assert!(!base.exists());
    }

    #[test]
    fn latest_is_the_last_run_unless_the_user_has_such_a_file() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join(LATEST);
        for _ in 0..2 {
            let folder = Folder::new_in(base.path(), "eval").unwrap();
            folder.link_as_latest();
            assert_eq!(Some(fs::read_link(&link).unwrap().as_os_str()), folder.path.file_name());
        }
        fs::remove_file(&link).unwrap();
        fs::write(&link, "mine").unwrap();
        Folder::new_in(base.path(), "eval").unwrap().link_as_latest();
        assert_eq!(fs::read_to_string(&link).unwrap(), "mine");
        assert!(names_in(base.path()).iter().all(|name| !name.starts_with('.')));
    }

    #[test]
    fn folders_are_named_after_the_moment() {
        assert_eq!(compact("2026-11-21T19:40:58Z"), "20261121T194058Z");
    }
}

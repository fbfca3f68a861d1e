//! Switches settings between runs, and restores them.

use super::{
    Setting, SettingError, SettingFiles,
    files::read,
    value::{same, value_of},
};
use crate::{
    Error,
    cleanup::{Cleanup, Leftover, Program},
    journal::{Change, Journal},
};
use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
};

/// Settings that are switched. They are restored when this is dropped; if this process is killed, by its cleanup
/// process or by `undo`.
#[derive(Debug)]
pub struct SettingSwitch {
    files: SettingFiles,
    /// The value that each file was left with.
    present: Vec<String>,
    /// Values that the journal has, with the index of their file.
    recorded: BTreeSet<(usize, String)>,
    pub(super) journal: Option<Journal>,
    /// Undoes the journal if this process is killed.
    _cleanup: Cleanup,
}

impl SettingSwitch {
    /// Begins a journal in `folder` for `request`, and a cleanup process from `program`. Each file is written once with
    /// the value that it has: one that cannot be written could not be restored either.
    ///
    /// # Errors
    /// A file cannot be written, or is switched by another run; there can be no journal or cleanup process. Nothing is
    /// changed then.
    pub fn begin(
        files: SettingFiles,
        folder: &Path,
        (subcommand, request): (&str, &str),
        program: &Program,
    ) -> Result<Self, SettingError> {
        let journal = Journal::begin(folder, subcommand, request, false)
            .map_err(|error| Error::JournalUnwritable { folder: folder.to_owned(), error })?;
        let ready = check_unused(&files, &journal)
            .and_then(|()| check_writable(&files))
            .and_then(|()| Ok(announced(&journal, program)?));
        match ready {
            Ok(cleanup) => Ok(Self {
                present: files.files().iter().map(|file| file.original.clone()).collect(),
                files,
                recorded: BTreeSet::new(),
                journal: Some(journal),
                _cleanup: cleanup,
            }),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    /// The files that are switched.
    pub fn files(&self) -> &SettingFiles {
        &self.files
    }

    /// Puts these settings in force, and the original value of each file that they do not name. Files that have their
    /// value already are not written.
    ///
    /// # Errors
    /// The kernel refuses a value, or another one is in force after it was written.
    pub fn apply(&mut self, settings: &[Setting]) -> Result<(), SettingError> {
        for (index, wanted) in self.files.wanted(settings)?.into_iter().enumerate() {
            if !same(&wanted, &self.present[index]) {
                self.write(index, wanted)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, index: usize, wanted: String) -> Result<(), SettingError> {
        let file = &self.files.files()[index];
        let path = file.path.clone();
        if let Some(journal) = &self.journal
            && !self.recorded.contains(&(index, wanted.clone()))
        {
            let (old, new) = (file.original.clone(), wanted.clone());
            journal.record(&Change::Setting { path: path.clone(), old, new }).map_err(Error::JournalWrite)?;
            self.recorded.insert((index, wanted.clone()));
        }
        write(&path, &wanted).map_err(|error| SettingError::Refused {
            path: path.clone(),
            value: wanted.clone(),
            error,
        })?;
        let text = read(&path)?;
        let found = value_of(&text);
        if !same(found, &wanted) {
            return Err(SettingError::NotTaken { path, wanted, found: found.to_owned() });
        }
        self.present[index] = wanted;
        Ok(())
    }

    /// Checks that all files still have the values that they were left with.
    ///
    /// # Errors
    /// [`SettingError::Changed`] with the first file that another process has changed.
    pub fn check(&self) -> Result<(), SettingError> {
        for (file, present) in self.files.files().iter().zip(&self.present) {
            let text = read(&file.path)?;
            let found = value_of(&text);
            if !same(found, present) {
                let (path, wanted) = (file.path.clone(), present.clone());
                return Err(SettingError::Changed { path, wanted, found: found.to_owned() });
            }
        }
        Ok(())
    }

    /// Restores the original values. Returns what could not be restored, and what another process has changed, one
    /// sentence each. Further calls do nothing.
    pub fn restore(&mut self) -> Vec<String> {
        let Some(journal) = self.journal.take() else { return Vec::new() };
        let id = journal.id();
        match journal.undo() {
            Ok(result) => {
                let failure = result.failure(&id);
                result.changed_by_others.into_iter().chain(failure).collect()
            }
            Err(error) => vec![format!("settings cannot be restored: {error}; run 'manycore undo {id}'")],
        }
    }
}

impl Drop for SettingSwitch {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Starts the cleanup process and announces the journal to it.
fn announced(journal: &Journal, program: &Program) -> Result<Cleanup, Error> {
    let mut cleanup = Cleanup::start(program)?;
    cleanup.add(Leftover::Journal(journal.id().into()))?;
    Ok(cleanup)
}

/// Checks that no other run switches one of the files. Its values would be taken for the original ones.
fn check_unused(files: &SettingFiles, journal: &Journal) -> Result<(), SettingError> {
    for other in journal.other_journals() {
        let is_switched = |path: &Path| {
            other
                .changes
                .iter()
                .any(|change| matches!(change, Change::Setting { path: own, .. } if own == path))
        };
        let file = files.files().iter().find(|file| is_switched(&file.path));
        if let Some(file) = file.filter(|_| other.owner_is_running && !other.header.persistent) {
            return Err(SettingError::InUse { path: file.path.clone(), journal: other.id() });
        }
    }
    Ok(())
}

/// Checks that each file takes the value that it has.
fn check_writable(files: &SettingFiles) -> Result<(), SettingError> {
    for file in files.files() {
        write(&file.path, &file.original).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => SettingError::NotASetting {
                path: file.path.clone(),
                why: format!("the kernel does not take back its value '{}'", file.original),
            },
            _ => SettingError::Unwritable { path: file.path.clone(), error },
        })?;
    }
    Ok(())
}

/// Writes a value in one call, as the kernel expects it.
fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

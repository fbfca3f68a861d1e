//! Switches settings between runs, and restores them.

use super::{
    Setting, SettingError, SettingFiles,
    files::{SettingFile, read},
    location::changes_cpus,
    value::{present, same, value_of},
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
    path::{Path, PathBuf},
};

/// `ENODEV`, for which the standard library has no kind.
const ENODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();

/// Settings that are switched. They are restored when this is dropped; if this process is killed, by its cleanup
/// process or by `undo`.
#[derive(Debug)]
pub struct SettingSwitch {
    files: SettingFiles,
    /// The value that each file was left with.
    present: Vec<String>,
    /// Values that the journal has, with their files.
    recorded: BTreeSet<(PathBuf, String)>,
    /// The CPUs of interrupts, where settings take CPUs offline.
    interrupts: Vec<SettingFile>,
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
                interrupts: files.interrupts(),
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

    /// Tries the settings of each variant, so that a value that the kernel refuses is found before anything is measured. The
    /// original values are in force then.
    ///
    /// # Errors
    /// Those of [`Self::apply`].
    pub fn tried<'a>(
        mut self,
        variants: impl IntoIterator<Item = &'a [Setting]>,
    ) -> Result<Self, SettingError> {
        for settings in variants {
            self.apply(settings)?;
        }
        self.apply(&[])?;
        Ok(self)
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
                if changes_cpus(&self.files.files()[index].path) {
                    self.follow_interrupts()?;
                }
            }
        }
        Ok(())
    }

    /// Gives interrupts whose CPUs the kernel has changed their own again, once all CPUs are as they were. Until then, the
    /// journal keeps what `undo` will find.
    fn follow_interrupts(&mut self) -> Result<(), SettingError> {
        let are_back = self.files.has_original_cpus(&self.present);
        for SettingFile { path, original } in self.interrupts.clone() {
            // An interrupt may vanish with its device.
            let Ok(text) = read(&path) else { continue };
            let found = value_of(&text);
            if same(found, &original) {
                continue;
            }
            if are_back {
                let (wanted, path) = (original.clone(), path.clone());
                write(&path, &original).map_err(|error| SettingError::Refused {
                    path,
                    value: wanted,
                    error,
                })?;
            } else {
                self.record(&path, &original, found)?;
            }
        }
        Ok(())
    }

    /// Records in the journal that a file has a value other than its original one.
    fn record(&mut self, path: &Path, original: &str, new: &str) -> Result<(), SettingError> {
        let key = (path.to_owned(), new.to_owned());
        if let Some(journal) = &self.journal
            && !self.recorded.contains(&key)
        {
            let (path, old, new) = (path.to_owned(), original.to_owned(), new.to_owned());
            journal.record(&Change::Setting { path, old, new }).map_err(Error::JournalWrite)?;
            self.recorded.insert(key);
        }
        Ok(())
    }

    fn write(&mut self, index: usize, wanted: String) -> Result<(), SettingError> {
        let SettingFile { path, original } = self.files.files()[index].clone();
        self.record(&path, &original, &wanted)?;
        write(&path, &wanted).map_err(|error| SettingError::Refused {
            path: path.clone(),
            value: wanted.clone(),
            error,
        })?;
        let text = read(&path)?;
        let found = present(&path, &text, &wanted);
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
        for (file, wanted) in self.files.files().iter().zip(&self.present) {
            let text = read(&file.path)?;
            let found = present(&file.path, &text, wanted);
            if !same(found, wanted) {
                let (path, wanted) = (file.path.clone(), wanted.clone());
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
            // The answer of smt/control where SMT does not exist or was disabled at boot.
            _ if error.raw_os_error() == Some(ENODEV) => SettingError::NotASetting {
                path: file.path.clone(),
                why: format!("this machine has no such device, and the file is '{}'", file.original),
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

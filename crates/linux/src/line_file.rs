//! A file to which lines are added, each whole or not at all.

use crate::trusted_file::{self, Untrusted};
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A file that is open for appending.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    file: File,
}

impl LineFile {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// It cannot be written; the message names it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            File::options().append(true).create(true).open(path).map_err(|error| with_path(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The same for a daemon of root: only a regular file of its own user is written ([`trusted_file::append`]).
    ///
    /// # Errors
    /// What is wrong with the file; the message names it.
    pub fn open_trusted(path: &Path) -> Result<Self, Untrusted> {
        Ok(Self { path: path.to_owned(), file: trusted_file::append(path)? })
    }

    /// Opens the file of [`Self::open_trusted`] again, after it was renamed or removed.
    ///
    /// # Errors
    /// Those of [`Self::open_trusted`]; the old file stays open then.
    pub fn reopen(&mut self) -> Result<(), Untrusted> {
        self.file = trusted_file::append(&self.path)?;
        Ok(())
    }

    /// Adds a line.
    ///
    /// # Errors
    /// It cannot be written, or the disk is full; the message names the file.
    pub fn add(&mut self, line: &str) -> io::Result<()> {
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(|error| with_path(&self.path, &error))
    }
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

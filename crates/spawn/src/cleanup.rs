//! Cleanup of what must not outlive a run, however this program ends: control groups and scratch directories.
//!
//! A journal lists the groups. The cleanup process, to which each group and directory is announced, removes all of
//! them if this program is killed.

use crate::error::{Error, Result};
use manycore_control::{
    cleanup::{self, Leftover, Program},
    journal::{self, Journal},
    memory_group::MemoryGroup,
};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Control groups and directories made for runtimes, and the process that removes them.
pub struct Cleanup {
    journal: Result<Journal, String>,
    process: cleanup::Cleanup,
    /// Number of groups created so far.
    groups: u32,
}

impl Cleanup {
    /// Starts the journal and the cleanup process for the request `what`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no process can be started.
    pub fn begin(what: &str) -> Result<Self> {
        let mut process = cleanup::Cleanup::start(&Program::own())?;
        let folder = journal::folder();
        let journal = Journal::begin(&folder, "spawn", what, false)
            .map_err(|error| format!("cannot write a journal in {}: {error}", folder.display()));
        if let Ok(id) = journal.as_ref().map(Journal::id) {
            process.add(Leftover::Journal(id.into()))?;
        }
        Ok(Self { journal, process, groups: 0 })
    }

    /// Creates a control group with a memory limit of `limit` bytes.
    ///
    /// # Errors
    /// The reason why there can be none, as text for the user.
    pub fn group(&mut self, limit: u64) -> Result<MemoryGroup, String> {
        self.groups += 1;
        let journal = self.journal.as_ref().map_err(Clone::clone)?;
        // The journal lists the group before it is created; processes enter it only later.
        let group = MemoryGroup::create(journal, &self.groups.to_string(), limit)
            .map_err(|error| error.to_string())?;
        let announced = self.process.add(Leftover::Group(group.folder().to_owned()));
        announced.map_err(|error| error.to_string())?;
        Ok(group)
    }

    /// Creates a scratch directory below `parent`, or below the directory for temporary files.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be created.
    pub fn scratch(&mut self, parent: Option<&Path>) -> Result<ScratchDirectory> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let failure = |error: io::Error| {
            Error::unavailable(format!("cannot create a scratch directory in {}: {error}", parent.display()))
        };
        let parent = fs::canonicalize(&parent).map_err(failure)?;
        let mut announced = Ok(());
        let made = tempfile::Builder::new().prefix("manycore-spawn-").make_in(&parent, |path| {
            announced = self.process.add(Leftover::Directory(path.to_owned()));
            fs::DirBuilder::new().mode(0o700).create(path)
        });
        let path = made.and_then(|made| Ok(made.into_temp_path().keep()?)).map_err(failure)?;
        let scratch = ScratchDirectory(path);
        announced?;
        Ok(scratch)
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Ok(journal) = std::mem::replace(&mut self.journal, Err(String::new())) {
            // Removes groups that still exist. The journal is removed as well if nothing remains.
            let _ = journal.undo();
        }
    }
}

/// A directory that is removed with its contents when this is dropped.
pub struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

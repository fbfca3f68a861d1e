//! Creates journals and appends changes.

use super::{
    change::{Change, Header, JOURNAL_SCHEMA, Owner},
    directory::{EXTENSION, boot_id, id, make_folder, namespace},
    pending::{Pending, pending},
    undo::{self, UndoResult},
};
use manycore_linux::{clock, tasks};
use manycore_text::names::printable;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// An open journal. The lock on it shows other processes that its owner is running.
#[derive(Debug)]
pub struct Journal {
    file: File,
    pub(super) path: PathBuf,
}

impl Journal {
    /// Creates a journal in `folder` (see `folder`), named after `subcommand` and this process. `request` describes
    /// the request; `persistent` means that the changes outlive this process.
    ///
    /// # Errors
    /// The directory or the file cannot be created or written, or the directory belongs to another user.
    pub fn begin(folder: &Path, subcommand: &str, request: &str, persistent: bool) -> io::Result<Self> {
        make_folder(folder)?;
        // The final name appears only when the file is locked and has its header.
        let hidden = folder.join(format!(".{subcommand}-{}", std::process::id()));
        let _ = fs::remove_file(&hidden);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
        let file = File::from(open(&hidden, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut journal = Self { file, path: hidden };
        let written = journal.write(&Header {
            schema: JOURNAL_SCHEMA.to_owned(),
            boot_id: boot_id(),
            pid_namespace: namespace(),
            began: clock::utc(),
            began_ns: clock::now_ns(),
            owner: tasks::start_time(std::process::id())
                .map(|start| Owner { pid: std::process::id(), start }),
            request: printable(request),
            persistent,
        });
        let published = written.and_then(|()| publish(&journal.path, folder, subcommand));
        let _ = fs::remove_file(&journal.path);
        journal.path = published?;
        Ok(journal)
    }

    /// Returns all other journals in the same directory, newest first.
    pub(crate) fn other_journals(&self) -> Vec<Pending> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let (all, _) = pending(folder).unwrap_or_default();
        all.into_iter().filter(|other| other.path != self.path).collect()
    }

    /// Returns its name, as `undo` takes it.
    pub fn id(&self) -> String {
        id(&self.path)
    }

    /// Records a change; must be called before the change is made.
    ///
    /// # Errors
    /// It cannot be written; then the change must not be made.
    pub fn record(&self, change: &Change) -> io::Result<()> {
        self.write(change)
    }

    /// Writes one line in one call, so that a killed process leaves no partial line.
    fn write(&self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        (&self.file).write_all(&text)
    }

    /// Undoes all changes, newest first, and removes the journal if nothing is left to be undone.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn undo(self) -> io::Result<UndoResult> {
        undo::restore(&self.path)
    }

    /// Removes the journal without undoing anything. For journals whose changes are no longer in force.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Journal {
    /// Releases the lock, which a child of this process also holds between fork and exec.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Gives a journal its final name.
fn publish(hidden: &Path, folder: &Path, subcommand: &str) -> io::Result<PathBuf> {
    let mut turn = 0;
    loop {
        let suffix = if turn == 0 { String::new() } else { format!("-{turn}") };
        let path = folder.join(format!("{subcommand}-{}{suffix}.{EXTENSION}", std::process::id()));
        match fs::hard_link(hidden, &path) {
            // A journal of an earlier process with our id is still there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => turn += 1,
            linked => return linked.map(|()| path),
        }
    }
}

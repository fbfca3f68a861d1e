//! Undoes the changes of a journal: first instances of measured services and schedulers, then tasks and their control groups, then resctrl groups, then settings.

mod instances;
mod limits;
mod resctrl_groups;
mod result;
mod schedulers;
mod scheduling_classes;
mod settings;
mod tasks;

pub use result::UndoResult;

use super::pending::Pending;
use rustix::{
    fs::{FlockOperation, flock},
    io::retry_on_intr,
};
use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Undoes the changes of the journal at `path`, whose lock the caller holds.
///
/// # Errors
/// It cannot be read.
pub(super) fn restore(path: &Path) -> io::Result<UndoResult> {
    // Only one undo per directory at a time: no original value may be recorded in another journal after that journal
    // was read.
    let folder = File::open(path.parent().unwrap_or(Path::new(".")))?;
    retry_on_intr(|| flock(&folder, FlockOperation::LockExclusive))?;
    Ok(Pending::read(path)?.restore())
}

impl Pending {
    /// Undoes all changes, newest first. Tasks that have ended are skipped, even if their ids were reused.
    /// Settings that another program has changed since are left unchanged. If that was the owner of a newer
    /// journal, the original value is recorded there. The journal is removed unless something failed. Does
    /// nothing if the owner still runs or another undo is in progress.
    ///
    /// The journal is read again, so changes that were recorded after `self` was read are undone as well.
    pub fn undo(&self) -> Option<UndoResult> {
        let _lock = match self.lock() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(UndoResult::default()),
            lock => lock.ok()?,
        };
        Some(restore(&self.path).unwrap_or_else(|error| UndoResult {
            failed: vec![format!("cannot read {}: {error}", self.path.display())],
            ..UndoResult::default()
        }))
    }

    fn restore(&self) -> UndoResult {
        let mut restored = UndoResult::default();
        if !self.is_from_earlier_boot() {
            if self.is_from_other_namespace() {
                let place = &self.header.pid_namespace;
                restored.failed.push(format!(
                    "its processes are in another process namespace ({place}): run undo there"
                ));
                return restored;
            }
            instances::restore(self, &mut restored);
            schedulers::restore(self, &mut restored);
            scheduling_classes::restore(self, &mut restored);
            self.restore_tasks(&mut restored);
            resctrl_groups::restore(self, &mut restored);
            settings::restore(self, &mut restored);
            if self.unreadable_lines > 0 {
                let (lines, path) = (self.unreadable_lines, self.path.display());
                restored
                    .failed
                    .push(format!("{lines} lines of {path} cannot be read: check the file, then remove it"));
            }
        }
        if restored.failed.is_empty() && restored.deferred.is_empty() {
            let _ = fs::remove_file(&self.path);
        } else if restored.failed.is_empty()
            && let Err(error) = self.keep_only(&restored.deferred)
        {
            restored.failed.push(format!("cannot write {}: {error}", self.path.display()));
        }
        restored
    }
}

//! Opens the files of the system, and finds the groups that manycore created.

use crate::error::{Error, Result};
use manycore_control::journal::{self, Change, Journal, Pending};
use manycore_experiment::session::{Event, Listener};
use manycore_linux::resctrl::{self, Files};
use manycore_topology::SysTree;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Opens the files of this system.
///
/// # Errors
/// They cannot be opened.
pub fn system() -> Result<SysTree> {
    Ok(SysTree::open(Path::new("/"))?)
}

/// Opens the resctrl file system at `mount_point`, or the mounted one.
///
/// # Errors
/// There is none, or it cannot be opened.
pub fn open(system: &SysTree, mount_point: Option<&Path>) -> Result<Files> {
    let mount = resctrl::find(system, mount_point)?;
    Ok(Files::open(system, &mount)?)
}

/// Returns the directories of the groups that manycore created, with the names of their journals. Empty for users that
/// may not read the journals.
pub fn created_groups() -> BTreeMap<PathBuf, String> {
    let (pending, _) = journal::pending(&journal::folder()).unwrap_or_default();
    let groups = |pending: &Pending| {
        let id = pending.id();
        groups_of(pending).into_iter().map(|path| (path.to_owned(), id.clone())).collect::<Vec<_>>()
    };
    pending.iter().filter(|pending| !pending.is_from_earlier_boot()).flat_map(groups).collect()
}

/// Returns the directories of the groups that were created according to a journal.
pub(crate) fn groups_of(pending: &Pending) -> Vec<&Path> {
    let not_created: BTreeSet<&Path> = pending
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::ResctrlGroupNotCreated { path } => Some(path.as_path()),
            _ => None,
        })
        .collect();
    let created = pending.changes.iter().filter_map(|change| match change {
        Change::ResctrlGroup { path } => Some(path.as_path()),
        _ => None,
    });
    created.filter(|path| !not_created.contains(path)).collect()
}

/// Begins a journal in the directory of journals.
///
/// # Errors
/// It cannot be written.
pub(crate) fn begin_journal(request: &str, persistent: bool) -> Result<Journal> {
    let folder = journal::folder();
    Journal::begin(&folder, "qos", request, persistent).map_err(|error| {
        Error::Journal(format!(
            "cannot write a journal in {}: {error}; nothing was changed",
            folder.display()
        ))
    })
}

/// Undoes the changes in a journal, and reports settings that others have changed since.
///
/// # Errors
/// [`Error::NotUndone`] if some of them cannot be undone.
pub(crate) fn undo_changes(journal: Journal, listener: &mut dyn Listener) -> Result {
    let id = journal.id();
    let restored =
        journal.undo().map_err(|error| Error::NotUndone(format!("cannot read the journal {id}: {error}")))?;
    for line in &restored.changed_by_others {
        listener.event(Event::Note(line));
    }
    restored.failure(&id).map_or(Ok(()), |failure| Err(Error::NotUndone(failure)))
}

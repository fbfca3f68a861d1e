//! Undoes limits that were set.

use crate::error::{Error, Result};
use manycore_control::journal::{self, Change, Pending, report::Undone};
use std::path::Path;

/// The groups whose changes are undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All groups that manycore has changed. Groups whose owner still runs are left unchanged.
    All,
    /// The groups of these names; `/` is the default group.
    Named(Vec<String>),
}

/// Undoes the changes to the selected groups, and returns the results by journal.
///
/// # Errors
/// [`Error::NotOurs`] for a group that manycore has not changed, [`Error::Running`] for one that another process
/// manages; nothing is undone then.
pub fn clear(selection: &Selection) -> Result<Vec<Undone>> {
    let folder = journal::folder();
    let (pending, _) = journal::pending(&folder).map_err(|error| {
        Error::Journal(format!("cannot read the journals in {}: {error}", folder.display()))
    })?;
    let selected = match selection {
        Selection::All => pending.into_iter().filter(changes_groups).collect(),
        Selection::Named(names) => select_named(pending, names)?,
    };
    Ok(selected.into_iter().map(Undone::undo).collect())
}

fn select_named(pending: Vec<Pending>, names: &[String]) -> Result<Vec<Pending>> {
    let touches = |pending: &Pending, name: &str| pending.changes.iter().any(|change| is_of(change, name));
    if let Some(name) = names.iter().find(|name| !pending.iter().any(|one| touches(one, name))) {
        return Err(Error::NotOurs(name.clone()));
    }
    let selected: Vec<Pending> =
        pending.into_iter().filter(|one| names.iter().any(|name| touches(one, name))).collect();
    match selected.iter().find(|one| one.owner_is_running) {
        Some(running) => {
            Err(Error::Running { journal: running.id(), request: running.header.request.clone() })
        }
        None => Ok(selected),
    }
}

/// Whether the journal holds changes to cache or bandwidth limits.
fn changes_groups(pending: &Pending) -> bool {
    pending.changes.iter().any(|change| group_of(change).is_some() || matches!(change, Change::Mount { .. }))
        && !pending.is_from_earlier_boot()
}

fn is_of(change: &Change, name: &str) -> bool {
    // The default group is the mount point itself.
    let is_root = |path: &Path| name == "/" && path.join("info").is_dir();
    group_of(change).is_some_and(|path| is_root(path) || path.file_name().is_some_and(|last| last == name))
}

/// Returns the directory of the group that a change was made to.
fn group_of(change: &Change) -> Option<&Path> {
    match change {
        Change::ResctrlGroup { path } | Change::Limit { path, .. } => Some(path),
        Change::TaskMoved { to, .. } | Change::CpusMoved { to, .. } => Some(to),
        _ => None,
    }
}

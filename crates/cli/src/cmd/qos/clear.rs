//! `manycore qos clear`.

use crate::{
    cli::QosClear,
    cmd::undo,
    failure::{Failure, Outcome},
};
use manycore_control::journal::{self, Change, Pending, report::Undone};
use std::path::Path;

/// Undoes the changes to the named groups, or to all groups.
///
/// # Errors
/// [`Failure::Input`] for a group that manycore has not changed or that a running `qos set --follow` manages,
/// [`Failure::Missing`] if a change could not be undone.
pub fn run(args: &QosClear) -> Outcome {
    let folder = journal::folder();
    let (pending, _) = journal::pending(&folder).map_err(|error| {
        Failure::missing(format!("cannot read the journals in {}: {error}", folder.display()))
    })?;
    let touches = |pending: &Pending, name: &str| pending.changes.iter().any(|change| is_of(change, name));
    if let Some(name) = args.names.iter().find(|name| !pending.iter().any(|one| touches(one, name))) {
        return Err(Failure::input(format!(
            "manycore has changed no group {name:?}: 'manycore qos show' lists the groups with their owners, and only \
             the owner can remove a group"
        )));
    }
    let chosen: Vec<Pending> = pending
        .into_iter()
        .filter(|one| if args.all { is_ours(one) } else { args.names.iter().any(|name| touches(one, name)) })
        .collect();
    if let Some(running) = chosen.iter().find(|one| one.owner_is_running && !args.all) {
        let (id, what) = (running.id(), &running.header.request);
        return Err(Failure::input(format!(
            "{id} ({what}) is still running and undoes its own changes: stop it first"
        )));
    }
    let undone: Vec<Undone> = chosen.into_iter().map(Undone::undo).collect();
    undo::print(&undone, args.format, 0)
}

/// Whether the journal holds changes to cache or bandwidth limits.
fn is_ours(pending: &Pending) -> bool {
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

//! Finds the group that was made for the same target before. It is changed instead of creating another one,
//! since the hardware supports only a few groups.

use crate::{
    cli::QosSet,
    failure::{Failure, Outcome},
};
use manycore_control::{
    journal,
    journal::{Change, Pending},
};
use manycore_linux::resctrl::state::{Group, Role, State};
use manycore_linux::targets::Members;
use manycore_topology::SysTree;
use std::{collections::BTreeSet, path::Path};

/// Returns the newest existing group that an earlier `qos set` made for the target of `args`.
///
/// A target is the same if its text on the command line is the same. In addition, processes must be in the
/// group, because their ids may have been reused since, and CPUs must be the CPUs of the group.
pub(super) fn group(
    args: &QosSet,
    system: &SysTree,
    state: &State,
    members: Option<&Members>,
) -> Option<Group> {
    let (all, _) = journal::pending(&journal::folder()).unwrap_or_default();
    let what = super::asked(args);
    let same = all.iter().filter(|pending| pending.header.request == what && !pending.is_from_earlier_boot());
    let mut names = same.flat_map(made);
    let is_its = |group: &&Group| match members {
        Some(Members::Trees(_)) => {
            let tasks = members.map(Members::tasks).unwrap_or_default();
            let inside = super::files(system, &args.resctrl).map(|files| files.tasks(&group.name));
            inside.is_ok_and(|inside| inside.iter().any(|tid| tasks.contains(tid)))
        }
        Some(Members::Folder(_)) => true,
        None => args.target.cpus.as_ref().is_some_and(|cpus| group.cpus == *cpus),
    };
    let known = |name: String| state.group(&name).filter(|group| group.role == Role::Control).filter(is_its);
    names.find_map(known).cloned()
}

/// Returns the names of the groups that were created according to a journal.
fn made(pending: &Pending) -> Vec<String> {
    let not: BTreeSet<&Path> = pending
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::ResctrlGroupNotCreated { path } => Some(path.as_path()),
            _ => None,
        })
        .collect();
    let made = pending.changes.iter().filter_map(|change| match change {
        Change::ResctrlGroup { path } if !not.contains(path.as_path()) => Some(path),
        _ => None,
    });
    made.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

/// Checks that no other name is requested for an existing group.
///
/// # Errors
/// [`Failure::Input`] for another name.
pub(super) fn check_name(args: &QosSet, group: &Group) -> Outcome {
    match &args.name {
        Some(name) if *name != group.name => Err(Failure::input(format!(
            "--name {name}: the group {} was made for this target before and keeps its name; leave --name out, or \
             undo that change first (manycore undo)",
            group.title()
        ))),
        _ => Ok(()),
    }
}

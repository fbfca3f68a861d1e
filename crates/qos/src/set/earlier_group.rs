//! Finds the group that was made for the same target before. It is changed instead of creating another one,
//! since the hardware supports only a few groups.

use super::{LimitTarget, Options};
use crate::{
    error::{Error, Result},
    system::groups_of,
};
use manycore_control::journal;
use manycore_linux::{
    resctrl::{
        Files,
        state::{GroupRole, QosGroup, QosState},
    },
    targets::Members,
};

/// Returns the newest existing group that an earlier request created for the target.
///
/// A target is the same if its description is the same. In addition, processes must be in the group, because
/// their ids may have been reused since, and CPUs must be the CPUs of the group.
pub(super) fn find(
    options: &Options,
    files: &Files,
    state: &QosState,
    members: Option<&Members>,
) -> Option<QosGroup> {
    let (all, _) = journal::pending(&journal::folder()).unwrap_or_default();
    let request = super::request(options);
    let same =
        all.iter().filter(|pending| pending.header.request == request && !pending.is_from_earlier_boot());
    let mut names =
        same.flat_map(groups_of).filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let is_its = |group: &&QosGroup| match (members, &options.target) {
        (Some(members @ Members::ProcessTrees(_)), _) => {
            let tasks = members.tasks();
            files.tasks(&group.name).iter().any(|tid| tasks.contains(tid))
        }
        (Some(Members::ControlGroup(_)), _) => true,
        (None, LimitTarget::Cpus(cpus)) => group.cpus == *cpus,
        (None, _) => false,
    };
    let known =
        |name: String| state.group(&name).filter(|group| group.role == GroupRole::Control).filter(is_its);
    names.find_map(known).cloned()
}

/// Checks that no other name is requested for an existing group.
///
/// # Errors
/// [`Error::KeepsName`] for another name.
pub(super) fn check_name(options: &Options, group: &QosGroup) -> Result {
    match &options.name {
        Some(name) if *name != group.name => {
            Err(Error::KeepsName { group: group.display_name().to_owned(), name: name.clone() })
        }
        _ => Ok(()),
    }
}

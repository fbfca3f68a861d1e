//! The state of all groups, or of one.

use crate::{
    created_groups,
    error::{Error, Result},
    open, system,
};
use manycore_linux::resctrl::state::{QosGroup, QosState};
use manycore_text::names;
use std::path::Path;

/// Reads what can be set, and the groups: all of them, or the group called `name` with its tasks.
///
/// # Errors
/// resctrl is not usable, or there is no such group.
pub fn show(mount_point: Option<&Path>, name: Option<&str>) -> Result<(QosState, Option<Vec<u32>>)> {
    let files = open(&system()?, mount_point)?;
    let mut state = files.state(&created_groups());
    let Some(name) = name else { return Ok((state, None)) };
    let Some(group) = state.group(name).cloned() else {
        let instead = names::instead(state.groups.iter().map(QosGroup::display_name), name);
        return Err(Error::NoGroup { name: name.to_owned(), instead });
    };
    let tasks = files.tasks(&group.name);
    state.groups = vec![group];
    Ok((state, Some(tasks)))
}

//! Cache and memory-bandwidth control: the `resctrl` file system (`Documentation/filesystems/resctrl.rst`).
//! openEuler's kernels have their own dialects of it, see [`manycore_linux::resctrl::dialect`].

use manycore_control::journal::{Change, Pending};
use std::{collections::BTreeMap, path::PathBuf};

/// Returns the directories of the groups that these journals created, each with the journal's name.
pub fn ours(pending: &[Pending]) -> BTreeMap<PathBuf, String> {
    let made = |pending: &Pending| {
        let id = pending.id();
        let paths = pending.changes.iter().filter_map(|change| match change {
            Change::ResctrlGroup { path } => Some(path.clone()),
            _ => None,
        });
        paths.map(|path| (path, id.clone())).collect::<Vec<_>>()
    };
    pending.iter().filter(|pending| !pending.is_from_earlier_boot()).flat_map(made).collect()
}

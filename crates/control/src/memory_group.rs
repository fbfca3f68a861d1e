//! A control group with a memory limit (`memory`, `Documentation/admin-guide/cgroup-v2.rst` and
//! `cgroup-v1/memory.rst`) for a program that may need more memory than there is. If the group reaches the
//! limit, the kernel kills processes in the group and nowhere else.

use crate::{
    GroupError, group_end, group_limits, group_place,
    journal::{Change, Journal},
};
use manycore_topology::{cgroup::HierarchyKind, sys_tree::SysTree};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Name of the controller.
const CONTROLLER: &str = "memory";

/// A group created by us. It exists until it is removed or its journal is undone.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    flavour: HierarchyKind,
}

impl MemoryGroup {
    /// Creates a group below our own group, named after the journal and `name`, with a limit of `limit`
    /// bytes. In version 2, a group with processes cannot have such children. The group is then created
    /// beside ours, unless ours has a limit that it would escape.
    ///
    /// # Errors
    /// Why no group can be created. What was created until then is in the journal.
    pub fn create(journal: &Journal, name: &str, limit: u64) -> Result<Self, GroupError> {
        let tree = SysTree::open(Path::new("/"))?;
        let (above, flavour) = parent_group(&tree)?;
        let folder = above.join(format!("manycore-{}-{name}", journal.id()));
        let group = Self { folder: folder.clone(), flavour };
        let make = || -> io::Result<()> {
            journal.record(&Change::ControlGroup { path: folder.clone() })?;
            fs::create_dir(&folder)?;
            group_limits::limit_memory(&folder, flavour, limit)
        };
        match make() {
            Ok(()) => Ok(group),
            Err(error) => {
                let _ = fs::remove_dir(&folder);
                Err(GroupError::Create { what: "control group", parent: above, error })
            }
        }
    }

    /// Returns its directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file through which processes enter the group, by writing their id (`0` for the writer).
    pub fn entrance(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Returns the memory charged to the group in bytes: memory of its processes, page cache of files they
    /// have read and written, kernel memory.
    pub fn charge(&self) -> Option<u64> {
        self.number(if self.flavour == HierarchyKind::Unified {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        })
    }

    /// Returns the kernel's part of the charge: page tables, kernel stacks, task structures and the like.
    pub fn kernel(&self) -> Option<u64> {
        if self.flavour != HierarchyKind::Unified {
            return self.number("memory.kmem.usage_in_bytes");
        }
        let stat = fs::read_to_string(self.folder.join("memory.stat")).ok()?;
        // Since Linux 5.18; before, its main parts are added up.
        value(&stat, "kernel").or_else(|| {
            let parts = ["kernel_stack", "pagetables", "slab"];
            parts.into_iter().filter_map(|name| value(&stat, name)).reduce(u64::saturating_add)
        })
    }

    /// Returns how often the OOM killer has killed in the group.
    pub fn killed(&self) -> u64 {
        let file =
            if self.flavour == HierarchyKind::Unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        value(&text, "oom_kill").unwrap_or(0)
    }

    /// Returns the processes in the group.
    pub fn members(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.entrance()).unwrap_or_default();
        text.lines().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Kills all processes in the group and removes it.
    ///
    /// # Errors
    /// The group cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        group_end::end(&self.folder).map(drop)
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }
}

/// Returns the directory below which [`MemoryGroup::create`] would create a group. Nothing is created.
///
/// # Errors
/// Why no group can be created.
pub fn parent_of_own() -> Result<PathBuf, GroupError> {
    let (folder, _) = parent_group(&SysTree::open(Path::new("/"))?)?;
    Ok(folder)
}

/// Returns the directory in which a group can be created.
fn parent_group(tree: &SysTree) -> Result<(PathBuf, HierarchyKind), GroupError> {
    if let Some(own) = group_place::named(tree, CONTROLLER) {
        return Ok((own, HierarchyKind::Named));
    }
    Ok((group_place::unified(tree, &[CONTROLLER], false)?, HierarchyKind::Unified))
}

/// Returns the number after `name` in lines `name number`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let stat = "kernel_stack 16384\nkernel 20480\n";
        assert_eq!(value(stat, "kernel"), Some(20480));
        assert_eq!(value(stat, "kern"), None);
    }

    #[test]
    fn a_group_is_created_limits_memory_and_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::begin(folder.path(), "test", "a memory group", false).unwrap();
        let group = match MemoryGroup::create(&journal, "0", 64 << 20) {
            Ok(group) => group,
            Err(why) => return eprintln!("SKIPPED: {why}"),
        };
        let mut hungry = std::process::Command::new("sh");
        hungry.arg("-c").arg(format!("echo 0 > {}; exec tail /dev/zero", group.entrance().display()));
        assert!(!hungry.status().unwrap().success(), "tail keeps everything that it reads");
        assert!(group.killed() > 0 && group.charge().is_some());
        group.remove().unwrap();
        assert!(!group.folder().exists());
        journal.discard();
    }
}

//! A control group with a memory limit (`memory`, `Documentation/admin-guide/cgroup-v2.rst` and
//! `cgroup-v1/memory.rst`) for a program that may need more memory than there is. If the group reaches the
//! limit, the kernel kills processes in the group and nowhere else.

use crate::{
    GroupError, group_dir,
    journal::{Change, Journal},
};
use manycore_topology::{
    cgroup::{self, GroupFolder, HierarchyKind},
    sys_tree::SysTree,
};
use rustix::process::{Pid, Signal, kill_process};
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
            group.limit(limit)
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

    /// Sets the limit for memory, and for memory and swap together.
    fn limit(&self, bytes: u64) -> io::Result<()> {
        let write = |file: &str, value: &str| fs::write(self.folder.join(file), value);
        match self.flavour {
            HierarchyKind::Unified => {
                write("memory.max", &bytes.to_string())?;
                // Absent without swap.
                let _ = write("memory.swap.max", "0");
            }
            HierarchyKind::Named | HierarchyKind::Bare => {
                write("memory.limit_in_bytes", &bytes.to_string())?;
                // Absent if the kernel does not charge swap to groups.
                let _ = write("memory.memsw.limit_in_bytes", &bytes.to_string());
            }
        }
        Ok(())
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
        end(&self.folder)
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }
}

/// Kills all processes in the group `folder` and removes it.
///
/// # Errors
/// The group cannot be removed.
pub fn end(folder: &Path) -> io::Result<()> {
    // Processes that are forked meanwhile are killed in the next round.
    const ROUNDS: usize = 100;
    for _ in 0..ROUNDS {
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let pids: Vec<Pid> = text.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
        if pids.is_empty() {
            break;
        }
        for pid in pids {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    group_dir::remove(folder)
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
    let folders = cgroup::folders(tree, CONTROLLER);
    let lists = |folder: &GroupFolder, file: &str| {
        let text = tree.read(&format!("{}/{file}", folder.path)).unwrap_or_default();
        text.split_whitespace().any(|name| name == CONTROLLER)
    };
    if let Some(own) = folders.iter().rfind(|folder| folder.flavour == HierarchyKind::Named) {
        return Ok((Path::new("/").join(&own.path), own.flavour));
    }
    let chain: Vec<&GroupFolder> =
        folders.iter().filter(|folder| folder.flavour == HierarchyKind::Unified).collect();
    for (index, folder) in chain.iter().enumerate().rev() {
        let inner = chain.get(index + 1);
        let escapes = inner.is_some_and(|inner| {
            tree.read(&format!("{}/memory.max", inner.path)).is_some_and(|limit| limit.trim() != "max")
        });
        if escapes {
            let inner = inner.map_or("", |inner| inner.path.as_str());
            return Err(GroupError::Escapes(Path::new("/").join(inner)));
        }
        if lists(folder, "cgroup.subtree_control") {
            return Ok((Path::new("/").join(&folder.path), HierarchyKind::Unified));
        }
    }
    Err(GroupError::NoMemory)
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

//! Control groups that restrict processes to CPUs and memory nodes (`cpuset`,
//! `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/cpusets.rst`). Unlike an affinity, a cpuset
//! cannot be changed by the process itself.

use crate::{
    GroupError,
    group_dir::{self, CPUSET},
    journal::{Change, Journal},
};
use manycore_linux::tasks;
use manycore_topology::{CpuSet, cgroup::HierarchyKind, sys_tree::SysTree};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Beginning of the names of groups that manycore creates.
pub(crate) const PREFIX: &str = "manycore-";

/// A group created by manycore, below the original group of a process.
#[derive(Debug)]
pub struct CpusetGroup {
    /// The original group of the process.
    parent: PathBuf,
    /// The group itself.
    group: PathBuf,
    /// Whether the command was started in the group.
    entered: bool,
}

/// Returns the name of the groups that belong to a journal.
pub(crate) fn name_of(journal: &Journal) -> String {
    format!("{PREFIX}{}", journal.id())
}

/// Returns the directory below which a cpuset for a command of this process would be created. Nothing is created.
///
/// # Errors
/// The cpuset controller is not available to the group of this process.
pub fn parent_of_own() -> Result<PathBuf, GroupError> {
    let pid = std::process::id();
    let tree = SysTree::open(Path::new("/"))?;
    let parent = group_dir::cpuset_parent_of(&tree, pid, "").ok_or_else(|| missing(pid))?;
    Ok(Path::new("/").join(parent.path))
}

impl CpusetGroup {
    /// Creates a group for `cpus` and `nodes` (those of the parent group if empty) below the group of process
    /// `pid`, so that the other limits of that group stay in force. It is named after the journal.
    ///
    /// Where the kernel resets affinities ([`manycore_linux::kernel::resets_affinities`]), entering it resets those of the processes.
    ///
    /// # Errors
    /// Why it cannot be created; the changes made before are in the journal.
    pub fn create(journal: &Journal, pid: u32, cpus: &CpuSet, nodes: &CpuSet) -> Result<Self, GroupError> {
        let tree = SysTree::open(Path::new("/"))?;
        let name = name_of(journal);
        let parent = group_dir::cpuset_parent_of(&tree, pid, &name).ok_or_else(|| missing(pid))?;
        let mut folder = Path::new("/").join(&parent.path);
        // In version 2, the process may have been started in a group of this journal.
        if folder.ends_with(&name) {
            folder.pop();
        }
        let group = folder.join(name);
        let entered = parent.flavour == HierarchyKind::Unified && group.is_dir();
        let make = || -> io::Result<()> {
            if parent.flavour == HierarchyKind::Unified {
                group_dir::enable(journal, &folder, CPUSET)?;
            }
            if !entered {
                journal.record(&Change::ControlGroup { path: group.clone() })?;
                fs::create_dir(&group)?;
            }
            if parent.flavour == HierarchyKind::Unified {
                make_threaded(&group)?;
            }
            fs::write(group.join("cpuset.cpus"), cpus.to_string())?;
            match parent.flavour {
                HierarchyKind::Unified if nodes.is_empty() => Ok(()),
                // Version 1 does not inherit from the parent group.
                _ if nodes.is_empty() => {
                    fs::write(group.join("cpuset.mems"), fs::read(folder.join("cpuset.mems"))?)
                }
                _ => fs::write(group.join("cpuset.mems"), nodes.to_string()),
            }
        };
        match make() {
            Ok(()) => Ok(Self { parent: folder, group, entered }),
            Err(error) => {
                // If this fails, undo removes the group.
                let _ = if entered { Ok(()) } else { group_dir::remove(&group) };
                Err(GroupError::Create { what: "cpuset", parent: folder, error })
            }
        }
    }

    /// Removes the group again, if no process has entered it.
    pub fn remove_unused(self) {
        if !self.entered {
            let _ = group_dir::remove(&self.group);
        }
    }

    /// Moves process `pid` with all its threads into the group. Takes a grace period of the kernel.
    ///
    /// # Errors
    /// The process or one of its threads is not in the parent of this group, or `cgroup.procs` cannot be
    /// written: the process is gone, or must not be moved.
    pub fn move_process(&self, journal: &Journal, pid: u32) -> io::Result<()> {
        let start = tasks::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        let (from, to) = (self.parent.clone(), self.group.clone());
        let now = group_dir::cpuset_folder_of(pid);
        if now.as_ref() == Some(&to) {
            return Ok(());
        }
        let groups = |tid: u32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/cgroup")).ok();
        let own = groups(pid);
        let together = tasks::threads(pid)
            .into_iter()
            .all(|tid| groups(tid).is_none_or(|one| Some(&one) == own.as_ref()));
        if now.as_ref() != Some(&from) || !together {
            return Err(io::Error::other("the process or some of its threads are in other control groups"));
        }
        journal.record(&Change::ProcessMoved { pid, start, from, to })?;
        group_dir::move_to(pid, &self.group)
    }
}

/// Returns why no cpuset was found for a process.
fn missing(pid: u32) -> GroupError {
    if tasks::is_alive(pid) { GroupError::NoCpuset } else { GroupError::Ended }
}

/// Makes a new group a threaded one if its parent contains processes, as the group of a service or a login
/// does: such a parent cannot have other children with members. All other limits of the parent stay in force.
fn make_threaded(group: &Path) -> io::Result<()> {
    let kind = group.join("cgroup.type");
    match fs::read_to_string(&kind)?.trim() {
        "domain invalid" => fs::write(kind, "threaded"),
        _ => Ok(()),
    }
}

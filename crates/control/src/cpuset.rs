//! Control groups that restrict processes to CPUs and memory nodes (`cpuset`,
//! `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/cpusets.rst`). Unlike an affinity, a cpuset
//! cannot be changed by the process itself.

use crate::journal::{Change, Journal};
use manycore_linux::tasks;
use manycore_topology::CpuSet;
use manycore_topology::{
    cgroup::{self, GroupFolder, HierarchyKind},
    sys_tree::SysTree,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Name of the controller.
const CONTROLLER: &str = "cpuset";

/// Beginning of the names of groups that manycore creates.
const PREFIX: &str = "manycore-";

/// A group created by manycore, below the original group of a process.
#[derive(Debug)]
pub struct Hold {
    home: PathBuf,
    group: PathBuf,
    /// Whether the command was started in the group.
    entered: bool,
}

/// Returns the name of the groups that belong to a journal.
pub(crate) fn name_of(journal: &Journal) -> String {
    format!("{PREFIX}{}", journal.id())
}

impl Hold {
    /// Creates a group for `cpus` and `nodes` (those of the parent group if empty) below the group of process
    /// `pid`, so that the other limits of that group stay in force. It is named after the journal.
    ///
    /// # Errors
    /// A message why it cannot be created; the changes made before are in the journal.
    pub fn make(journal: &Journal, pid: u32, cpus: &CpuSet, nodes: &CpuSet) -> Result<Self, String> {
        let tree = SysTree::open(Path::new("/")).map_err(|error| error.to_string())?;
        let home = home(&tree, pid).ok_or_else(|| missing(pid))?;
        let mut folder = Path::new("/").join(&home.path);
        // In version 2, the process may have been started in a group of this journal.
        if folder.ends_with(name_of(journal)) {
            folder.pop();
        }
        let group = folder.join(name_of(journal));
        let entered = home.flavour == HierarchyKind::Unified && group.is_dir();
        let make = || -> io::Result<()> {
            if home.flavour == HierarchyKind::Unified {
                enable(journal, &folder)?;
            }
            if !entered {
                journal.note(&Change::Group { path: group.clone() })?;
                fs::create_dir(&group)?;
            }
            if home.flavour == HierarchyKind::Unified {
                share_domain(&group)?;
            }
            fs::write(group.join("cpuset.cpus"), cpus.to_string())?;
            match home.flavour {
                HierarchyKind::Unified if nodes.is_empty() => Ok(()),
                // Version 1 does not inherit from the parent group.
                _ if nodes.is_empty() => {
                    fs::write(group.join("cpuset.mems"), fs::read(folder.join("cpuset.mems"))?)
                }
                _ => fs::write(group.join("cpuset.mems"), nodes.to_string()),
            }
        };
        match make() {
            Ok(()) => Ok(Self { home: folder, group, entered }),
            Err(error) => {
                // If this fails, undo removes the group.
                let _ = if entered { Ok(()) } else { remove(&group) };
                Err(format!("no cpuset can be made in {}: {error}", folder.display()))
            }
        }
    }

    /// Removes the group again, if no process has entered it.
    pub fn give_up(self) {
        if !self.entered {
            let _ = remove(&self.group);
        }
    }

    /// Moves process `pid` with all its threads into the group. Takes a grace period of the kernel.
    ///
    /// # Errors
    /// The process or one of its threads is not in the parent of this group, or `cgroup.procs` cannot be
    /// written: the process is gone, or must not be moved.
    pub fn take(&self, journal: &Journal, pid: u32) -> io::Result<()> {
        let start = tasks::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        let (from, to) = (self.home.clone(), self.group.clone());
        let now = folder_of(pid);
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
        journal.note(&Change::Moved { pid, start, from, to })?;
        move_to(pid, &self.group)
    }
}

/// Returns why no cpuset was found for a process.
fn missing(pid: u32) -> &'static str {
    if tasks::is_alive(pid) { "its control group has no cpuset controller" } else { "it has ended" }
}

/// Returns the directory of the group that sets the CPUs of process `pid`.
pub(crate) fn folder_of(pid: u32) -> Option<PathBuf> {
    let tree = SysTree::open(Path::new("/")).ok()?;
    Some(Path::new("/").join(home(&tree, pid)?.path))
}

/// Returns the same group. A version 2 group counts only if the controller is available in it.
fn home(tree: &SysTree, pid: u32) -> Option<GroupFolder> {
    let folders = cgroup::folders_of(tree, &pid.to_string(), CONTROLLER);
    let reaches = |folder: &GroupFolder| {
        folder.flavour == HierarchyKind::Named
            || folder.flavour == HierarchyKind::Unified
                && lists(&format!("/{}/cgroup.controllers", folder.path))
    };
    // The last directory of a hierarchy is the group itself; hierarchies follow each other.
    folders.into_iter().rfind(reaches)
}

fn lists(path: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|name| name == CONTROLLER)
}

/// Enables cpusets for the children of a version 2 group. If another journal has recorded that it did so,
/// this journal records it too: the last one to be undone disables it.
fn enable(journal: &Journal, folder: &Path) -> io::Result<()> {
    let path = folder.join("cgroup.subtree_control");
    let change = Change::Controller { path: path.clone(), controller: CONTROLLER.to_owned() };
    let enabled = lists(&path.to_string_lossy());
    if !enabled || journal.others().iter().any(|other| other.changes.contains(&change)) {
        journal.note(&change)?;
    }
    if enabled { Ok(()) } else { fs::write(path, format!("+{CONTROLLER}")) }
}

/// Makes a new group a threaded one if its parent contains processes, as the group of a service or a login
/// does: such a parent cannot have other children with members. All other limits of the parent stay in force.
fn share_domain(group: &Path) -> io::Result<()> {
    let kind = group.join("cgroup.type");
    match fs::read_to_string(&kind)?.trim() {
        "domain invalid" => fs::write(kind, "threaded"),
        _ => Ok(()),
    }
}

/// Disables the controller for the children of a version 2 group, unless one of them uses it. Does nothing if
/// it is not enabled; it may never have been.
pub(crate) fn disable(path: &Path, controller: &str) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|_| lists(&path.to_string_lossy())) else { return Ok(()) };
    let uses = |child: &PathBuf| {
        fs::read_to_string(child.join("cpuset.cpus")).is_ok_and(|cpus| !cpus.trim().is_empty())
    };
    if children(folder).iter().any(uses) { Ok(()) } else { fs::write(path, format!("-{controller}")) }
}

pub(crate) fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

pub(crate) fn move_to(pid: u32, group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), pid.to_string())
}

/// Returns the processes in a group, including zombies. A threaded group lists only its threads; writing a
/// thread to `cgroup.procs` moves its process.
pub(crate) fn members(group: &Path) -> Vec<u32> {
    let read = |file: &str| fs::read_to_string(group.join(file));
    let text = read("cgroup.procs").or_else(|_| read("cgroup.threads")).unwrap_or_default();
    text.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// Allows a group to use all CPUs of its parent, so that affinities in it can be widened.
///
/// # Errors
/// Errors of writing `cpuset.cpus`.
pub(crate) fn open(group: &Path) -> io::Result<()> {
    let (own, above) = (group.join("cpuset.cpus"), group.parent().unwrap_or(group).join("cpuset.cpus"));
    if !own.exists() {
        return Ok(());
    }
    // Version 1 does not inherit; a version 2 group without CPUs of its own has those of its parent.
    let cpus = if group.join("cpuset.effective_cpus").exists() { fs::read(above)? } else { b"\n".to_vec() };
    fs::write(own, cpus)
}

/// Moves all processes in a group to its parent.
pub(crate) fn empty(group: &Path) -> io::Result<()> {
    let Some(above) = group.parent() else { return Ok(()) };
    for pid in members(group) {
        match move_to(pid, above) {
            // The process has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Removes a group, after moving the processes in it to its parent.
pub(crate) fn remove(group: &Path) -> io::Result<()> {
    // A process that forks while it is moved leaves a child behind, and an ended process is removed with a
    // delay.
    const TRIES: usize = 200;
    if !children(group).is_empty() {
        return Err(io::Error::other("it has child groups, which must be removed first"));
    }
    for _ in 0..TRIES {
        match fs::remove_dir(group) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => empty(group)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => return result,
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Err(io::Error::other("new processes keep entering it"))
}

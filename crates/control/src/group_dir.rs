//! Directories of control groups: their processes, children and CPUs. Nothing here is recorded in a journal.

use manycore_linux::tasks;
use manycore_topology::{
    cgroup::{self, GroupFolder, HierarchyKind},
    sys_tree::SysTree,
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// The name of the controller of CPUs and memory nodes.
pub(crate) const CPUSET: &str = "cpuset";

/// Returns the directory of the group that sets the CPUs of process `pid`.
pub(crate) fn cpuset_folder_of(pid: u32) -> Option<PathBuf> {
    let tree = SysTree::open(Path::new("/")).ok()?;
    Some(Path::new("/").join(cpuset_group_of(&tree, pid)?.path))
}

/// Returns the same group. A version 2 group counts only if the controller is available in it.
pub(crate) fn cpuset_group_of(tree: &SysTree, pid: u32) -> Option<GroupFolder> {
    let folders = cgroup::folders_of(tree, &pid.to_string(), CPUSET);
    let reaches = |folder: &GroupFolder| {
        folder.flavour == HierarchyKind::Named
            || folder.flavour == HierarchyKind::Unified
                && has_cpuset(&format!("/{}/cgroup.controllers", folder.path))
    };
    // The last directory of a hierarchy is the group itself; hierarchies follow each other.
    folders.into_iter().rfind(reaches)
}

/// Whether a file that lists controllers has `cpuset`.
pub(crate) fn has_cpuset(path: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|name| name == CPUSET)
}

/// Disables the controller for the children of a version 2 group, unless one of them uses it. Does nothing if
/// it is not enabled; it may never have been.
pub(crate) fn disable(path: &Path, controller: &str) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|_| has_cpuset(&path.to_string_lossy())) else { return Ok(()) };
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
pub(crate) fn allow_parent_cpus(group: &Path) -> io::Result<()> {
    let (own, above) = (group.join("cpuset.cpus"), group.parent().unwrap_or(group).join("cpuset.cpus"));
    if !own.exists() {
        return Ok(());
    }
    // Version 1 does not inherit; a version 2 group without CPUs of its own has those of its parent.
    let cpus = if group.join("cpuset.effective_cpus").exists() { fs::read(above)? } else { b"\n".to_vec() };
    fs::write(own, cpus)
}

/// Moves all processes in a group to its parent.
pub(crate) fn move_to_parent(group: &Path) -> io::Result<()> {
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
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => move_to_parent(group)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            result => return result,
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Err(io::Error::other("new processes keep entering it"))
}

/// Returns the processes in the group `folder` and in groups below it.
pub(crate) fn members_below(folder: &Path) -> BTreeSet<u32> {
    let (mut found, mut open) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        // A threaded group of version 2 lists only its threads.
        for id in members(&folder) {
            found.extend(if tasks::threads(id).is_empty() { None } else { tasks::process_of(id) });
        }
        open.extend(children(&folder));
    }
    found
}

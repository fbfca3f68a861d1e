//! Directories of control groups: their processes, children, CPUs and controllers.

use crate::journal::{Change, Journal};
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
                && lists(&Path::new("/").join(&folder.path).join("cgroup.controllers"), CPUSET)
    };
    // The last directory of a hierarchy is the group itself; hierarchies follow each other.
    folders.into_iter().rfind(reaches)
}

/// Whether a file that lists controllers has this one.
pub(crate) fn lists(path: &Path, controller: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|name| name == controller)
}

/// Disables the controller for the children of a version 2 group, unless one of them uses it. Does nothing if
/// it is not enabled; it may never have been.
pub(crate) fn disable(path: &Path, controller: &str) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|_| lists(path, controller)) else { return Ok(()) };
    if children(folder).iter().any(|child| uses(child, controller)) {
        return Ok(());
    }
    fs::write(path, format!("-{controller}"))
}

/// Whether a group has settings of the controller that differ from those of a new group, or gives it to its own children.
fn uses(group: &Path, controller: &str) -> bool {
    let read = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    let differs = |file: &str, default: &str| {
        let text = read(file);
        !text.trim().is_empty() && !text.starts_with(default)
    };
    let is_set = match controller {
        CPUSET => differs("cpuset.cpus", "\n"),
        "cpu" => differs("cpu.max", "max") || differs("cpu.weight", "100\n"),
        "memory" => {
            let protected = differs("memory.min", "0\n") || differs("memory.low", "0\n");
            differs("memory.max", "max") || differs("memory.high", "max") || protected
        }
        // Nothing is known of others, so they stay enabled.
        _ => true,
    };
    is_set || lists(&group.join("cgroup.subtree_control"), controller)
}

/// Enables a controller for the children of a version 2 group. If another journal has recorded that it did so,
/// this journal records it too: the last one to be undone disables it.
///
/// # Errors
/// The journal or the file cannot be written.
pub(crate) fn enable(journal: &Journal, folder: &Path, controller: &str) -> io::Result<()> {
    let path = folder.join("cgroup.subtree_control");
    let change = Change::Controller { path: path.clone(), controller: controller.to_owned() };
    let enabled = lists(&path, controller);
    if !enabled || journal.other_journals().iter().any(|other| other.changes.contains(&change)) {
        journal.record(&change)?;
    }
    if enabled { Ok(()) } else { fs::write(path, format!("+{controller}")) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_stays_enabled_while_another_group_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("cgroup.subtree_control");
        let disables = |controller: &str, child: &[(&str, &str)]| {
            let group = folder.path().join("child");
            fs::create_dir(&group).unwrap();
            for (file, text) in child {
                fs::write(group.join(file), text).unwrap();
            }
            fs::write(&control, "cpuset cpu memory\n").unwrap();
            disable(&control, controller).unwrap();
            fs::remove_dir_all(&group).unwrap();
            fs::read_to_string(&control).unwrap() == format!("-{controller}")
        };
        assert!(disables("cpu", &[("cpu.max", "max 100000\n"), ("cpu.weight", "100\n")]));
        assert!(!disables("cpu", &[("cpu.max", "50000 100000\n"), ("cpu.weight", "100\n")]));
        assert!(!disables("cpu", &[("cgroup.subtree_control", "cpu\n")]));
        assert!(disables("memory", &[("memory.max", "max\n"), ("memory.min", "0\n")]));
        assert!(!disables("memory", &[("memory.max", "max\n"), ("memory.low", "4096\n")]));
        assert!(disables("cpuset", &[("cpuset.cpus", "\n")]));
        assert!(!disables("cpuset", &[("cpuset.cpus", "0-1\n")]));
        assert!(!disables("io", &[]), "it is not enabled");
    }
}

//! Directories of control groups: their processes, children, CPUs and controllers.

use crate::journal::{Change, Journal};
use manycore_linux::{affinity, kernel, tasks};
use manycore_text::units::counted;
use manycore_topology::{
    CpuSet,
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

/// Returns the CPUs that the cpusets of task `tid` allow.
pub(crate) fn allowed_cpus(tid: u32) -> Option<CpuSet> {
    let tree = SysTree::open(Path::new("/")).ok()?;
    let folders = cgroup::folders_of(&tree, &tid.to_string(), CPUSET);
    let mut all = affinity::online()?;
    // The innermost effective list takes those around it into account; what is given to a partition is missing in these.
    for kind in [HierarchyKind::Unified, HierarchyKind::Named, HierarchyKind::Bare] {
        let mut own = folders.iter().rev().filter(|folder| folder.flavour == kind);
        let limit = own.find_map(|folder| cgroup::cpuset(&tree, folder).ok()?);
        if let Some(cpus) = limit.and_then(|limit| limit.cpus) {
            all = all.intersection(&cpus);
        }
    }
    Some(all)
}

/// Returns the group of process `pid` itself if a group with a cpuset can be created below it. The controller may be available
/// only in an ancestor: enabling it there would change the groups of other processes. The group of a version 2 process that was
/// started in the group `name` is the parent of that.
pub(crate) fn cpuset_parent_of(tree: &SysTree, pid: u32, name: &str) -> Option<GroupFolder> {
    let group = cpuset_group_of(tree, pid)?;
    let folders = cgroup::folders_of(tree, &pid.to_string(), CPUSET);
    let own = folders.into_iter().rfind(|folder| folder.flavour == group.flavour)?.path;
    is_group(&own, &group.path, name).then_some(group)
}

/// Whether the group of a process is `group`, or the child `name` of it.
fn is_group(own: &str, group: &str, name: &str) -> bool {
    own == group || own.strip_suffix(name).and_then(|parent| parent.strip_suffix('/')) == Some(group)
}

/// Whether a file that lists controllers has this one.
pub(crate) fn lists(path: &Path, controller: &str) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().any(|name| name == controller)
}

/// Disables the controller for the children of a version 2 group, unless one of them uses it. Does nothing if
/// it is not enabled; it may never have been. Returns how many processes would have lost their affinities; if there are any,
/// the controller stays enabled.
pub(crate) fn disable(path: &Path, controller: &str) -> io::Result<usize> {
    disable_on(path, controller, kernel::resets_affinities())
}

fn disable_on(path: &Path, controller: &str, resets: bool) -> io::Result<usize> {
    let Some(folder) = path.parent().filter(|_| lists(path, controller)) else { return Ok(0) };
    if children(folder).iter().any(|child| uses(child, controller)) {
        return Ok(0);
    }
    let others = if resets { losing_affinities(folder, controller) } else { 0 };
    if others == 0 {
        fs::write(path, format!("-{controller}"))?;
    }
    Ok(others)
}

/// Returns the number of processes that lose their affinities when a controller is enabled or disabled for the children of a
/// group, where the kernel resets them ([`kernel::resets_affinities`]): those in groups below it, at least one for a group whose
/// processes are not visible here.
fn losing_affinities(folder: &Path, controller: &str) -> usize {
    if controller != CPUSET {
        return 0;
    }
    let has_any = |child: &Path| {
        fs::read_to_string(child.join("cgroup.events")).is_ok_and(|events| events.contains("populated 1"))
    };
    let count = |child: &PathBuf| members_below(child).len().max(usize::from(has_any(child)));
    children(folder).iter().map(count).sum()
}

/// Whether a group has settings of the controller that differ from those of a new group, or gives it to its own children.
fn uses(group: &Path, controller: &str) -> bool {
    let read = |file: &str| fs::read_to_string(group.join(file)).unwrap_or_default();
    let differs = |file: &str, default: &str| {
        let text = read(file);
        !text.trim().is_empty() && !text.starts_with(default)
    };
    let is_set = match controller {
        CPUSET => differs("cpuset.cpus", "\n") || differs("cpuset.cpus.partition", "member"),
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
/// The journal or the file cannot be written, or processes in other groups would lose their affinities.
pub(crate) fn enable(journal: &Journal, folder: &Path, controller: &str) -> io::Result<()> {
    enable_on(journal, folder, controller, kernel::resets_affinities())
}

fn enable_on(journal: &Journal, folder: &Path, controller: &str, resets: bool) -> io::Result<()> {
    let path = folder.join("cgroup.subtree_control");
    let change = Change::Controller { path: path.clone(), controller: controller.to_owned() };
    let enabled = lists(&path, controller);
    if !enabled && resets {
        let others = losing_affinities(folder, controller);
        if others > 0 {
            return Err(io::Error::other(format!(
                "enabling the cpuset controller would reset the affinities of {} in other groups (kernel before 6.2)",
                counted(others, "process")
            )));
        }
    }
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
    fn a_cpuset_is_created_below_the_own_group_only() {
        let own = "sys/fs/cgroup/user.slice/s.scope";
        assert!(is_group(own, own, "manycore-run-7"));
        // The command was started in a group without the controller.
        assert!(is_group("sys/fs/cgroup/user.slice/s.scope/manycore-run-7", own, "manycore-run-7"));
        assert!(!is_group("sys/fs/cgroup/user.slice/s.scope/manycore-run-17", own, "manycore-run-7"));
        assert!(!is_group(own, "sys/fs/cgroup/user.slice", "manycore-run-7"));
        assert!(!is_group(own, "sys/fs/cgroup/user.slice", ""));
    }

    #[test]
    fn the_controller_is_not_enabled_where_processes_of_other_groups_would_lose_their_affinities() {
        let (folder, journals) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let journal = Journal::begin(journals.path(), "test", "a test", false).unwrap();
        let (control, child) = (folder.path().join("cgroup.subtree_control"), folder.path().join("child"));
        fs::write(&control, "cpu\n").unwrap();
        fs::create_dir_all(child.join("below")).unwrap();
        // Only a group below has a process.
        fs::write(child.join("below/cgroup.procs"), std::process::id().to_string()).unwrap();
        let enabled = |resets, controller| {
            let result = enable_on(&journal, folder.path(), controller, resets);
            let now = fs::read_to_string(&control).unwrap();
            fs::write(&control, "cpu\n").unwrap();
            (result.map_err(|error| error.to_string()), now != "cpu\n")
        };
        let (refused, changed) = enabled(true, CPUSET);
        assert!(refused.unwrap_err().contains("affinities of 1 process in other groups") && !changed);
        let file = fs::read_dir(journals.path()).unwrap().next().unwrap().unwrap().path();
        let recorded = || fs::read_to_string(&file).unwrap().contains("\"cpuset\"");
        assert!(!recorded());
        assert_eq!(enabled(true, "memory"), (Ok(()), true));
        assert_eq!(enabled(false, CPUSET), (Ok(()), true));
        assert!(recorded());
        fs::remove_file(child.join("below/cgroup.procs")).unwrap();
        assert_eq!(enabled(true, CPUSET), (Ok(()), true));
        // Its processes are in another namespace.
        fs::write(child.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        assert!(enabled(true, CPUSET).0.is_err());
    }

    #[test]
    fn the_controller_stays_enabled_where_disabling_it_would_reset_affinities() {
        let folder = tempfile::tempdir().unwrap();
        let (control, child) = (folder.path().join("cgroup.subtree_control"), folder.path().join("child"));
        fs::create_dir(&child).unwrap();
        fs::write(child.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        let disabled = |resets, controller| {
            fs::write(&control, "cpuset cpu\n").unwrap();
            let others = disable_on(&control, controller, resets).unwrap();
            (others, fs::read_to_string(&control).unwrap() == format!("-{controller}"))
        };
        assert_eq!(disabled(true, CPUSET), (1, false));
        assert_eq!(disabled(true, "cpu"), (0, true));
        assert_eq!(disabled(false, CPUSET), (0, true));
        fs::remove_file(child.join("cgroup.procs")).unwrap();
        assert_eq!(disabled(true, CPUSET), (0, true));
    }

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

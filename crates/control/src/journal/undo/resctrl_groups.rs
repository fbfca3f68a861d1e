//! Undoes changes of resctrl groups: removes created groups, and returns the tasks and CPUs moved to them.

use super::{UndoResult, limits};
use crate::journal::{change::Change, pending::Pending};
use manycore_linux::{
    resctrl::put::{add_cpus, is_gone, put},
    tasks,
};
use manycore_topology::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

/// Maximum number of rounds in which tasks are searched that were created while their parents left a group.
const ROUNDS: usize = 200;

/// Maximum number of ancestors of a process that are searched for its original group.
const MAX_ANCESTORS: usize = 64;

/// Returns CPUs to their groups, restores limits, empties and removes groups, and unmounts.
pub(super) fn restore(pending: &Pending, restored: &mut UndoResult) {
    let mut check = |path: &Path, result: io::Result<()>| {
        if let Err(error) = result {
            restored.failed.push(format!("cannot restore {}: {error}", path.display()));
        }
    };
    for change in pending.changes.iter().rev() {
        if let Change::CpusMoved { cpus, from, to } = change {
            check(from, return_cpus(cpus, from, to));
        }
    }
    limits::restore(pending, restored);
    let origins = origins(pending);
    let created = created(pending);
    let groups: BTreeSet<&PathBuf> =
        origins.values().map(|origin| origin.to).chain(created.iter().copied()).collect();
    for group in groups {
        let result = empty(group, &origins, created.contains(group)).and_then(|count| {
            restored.tasks_moved_back += count;
            if created.contains(group) && group.is_dir() {
                fs::remove_dir(group)?;
                restored.resctrl_groups += 1;
            }
            Ok(())
        });
        if let Err(error) = result {
            restored.failed.push(format!("cannot undo {}: {error}", group.display()));
        }
    }
    for change in &pending.changes {
        if let Change::Mount { point } = change {
            unmount(change, point, restored);
        }
    }
}

/// The original group of a task, and the group that it was moved to.
struct TaskOrigin<'a> {
    start: u64,
    from: &'a PathBuf,
    to: &'a PathBuf,
}

/// Returns for each task the group before its first move and the group after its last one.
fn origins(pending: &Pending) -> BTreeMap<u32, TaskOrigin<'_>> {
    let mut origins: BTreeMap<u32, TaskOrigin> = BTreeMap::new();
    for change in &pending.changes {
        let Change::TaskMoved { tid, start, from, to } = change else { continue };
        match origins.get_mut(tid) {
            Some(origin) if origin.start == *start => origin.to = to,
            _ => drop(origins.insert(*tid, TaskOrigin { start: *start, from, to })),
        }
    }
    origins
}

/// Returns the groups that were created.
fn created(pending: &Pending) -> BTreeSet<&PathBuf> {
    let not = |path: &PathBuf| {
        pending
            .changes
            .iter()
            .any(|change| matches!(change, Change::ResctrlGroupNotCreated { path: other } if other == path))
    };
    let created = pending.changes.iter().filter_map(|change| match change {
        Change::ResctrlGroup { path } if !not(path) => Some(path),
        _ => None,
    });
    created.collect()
}

/// Moves tasks out of a group until none is left; returns how many. Tasks that were created in the group go
/// to the original group of their nearest known ancestor. If the group is `ours`, all tasks have to leave it;
/// otherwise only tasks that we moved there, and their descendants.
fn empty(group: &Path, origins: &BTreeMap<u32, TaskOrigin>, ours: bool) -> io::Result<usize> {
    let root = root_of(group);
    let mut moved = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut rest = 0;
        for tid in members(group) {
            let origin = original_group(tid, origins);
            let to = match origin {
                Some(from) if from.is_dir() => from,
                // Its original group is gone, or it entered the group by itself.
                Some(_) => root,
                None if ours => root,
                None => continue,
            };
            if to == group {
                continue;
            }
            rest += 1;
            match put_back(tid, to) {
                Ok(()) => drop(moved.insert(tid)),
                Err(error) if is_gone(&error, tid) => {}
                Err(error) => return Err(error),
            }
        }
        if rest == 0 {
            return Ok(moved.len());
        }
    }
    Err(io::Error::other("new tasks keep entering it"))
}

/// Returns the original group of a task, its process, or its nearest ancestor with a known one.
fn original_group<'a>(tid: u32, origins: &BTreeMap<u32, TaskOrigin<'a>>) -> Option<&'a Path> {
    let known = |id: u32| {
        let origin = origins.get(&id)?;
        (tasks::start_time(id) == Some(origin.start)).then_some(origin.from.as_path())
    };
    if let Some(origin) = known(tid) {
        return Some(origin);
    }
    let mut next = tasks::process_of(tid);
    for _ in 0..MAX_ANCESTORS {
        let pid = next.filter(|&pid| pid > 1)?;
        if let Some(origin) = known(pid) {
            return Some(origin);
        }
        next = tasks::parent(pid);
    }
    None
}

/// Moves a task to a group. A monitoring group accepts only tasks of its parent group, so the task is moved
/// there first.
fn put_back(tid: u32, group: &Path) -> io::Result<()> {
    let task = format!("{tid}\n");
    if let Some(control) = parent_group(group) {
        put(&control.join("tasks"), &task)?;
    }
    put(&group.join("tasks"), &task)
}

/// Returns the parent group of a monitoring group; absent for other groups.
fn parent_group(group: &Path) -> Option<&Path> {
    group.parent().filter(|folder| folder.ends_with("mon_groups"))?.parent()
}

/// Returns the mount point of a group: groups with limits are directly below it.
fn root_of(group: &Path) -> &Path {
    let parent = group.parent().unwrap_or(group);
    if parent.join("info").is_dir() || !group.join("schemata").exists() { parent } else { group }
}

fn members(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("tasks")).unwrap_or_default();
    text.lines().filter_map(|tid| tid.trim().parse().ok()).collect()
}

/// Returns CPUs to a group, as far as they are still where we put them; a removed group leaves its CPUs to
/// the default group. A monitoring group gets them from its parent group, to which they were returned before.
fn return_cpus(cpus: &CpuSet, from: &Path, to: &Path) -> io::Result<()> {
    let list = |group: &Path| -> CpuSet {
        fs::read_to_string(group.join("cpus_list")).unwrap_or_default().parse().unwrap_or_default()
    };
    let holder = parent_group(from).unwrap_or(if to.is_dir() { to } else { root_of(to) });
    let still = list(holder).intersection(cpus);
    if still.is_empty() || !from.is_dir() || still.is_subset(&list(from)) {
        return Ok(());
    }
    add_cpus(&from.join("cpus_list"), &still)
}

/// Unmounts resctrl. That removes all groups, so it stays mounted if another program has created a group
/// since.
fn unmount(change: &Change, point: &Path, restored: &mut UndoResult) {
    if !point.join("schemata").exists() {
        return;
    }
    let groups = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let names = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !["info", "mon_data", "mon_groups"].contains(&name.as_str())).count()
    };
    if groups(point) + groups(&point.join("mon_groups")) > 0 {
        let point = point.display();
        restored.changed_by_others.push(format!(
            "{point} stays mounted because it has other groups; 'manycore undo' unmounts it when they are gone"
        ));
        restored.deferred.push(change.clone());
        return;
    }
    match rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty()) {
        Ok(()) => restored.mounts += 1,
        Err(error) => restored.failed.push(format!("cannot unmount {}: {error}", point.display())),
    }
}

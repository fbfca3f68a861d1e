//! Undoes changes of resctrl groups: created groups, the tasks and CPUs moved to them, and limits of groups
//! that existed before.

use super::{Change, Pending, Restored, undo::changed};
use manycore_linux::resctrl::schemata::{Line, Schemata};
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
const DEEPEST: usize = 64;

/// Returns CPUs to their groups, restores limits, empties and removes groups, and unmounts.
pub(super) fn restore(pending: &Pending, restored: &mut Restored) {
    let mut told = |path: &Path, result: io::Result<()>| {
        if let Err(error) = result {
            restored.failed.push(format!("cannot restore {}: {error}", path.display()));
        }
    };
    for change in pending.changes.iter().rev() {
        if let Change::Claimed { cpus, from, to } = change {
            told(from, give_back_cpus(cpus, from, to));
        }
    }
    restore_limits(pending, restored);
    let homes = homes(pending);
    let made = made(pending);
    let groups: BTreeSet<&PathBuf> = homes.values().map(|home| home.to).chain(made.iter().copied()).collect();
    for group in groups {
        let result = empty(group, &homes, made.contains(group)).and_then(|count| {
            restored.assigned += count;
            if made.contains(group) && group.is_dir() {
                fs::remove_dir(group)?;
                restored.classes += 1;
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
struct Home<'a> {
    start: u64,
    from: &'a PathBuf,
    to: &'a PathBuf,
}

/// Returns for each task the group before its first move and the group after its last one.
fn homes(pending: &Pending) -> BTreeMap<u32, Home<'_>> {
    let mut homes: BTreeMap<u32, Home> = BTreeMap::new();
    for change in &pending.changes {
        let Change::Assigned { tid, start, from, to } = change else { continue };
        match homes.get_mut(tid) {
            Some(home) if home.start == *start => home.to = to,
            _ => drop(homes.insert(*tid, Home { start: *start, from, to })),
        }
    }
    homes
}

/// Returns the groups that were created.
fn made(pending: &Pending) -> BTreeSet<&PathBuf> {
    let not = |path: &PathBuf| {
        pending
            .changes
            .iter()
            .any(|change| matches!(change, Change::NotMade { path: other } if other == path))
    };
    let made = pending.changes.iter().filter_map(|change| match change {
        Change::Class { path } if !not(path) => Some(path),
        _ => None,
    });
    made.collect()
}

/// Moves tasks out of a group until none is left; returns how many. Tasks that were created in the group go
/// to the original group of their nearest known ancestor. If the group is `ours`, all tasks have to leave it;
/// otherwise only tasks that we moved there, and their descendants.
fn empty(group: &Path, homes: &BTreeMap<u32, Home>, ours: bool) -> io::Result<usize> {
    let root = root_of(group);
    let mut moved = BTreeSet::new();
    for _ in 0..ROUNDS {
        let mut rest = 0;
        for tid in members(group) {
            let home = home_of(tid, homes);
            let to = match home {
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
    Err(io::Error::other("tasks keep coming to it"))
}

/// Returns the original group of a task, its process, or its nearest ancestor with a known one.
fn home_of<'a>(tid: u32, homes: &BTreeMap<u32, Home<'a>>) -> Option<&'a Path> {
    let known = |id: u32| {
        let home = homes.get(&id)?;
        (tasks::start_time(id) == Some(home.start)).then_some(home.from.as_path())
    };
    if let Some(home) = known(tid) {
        return Some(home);
    }
    let mut next = tasks::process_of(tid);
    for _ in 0..DEEPEST {
        let pid = next.filter(|&pid| pid > 1)?;
        if let Some(home) = known(pid) {
            return Some(home);
        }
        next = tasks::parent(pid);
    }
    None
}

/// Moves a task to a group. A monitoring group accepts only tasks of its parent group, so the task is moved
/// there first.
fn put_back(tid: u32, group: &Path) -> io::Result<()> {
    let task = format!("{tid}\n");
    if let Some(control) = control_of(group) {
        put(&control.join("tasks"), &task)?;
    }
    put(&group.join("tasks"), &task)
}

/// Returns the parent group of a monitoring group; absent for other groups.
fn control_of(group: &Path) -> Option<&Path> {
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
fn give_back_cpus(cpus: &CpuSet, from: &Path, to: &Path) -> io::Result<()> {
    let list = |group: &Path| -> CpuSet {
        fs::read_to_string(group.join("cpus_list")).unwrap_or_default().parse().unwrap_or_default()
    };
    let holder = control_of(from).unwrap_or(if to.is_dir() { to } else { root_of(to) });
    let still = list(holder).intersection(cpus);
    if still.is_empty() || !from.is_dir() || still.is_subset(&list(from)) {
        return Ok(());
    }
    add_cpus(&from.join("cpus_list"), &still)
}

/// Returns the original value of each limit, and all values that it had because of us.
fn limits(pending: &Pending) -> BTreeMap<(&PathBuf, &str, u32), (u64, Vec<u64>)> {
    let mut known: BTreeMap<(&PathBuf, &str, u32), (u64, Vec<u64>)> = BTreeMap::new();
    for change in &pending.changes {
        match change {
            Change::Limit { path, line, domain, old, new } => {
                known.entry((path, line, *domain)).or_insert_with(|| (*old, Vec::new())).1.push(*new);
            }
            Change::FormerLimit { path, line, domain, old } => {
                known.entry((path, line, *domain)).and_modify(|entry| entry.0 = *old);
            }
            _ => {}
        }
    }
    known
}

fn restore_limits(pending: &Pending, restored: &mut Restored) {
    let limits = limits(pending);
    let newer = if limits.is_empty() { Vec::new() } else { pending.newer() };
    for ((path, line, domain), (old, ours)) in limits {
        // The limit vanished with its group.
        let Ok(text) = fs::read_to_string(path.join("schemata")) else { continue };
        let Some(now) = Schemata::parse(&text).value(line, domain).filter(|&now| now != old) else {
            continue;
        };
        let result = if ours.contains(&now) {
            let line = Line { name: line.to_owned(), values: [(domain, old)].into() };
            put(&path.join("schemata"), &format!("{line}\n")).inspect(|()| restored.limits += 1)
        } else {
            let wrote_it = |other: &&Pending| {
                self::limits(other)
                    .get(&(path, line, domain))
                    .is_some_and(|(_, theirs)| theirs.contains(&now))
            };
            let line = line.to_owned();
            let former = Change::FormerLimit { path: path.clone(), line: line.clone(), domain, old };
            match newer.iter().find(wrote_it) {
                Some(other) => other.append(&former),
                None => {
                    let what = format!("{line} of domain {domain} in {}", path.display());
                    restored.left.push(changed(&what, &now));
                    Ok(())
                }
            }
        };
        if let Err(error) = result {
            restored.failed.push(format!("cannot restore the limits of {}: {error}", path.display()));
        }
    }
}

/// Unmounts resctrl. That removes all groups, so it stays mounted if another program has created a group
/// since.
fn unmount(change: &Change, point: &Path, restored: &mut Restored) {
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
        restored.left.push(format!(
            "{point} stays mounted because it has other groups; 'manycore undo' unmounts it when they are gone"
        ));
        restored.later.push(change.clone());
        return;
    }
    match rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty()) {
        Ok(()) => restored.mounts += 1,
        Err(error) => restored.failed.push(format!("cannot unmount {}: {error}", point.display())),
    }
}

//! Control groups: those of version 2, or of the controllers `cpu`, `cpuacct` and `memory` of version 1.

use super::names::Names;
use crate::{
    details::{Pressure, parse_pressure},
    resources::{GroupParts, GroupSample},
};
use manycore_topology::{
    SysTree,
    cgroup::{self, GroupFolder, Hierarchies, HierarchyKind},
};
use std::collections::{BTreeMap, VecDeque};

/// Most groups that are read in one hierarchy; those nearest to the root come first.
const MOST_GROUPS: usize = 2_000;
/// Greatest depth of a group; the outermost one has 0.
const DEEPEST: usize = 16;
/// Version 1 writes "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;

/// Reads all groups, ascending by path. The outermost one, `/`, is that of the mount point. Version 2 is read if it has
/// the controllers `cpu` or `memory`, or there is no version 1.
pub(super) fn read(tree: &SysTree, names: &mut Names, parts: GroupParts, into: &mut Vec<GroupSample>) {
    into.clear();
    if parts == GroupParts::None {
        return;
    }
    let mut found: BTreeMap<String, GroupSample> = BTreeMap::new();
    let roots = roots(tree, parts);
    for root in &roots {
        for (below, folder) in below(tree, root) {
            let group = found.entry(below).or_default();
            if parts == GroupParts::Throttling {
                read_throttling(tree, &folder, group);
                continue;
            }
            match root.flavour {
                HierarchyKind::Unified => read_unified(tree, &folder, group),
                HierarchyKind::Named | HierarchyKind::Bare => read_named(tree, &folder, group),
            }
        }
    }
    // Version 1 has no pressure, but its root group is the machine. Only that has this file: in a container, `/` is the
    // container's group.
    let is_root = |root: &GroupFolder| {
        root.flavour == HierarchyKind::Named && tree.read(&format!("{}/release_agent", root.path)).is_some()
    };
    let machine = found.get_mut("/").filter(|_| parts == GroupParts::All && roots.iter().any(is_root));
    if let Some(root) = machine {
        root.pressure = root.pressure.or_else(|| pressure(tree, |name| format!("proc/pressure/{name}")));
    }
    into.extend(found.into_iter().map(|(path, group)| GroupSample { path: names.get(&path), ..group }));
    // Replacing characters can change the order, and can make names equal.
    into.sort_by(|a, b| a.path.cmp(&b.path));
    into.dedup_by(|a, b| a.path == b.path);
}

/// Returns the hierarchies that are read. Throttling is in that of the controller `cpu` alone.
fn roots(tree: &SysTree, parts: GroupParts) -> Vec<GroupFolder> {
    let hierarchies = Hierarchies::read(tree);
    let unified = hierarchies.roots("").into_iter().next();
    let mut named: Vec<GroupFolder> = Vec::new();
    let controllers: &[&str] =
        if parts == GroupParts::All { &["cpu", "cpuacct", "memory"] } else { &["cpu"] };
    for controller in controllers {
        let root =
            hierarchies.roots(controller).into_iter().find(|root| root.flavour == HierarchyKind::Named);
        named.extend(root.filter(|root| !named.contains(root)));
    }
    let has_controllers = |root: &GroupFolder| {
        let controllers = tree.read(&format!("{}/cgroup.controllers", root.path)).unwrap_or_default();
        controllers.split_whitespace().any(|name| ["cpu", "memory"].contains(&name))
    };
    if named.is_empty() || unified.as_ref().is_some_and(has_controllers) {
        named = unified.into_iter().collect();
    }
    named
}

/// Returns the groups of a hierarchy: their paths below the root, beginning with `/`, and their directories.
fn below(tree: &SysTree, root: &GroupFolder) -> Vec<(String, GroupFolder)> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([(String::new(), 0)]);
    while let Some((below, depth)) = waiting.pop_front() {
        let folder = GroupFolder { path: format!("{}{below}", root.path), ..root.clone() };
        if depth < DEEPEST {
            let most = MOST_GROUPS.saturating_sub(found.len() + 1 + waiting.len());
            let inner = tree.folders(&folder.path).into_iter().take(most);
            waiting.extend(inner.map(|name| (format!("{below}/{name}"), depth + 1)));
        }
        found.push((if below.is_empty() { "/".to_owned() } else { below }, folder));
    }
    found
}

fn read_throttling(tree: &SysTree, folder: &GroupFolder, group: &mut GroupSample) {
    let stat = tree.read(&format!("{}/cpu.stat", folder.path)).unwrap_or_default();
    group.throttled_ns = match folder.flavour {
        HierarchyKind::Unified => named(&stat, "throttled_usec").and_then(|us| us.checked_mul(1000)),
        HierarchyKind::Named | HierarchyKind::Bare => named(&stat, "throttled_time"),
    };
    // A group without a quota is not throttled by its own; those that never were need no other file.
    if group.throttled_ns.is_some_and(|ns| ns > 0) {
        group.quota_milli = quota(tree, folder);
    }
}

fn read_unified(tree: &SysTree, folder: &GroupFolder, group: &mut GroupSample) {
    let file = |name: &str| format!("{}/{name}", folder.path);
    let stat = tree.read(&file("cpu.stat")).unwrap_or_default();
    let ns = |name: &str| named(&stat, name)?.checked_mul(1000);
    group.cpu_ns = ns("usage_usec");
    group.throttled_ns = ns("throttled_usec");
    group.quota_milli = quota(tree, folder);
    group.memory_bytes = tree.number(&file("memory.current"));
    group.memory_limit = tree.number(&file("memory.max"));
    group.processes = processes(tree, folder);
    group.pressure = pressure(tree, |name| file(&format!("{name}.pressure")));
}

/// Returns the pressure on CPUs, memory and disks from the files of these names.
fn pressure(tree: &SysTree, path: impl Fn(&str) -> String) -> Option<[Pressure; 3]> {
    let read = |name: &str| parse_pressure(&tree.read(&path(name))?);
    Some([read("cpu")?, read("memory")?, read("io")?])
}

/// Adds what one hierarchy of version 1 has.
fn read_named(tree: &SysTree, folder: &GroupFolder, group: &mut GroupSample) {
    let file = |name: &str| format!("{}/{name}", folder.path);
    let number = |name: &str| tree.number::<u64>(&file(name));
    group.cpu_ns = group.cpu_ns.or_else(|| number("cpuacct.usage"));
    let stat = || tree.read(&file("cpu.stat"));
    group.throttled_ns = group.throttled_ns.or_else(|| named(&stat()?, "throttled_time"));
    group.quota_milli = group.quota_milli.or_else(|| quota(tree, folder));
    group.memory_bytes = group.memory_bytes.or_else(|| number("memory.usage_in_bytes"));
    let limit = || number("memory.limit_in_bytes").filter(|&limit| limit < NO_LIMIT);
    group.memory_limit = group.memory_limit.or_else(limit);
    // A process may be in groups of different paths; each counts.
    group.processes = group.processes.max(processes(tree, folder));
}

fn quota(tree: &SysTree, folder: &GroupFolder) -> Option<u64> {
    Some((cgroup::quota(tree, folder)?.quota_cpus? * 1000.0).round() as u64)
}

fn processes(tree: &SysTree, folder: &GroupFolder) -> u32 {
    let text = tree.read(&format!("{}/cgroup.procs", folder.path)).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).count() as u32
}

/// Returns the value of the line `NAME VALUE`.
fn named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests;

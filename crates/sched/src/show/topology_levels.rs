//! The levels that the kernel builds its domains from, as the topology has them (`kernel/sched/topology.c`,
//! `arch/x86/kernel/smpboot.c`).

use super::{clusters::has_cluster_level, report::DomainLevel};
use crate::show::{Facts, Release};
use manycore_topology::{CpuSet, Level, Machine};
use std::collections::BTreeSet;

/// Returns the groups of CPUs of each level, smallest first, by the kernel's names. Levels may repeat each other.
pub(super) fn levels(facts: &Facts, release: Release) -> Vec<DomainLevel> {
    let machine = &facts.machine;
    let level =
        |name: &str, groups: Vec<CpuSet>| DomainLevel { name: name.to_owned(), groups, flags: Vec::new() };
    let mut levels = vec![level("SMT", units(machine, Level::Core))];
    if has_cluster_level(facts, release).is_ok() {
        levels.push(level("CLS", units(machine, Level::Cluster)));
    }
    levels.push(level("MC", last_level(machine)));
    let name = if release.is_since(6, 7) == Some(false) { "DIE" } else { "PKG" };
    if !(is_x86(machine) && has_nodes_in_package(machine)) {
        levels.push(level(name, node_groups(machine)));
    }
    levels.push(level("NODE", node_groups(machine)));
    levels.extend(distance_levels(machine).into_iter().map(|groups| level("NUMA", groups)));
    levels
}

/// Returns the levels without those CPUs, and without domains of one CPU or that repeat a smaller one, as the kernel
/// removes them.
pub(super) fn without_repetitions(levels: Vec<DomainLevel>, without: &CpuSet) -> Vec<DomainLevel> {
    let mut known: BTreeSet<CpuSet> = BTreeSet::new();
    let mut kept = Vec::new();
    for level in levels {
        let groups: BTreeSet<CpuSet> = level.groups.iter().map(|group| group.difference(without)).collect();
        let new: Vec<CpuSet> =
            groups.into_iter().filter(|group| group.len() > 1 && !known.contains(group)).collect();
        known.extend(new.iter().cloned());
        if !new.is_empty() {
            kept.push(DomainLevel { groups: new, ..level });
        }
    }
    kept
}

/// Returns the CPUs of each last-level cache, divided at the borders of nodes: the kernel ends the domain there.
pub(super) fn last_level(machine: &Machine) -> Vec<CpuSet> {
    let nodes = node_groups(machine);
    let caches = machine.last_level_caches().flat_map(|cache| {
        nodes
            .iter()
            .map(|node| cache.cpus.intersection(node))
            .filter(|cpus| !cpus.is_empty())
            .collect::<Vec<_>>()
    });
    caches.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether the machine is an x86 one.
pub(super) fn is_x86(machine: &Machine) -> bool {
    let system = &machine.system;
    let is_vendor =
        |id: &str| ["GenuineIntel", "AuthenticAMD", "HygonGenuine"].iter().any(|it| id.starts_with(it));
    match &system.architecture {
        Some(name) => name == "x86_64" || name.ends_with("86"),
        None => system.cpu_id.as_deref().is_some_and(is_vendor),
    }
}

fn has_nodes_in_package(machine: &Machine) -> bool {
    let nodes = node_groups(machine);
    machine
        .packages
        .iter()
        .any(|package| nodes.iter().filter(|node| node.intersects(&package.cpus)).count() > 1)
}

fn units(machine: &Machine, level: Level) -> Vec<CpuSet> {
    machine.units(level).into_iter().cloned().collect()
}

/// Returns the CPUs of each node, or all CPUs where there are no nodes.
fn node_groups(machine: &Machine) -> Vec<CpuSet> {
    let groups = units(machine, Level::Node);
    if groups.is_empty() { vec![machine.online.clone()] } else { groups }
}

/// Returns for each distance between nodes, ascending, the CPUs that are at most that far from each node.
fn distance_levels(machine: &Machine) -> Vec<Vec<CpuSet>> {
    let with_cpus = || machine.nodes.iter().filter(|node| !node.memory_only);
    let distances: BTreeSet<u32> = with_cpus()
        .flat_map(|node| node.distances.iter().zip(&machine.nodes))
        .filter(|(_, other)| !other.memory_only)
        .map(|(distance, _)| *distance)
        .collect();
    let near = |node: &manycore_topology::machine::Node, limit: u32| {
        let within = node
            .distances
            .iter()
            .zip(&machine.nodes)
            .filter(|(distance, other)| **distance <= limit && !other.memory_only);
        CpuSet::union_of(within.map(|(_, other)| &other.cpus))
    };
    let levels = distances.into_iter().map(|limit| with_cpus().map(|node| near(node, limit)).collect());
    levels.collect()
}

//! The machine as the scheduler knows it: clusters with their CPUs, and last-level caches with their clusters.

use manycore_topology::{CpuId, CpuSet, Machine};
use std::fmt;

/// What the scheduler spreads tasks over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Clusters of cores, which share an L2 cache or the like.
    Cluster,
    /// Last-level caches, on machines whose kernel reports no clusters of several cores.
    Llc,
    /// NUMA nodes, on machines whose caches are unknown.
    Node,
}

impl fmt::Display for Level {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Cluster => "cluster",
            Self::Llc => "last-level cache",
            Self::Node => "NUMA node",
        })
    }
}

/// One unit of the [`Level`]. In the scheduler and here it is called cluster, whatever the level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its CPUs, core by core.
    pub cpus: Vec<CpuId>,
    /// Index of its last-level cache.
    pub llc: usize,
    /// Capacity of its fastest CPU; that of the machine's fastest is 1024.
    pub capacity: u32,
}

/// A last-level cache, or the part of it on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Llc {
    /// Index of its first cluster; the others follow.
    pub first: usize,
    /// Number of its clusters.
    pub clusters: usize,
    /// All last-level caches, the nearest first: itself, those of its node, those of other nodes.
    pub nearest: Vec<usize>,
}

/// The machine, without isolated CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What a cluster is.
    pub level: Level,
    /// The clusters, those of a last-level cache together.
    pub clusters: Vec<Cluster>,
    /// The last-level caches.
    pub llcs: Vec<Llc>,
    /// CPUs of each core.
    pub cores: Vec<Vec<CpuId>>,
}

impl Layout {
    /// Derives the layout. Returns `None` if the machine has one cluster only, so that there is nothing to spread
    /// over.
    pub fn of(machine: &Machine) -> Option<Self> {
        let managed = machine.online.difference(&machine.isolated);
        let cores: Vec<Vec<CpuId>> = parts(machine.cores.iter().map(|core| &core.cpus), &managed)
            .iter()
            .map(|cpus| cpus.iter().collect())
            .collect();
        let caches =
            split_by_node(machine, &parts(machine.last_level_caches().map(|cache| &cache.cpus), &managed));
        let (level, units) = level(machine, &managed, &caches)?;
        let mut layout = Self { level, clusters: Vec::new(), llcs: Vec::new(), cores };
        for (index, cache) in caches.iter().enumerate() {
            let first = layout.clusters.len();
            for cpus in units.iter().map(|unit| unit.intersection(cache)).filter(|cpus| !cpus.is_empty()) {
                let capacity = cpus.iter().map(|cpu| capacity(machine, cpu)).max().unwrap_or(1024);
                let cpus = layout.cores.iter().flatten().copied().filter(|&cpu| cpus.contains(cpu)).collect();
                layout.clusters.push(Cluster { cpus, llc: index, capacity });
            }
            let nearest = nearest(machine, &caches, index);
            layout.llcs.push(Llc { first, clusters: layout.clusters.len() - first, nearest });
        }
        Some(layout)
    }
}

/// Returns the parts of groups of CPUs that are in `within`, and its CPUs that are in no group, each as a part.
fn parts<'a>(groups: impl Iterator<Item = &'a CpuSet>, within: &CpuSet) -> Vec<CpuSet> {
    let mut left = within.clone();
    let mut parts = Vec::new();
    for group in groups {
        let part = group.intersection(&left);
        if !part.is_empty() {
            left = left.difference(&part);
            parts.push(part);
        }
    }
    parts.extend(left.iter().map(CpuSet::single));
    parts
}

/// Splits caches that several NUMA nodes share.
fn split_by_node(machine: &Machine, caches: &[CpuSet]) -> Vec<CpuSet> {
    let nodes: Vec<&CpuSet> =
        machine.nodes.iter().filter(|node| !node.memory_only).map(|node| &node.cpus).collect();
    caches.iter().flat_map(|cache| parts(nodes.iter().copied(), cache)).collect()
}

/// Returns the level to spread over, and its units.
fn level(machine: &Machine, managed: &CpuSet, caches: &[CpuSet]) -> Option<(Level, Vec<CpuSet>)> {
    let clusters = parts(machine.clusters.iter().map(|cluster| &cluster.cpus), managed);
    let has_several_cores = |unit: &CpuSet| {
        machine.cores.iter().filter(|core| !core.cpus.intersection(unit).is_empty()).count() > 1
    };
    if clusters.len() > 1 && !machine.clusters.is_empty() && clusters.iter().any(has_several_cores) {
        return Some((Level::Cluster, clusters));
    }
    let has_caches = machine.last_level_caches().next().is_some();
    if has_caches && caches.len() > 1 && caches.iter().any(has_several_cores) {
        return Some((Level::Llc, caches.to_vec()));
    }
    let nodes = parts(machine.nodes.iter().filter(|node| !node.memory_only).map(|node| &node.cpus), managed);
    (machine.nodes.len() > 1 && nodes.len() > 1).then_some((Level::Node, nodes))
}

/// Returns the capacity of a CPU relative to the fastest, which has 1024.
fn capacity(machine: &Machine, cpu: CpuId) -> u32 {
    let kind = machine.core_kinds.iter().find(|kind| kind.cpus.contains(cpu));
    let fastest = machine.core_kinds.iter().filter_map(|kind| kind.max_khz).max();
    match kind {
        Some(kind) => match (kind.capacity, kind.max_khz, fastest) {
            (Some(capacity), ..) => capacity.min(1024),
            (None, Some(own), Some(fastest)) if fastest > 0 => (own * 1024 / fastest) as u32,
            _ => 1024,
        },
        None => 1024,
    }
}

/// Returns the indices of all caches, the nearest to one of them first.
fn nearest(machine: &Machine, caches: &[CpuSet], from: usize) -> Vec<usize> {
    let node_of =
        |cache: &CpuSet| machine.nodes.iter().position(|node| !node.cpus.intersection(cache).is_empty());
    let own = node_of(&caches[from]);
    let distance = |to: usize| {
        let between = || {
            let row = &machine.nodes.get(own?)?.distances;
            row.get(node_of(&caches[to])?).copied()
        };
        (to != from, node_of(&caches[to]) != own, between().unwrap_or(0))
    };
    let mut order: Vec<usize> = (0..caches.len()).collect();
    // After itself in order of number, so that not all caches search the same one first.
    order.sort_by_key(|&to| (distance(to), (to + caches.len() - from) % caches.len()));
    order
}

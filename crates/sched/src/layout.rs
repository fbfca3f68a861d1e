//! The machine as the scheduler knows it: clusters with their CPUs, and last-level caches with their clusters.

use manycore_topology::{CpuId, CpuSet, Level, Machine};

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
    /// What a cluster is: [`Level::Cluster`], [`Level::Llc`] or [`Level::Node`].
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
        let units_of = |level| managed.divide(machine.units(level));
        let cores: Vec<Vec<CpuId>> = units_of(Level::Core).iter().map(|cpus| cpus.iter().collect()).collect();
        // A cache that several NUMA nodes share is several ones here.
        let caches: Vec<CpuSet> =
            units_of(Level::Llc).iter().flat_map(|cache| cache.divide(machine.units(Level::Node))).collect();
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

/// Returns the level to spread over, and its units: clusters of several cores; last-level caches where the kernel reports
/// no such clusters; NUMA nodes where caches are unknown.
fn level(machine: &Machine, managed: &CpuSet, caches: &[CpuSet]) -> Option<(Level, Vec<CpuSet>)> {
    let have_several_cores = |units: &[CpuSet]| units.iter().any(|unit| machine.are_several_cores(unit));
    let clusters = managed.divide(machine.units(Level::Cluster));
    if clusters.len() > 1 && have_several_cores(&clusters) {
        return Some((Level::Cluster, clusters));
    }
    if caches.len() > 1 && have_several_cores(caches) {
        return Some((Level::Llc, caches.to_vec()));
    }
    let nodes = managed.divide(machine.units(Level::Node));
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

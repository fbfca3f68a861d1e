//! The NUMA nodes whose memory is nearest to given CPUs.

use crate::PlannedWorker;
use manycore_topology::{CpuSet, Machine, machine::Node};

/// For each node with CPUs, the nodes with memory nearest to it.
pub(super) struct NearMemory<'a> {
    nodes: Vec<(&'a Node, Vec<u32>)>,
}

impl<'a> NearMemory<'a> {
    pub fn new(machine: &'a Machine) -> Self {
        let nodes = machine.nodes.iter().filter(|node| !node.memory_only && !node.cpus.is_empty());
        Self { nodes: nodes.map(|node| (node, nearest(machine, node))).collect() }
    }

    /// Returns a worker with these CPUs and the memory nearest to them.
    pub fn worker(&self, cpus: CpuSet, why: String) -> PlannedWorker {
        PlannedWorker { memory_nodes: self.nodes_near(&cpus), cpus, why }
    }

    /// Returns the ids of the nodes nearest to any of the CPUs, ascending.
    pub fn nodes_near(&self, cpus: &CpuSet) -> Vec<u32> {
        let single = cpus.first().filter(|_| cpus.len() == 1);
        let holds =
            |node: &Node| single.map_or_else(|| node.cpus.intersects(cpus), |cpu| node.cpus.contains(cpu));
        let near = self.nodes.iter().filter(|(node, _)| holds(node));
        let mut ids: Vec<u32> = near.flat_map(|(_, ids)| ids).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Returns the node itself if it has memory or if its memory is unknown. Otherwise returns the nodes with
/// memory at the smallest distance, and among these the ones of the fastest tier. Returns all equally near
/// nodes; without known distances these are all nodes with memory.
fn nearest(machine: &Machine, node: &Node) -> Vec<u32> {
    if node.memory_bytes != Some(0) {
        return vec![node.id];
    }
    let with_memory = machine.nodes.iter().enumerate().filter(|(_, other)| other.memory_bytes != Some(0));
    let rated = with_memory.map(|(at, other)| {
        let distance = node.distances.get(at).copied().unwrap_or(u32::MAX);
        ((distance, other.tier.unwrap_or(u32::MAX)), other.id)
    });
    let rated: Vec<((u32, u32), u32)> = rated.collect();
    let best = rated.iter().map(|other| other.0).min();
    rated.into_iter().filter(|other| Some(other.0) == best).map(|other| other.1).collect()
}

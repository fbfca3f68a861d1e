//! Exports for `numactl(8)`: CPUs and memory of a command.

use super::{Export, list};
use crate::{MemoryPlacement, PlacementPlan};
use manycore_topology::CpuSet;

impl PlacementPlan {
    /// Returns the command prefix that restricts a command to the plan's CPUs and sets a memory policy:
    /// `numactl --physcpubind=0-3 --interleave=0-1`. Nodes are `all` if neither the policy nor the plan
    /// names any.
    pub fn numactl(&self, memory: &MemoryPlacement) -> String {
        words(&self.cpus(), memory, &memory.nodes(self))
    }
}

pub(super) fn text(export: &Export) -> String {
    export.lines(|worker| words(&worker.cpus, export.memory, &export.nodes(worker)))
}

fn words(cpus: &CpuSet, memory: &MemoryPlacement, nodes: &[u32]) -> String {
    let memory = self::memory(memory, nodes).map(|words| format!(" {words}"));
    format!("numactl --physcpubind={cpus}{}", memory.unwrap_or_default())
}

/// Returns the option for a memory policy on these nodes; `None` for the inherited policy.
pub(super) fn memory(memory: &MemoryPlacement, nodes: &[u32]) -> Option<String> {
    let nodes = if nodes.is_empty() { "all".to_owned() } else { list(nodes) };
    match memory {
        MemoryPlacement::Default => None,
        MemoryPlacement::Local => Some("--localalloc".to_owned()),
        MemoryPlacement::Interleave(_) => Some(format!("--interleave={nodes}")),
        MemoryPlacement::Bind(_) => Some(format!("--membind={nodes}")),
    }
}

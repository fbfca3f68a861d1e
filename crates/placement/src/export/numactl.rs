//! `numactl(8)`: CPUs and memory of a command.

use super::{Export, list};
use crate::{Memory, Plan};
use manycore_topology::CpuSet;

impl Plan {
    /// The words to put before a command so that it may use the plan's CPUs with a memory policy:
    /// `numactl --physcpubind=0-3 --interleave=0-1`. Nodes are `all` where neither the policy nor the plan
    /// names any.
    pub fn numactl(&self, memory: &Memory) -> String {
        words(&self.cpus(), memory, &memory.nodes(self))
    }
}

pub(super) fn text(export: &Export) -> String {
    export.lines(|worker| words(&worker.cpus, export.memory, &export.nodes(worker)))
}

fn words(cpus: &CpuSet, memory: &Memory, nodes: &[u32]) -> String {
    let memory = self::memory(memory, nodes).map(|words| format!(" {words}"));
    format!("numactl --physcpubind={cpus}{}", memory.unwrap_or_default())
}

/// The option for a memory policy on these nodes; none for what is inherited.
pub(super) fn memory(memory: &Memory, nodes: &[u32]) -> Option<String> {
    let nodes = if nodes.is_empty() { "all".to_owned() } else { list(nodes) };
    match memory {
        Memory::Default => None,
        Memory::Local => Some("--localalloc".to_owned()),
        Memory::Interleave(_) => Some(format!("--interleave={nodes}")),
        Memory::Bind(_) => Some(format!("--membind={nodes}")),
    }
}

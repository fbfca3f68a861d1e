//! Memory policies as on the command line, and the nodes that they select for a plan.

use crate::{PlacementError, PlacementPlan};
use manycore_topology::{CpuSet, Machine};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// Linux numbers NUMA nodes below this (`NODES_SHIFT` is at most 10).
const MAX_NODES: u32 = 1024;

/// NUMA memory policy (`set_mempolicy(2)`), parsed and printed as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryPlacement {
    /// `default`: the inherited policy; on Linux usually the node of the CPU that first touches a page.
    #[default]
    Default,
    /// `local`: the node of the CPU that first touches a page, regardless of the inherited policy.
    Local,
    /// `interleave`, `interleave=0-1`: pages alternate between these nodes, or between the plan's nodes if
    /// none are given.
    Interleave(Vec<u32>),
    /// `bind`, `bind=0`: pages come only from these nodes, even if they are full, or from the plan's nodes
    /// if none are given.
    Bind(Vec<u32>),
}

/// Reasons why a text is not a memory policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseMemoryPlacementError {
    /// The text is not one of the policies.
    #[error(
        "'{0}' is not a memory policy; write default, local, interleave, bind, interleave=NODES or bind=NODES"
    )]
    Unknown(String),
    /// The text after `=` is not a list of nodes, or is empty.
    #[error("'{0}' is not a list of NUMA nodes below 1024; write a list such as 0-1")]
    Nodes(String),
}

impl FromStr for MemoryPlacement {
    type Err = ParseMemoryPlacementError;

    fn from_str(text: &str) -> Result<Self, ParseMemoryPlacementError> {
        let text = text.trim();
        let nodes = |list: &str| {
            let set: Option<CpuSet> = list.parse().ok();
            let set = set.filter(|set| set.last().is_some_and(|last| last < MAX_NODES));
            set.map(|set| set.iter().collect())
                .ok_or_else(|| ParseMemoryPlacementError::Nodes(list.to_owned()))
        };
        match text.split_once('=') {
            None => match text {
                "default" => Ok(Self::Default),
                "local" => Ok(Self::Local),
                "interleave" => Ok(Self::Interleave(Vec::new())),
                "bind" => Ok(Self::Bind(Vec::new())),
                _ => Err(ParseMemoryPlacementError::Unknown(text.to_owned())),
            },
            Some(("interleave", list)) => nodes(list).map(Self::Interleave),
            Some(("bind", list)) => nodes(list).map(Self::Bind),
            Some(_) => Err(ParseMemoryPlacementError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for MemoryPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, nodes) = match self {
            Self::Default => return f.write_str("default"),
            Self::Local => return f.write_str("local"),
            Self::Interleave(nodes) => ("interleave", nodes),
            Self::Bind(nodes) => ("bind", nodes),
        };
        match nodes.as_slice() {
            [] => f.write_str(word),
            nodes => write!(f, "{word}={}", set(nodes)),
        }
    }
}

impl MemoryPlacement {
    /// Checks that the machine has the nodes that the policy names. A machine that reports no nodes has
    /// none.
    ///
    /// # Errors
    /// Returns the first node that does not exist or has no memory.
    pub fn check(&self, machine: &Machine) -> Result<(), PlacementError> {
        let (Self::Interleave(nodes) | Self::Bind(nodes)) = self else { return Ok(()) };
        let known = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0));
        let known: CpuSet = known.map(|node| node.id).collect();
        let unknown = nodes.iter().find(|node| !known.contains(**node));
        unknown
            .map_or(Ok(()), |&node| Err(PlacementError::NoNode { requested: self.to_string(), node, known }))
    }

    /// Returns the nodes that the policy selects for a plan, ascending; empty for policies without nodes,
    /// and if the plan has no nodes because the machine reports none.
    pub fn nodes(&self, plan: &PlacementPlan) -> Vec<u32> {
        let nodes: BTreeSet<u32> = match self {
            Self::Default | Self::Local => BTreeSet::new(),
            Self::Interleave(nodes) | Self::Bind(nodes) if nodes.is_empty() => {
                plan.workers.iter().flat_map(|worker| &worker.memory_nodes).copied().collect()
            }
            Self::Interleave(nodes) | Self::Bind(nodes) => nodes.iter().copied().collect(),
        };
        nodes.into_iter().collect()
    }
}

/// Converts node ids to a list in the kernel's format.
pub(super) fn set(nodes: &[u32]) -> CpuSet {
    nodes.iter().copied().collect()
}

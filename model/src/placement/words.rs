//! A plan in the words of other programs, and the memory policies that go with it.

use super::Plan;
use crate::CpuSet;
use std::{collections::BTreeSet, fmt, str::FromStr};

/// Linux numbers NUMA nodes below this (`NODES_SHIFT` is at most 10).
const MOST_NODES: u32 = 1024;

/// Where the kernel takes memory from (`set_mempolicy(2)`). Read and written as on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Memory {
    /// `default`: what the process inherits; on Linux the node of the CPU that first touches a page.
    #[default]
    Default,
    /// `local`: the node of the CPU that first touches a page, whatever is inherited.
    Local,
    /// `interleave`, `interleave=0-1`: pages in turn from these nodes; from the plan's where none are given.
    Interleave(Vec<u32>),
    /// `bind`, `bind=0`: pages from these nodes only, even where they are full; from the plan's where none
    /// are given.
    Bind(Vec<u32>),
}

/// Why a text is not a memory policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseMemoryError {
    /// None of the policies.
    #[error(
        "'{0}' is not a memory policy; write default, local, interleave, bind, interleave=NODES or bind=NODES"
    )]
    Unknown(String),
    /// The nodes are not a list, or are none.
    #[error("'{0}' is not a list of NUMA nodes below 1024; write a list such as 0-1")]
    Nodes(String),
}

impl FromStr for Memory {
    type Err = ParseMemoryError;

    fn from_str(text: &str) -> Result<Self, ParseMemoryError> {
        let text = text.trim();
        let nodes = |list: &str| {
            let set: Option<CpuSet> = list.parse().ok();
            let set = set.filter(|set| set.last().is_some_and(|last| last < MOST_NODES));
            set.map(|set| set.iter().collect()).ok_or_else(|| ParseMemoryError::Nodes(list.to_owned()))
        };
        match text.split_once('=') {
            None => match text {
                "default" => Ok(Self::Default),
                "local" => Ok(Self::Local),
                "interleave" => Ok(Self::Interleave(Vec::new())),
                "bind" => Ok(Self::Bind(Vec::new())),
                _ => Err(ParseMemoryError::Unknown(text.to_owned())),
            },
            Some(("interleave", list)) => nodes(list).map(Self::Interleave),
            Some(("bind", list)) => nodes(list).map(Self::Bind),
            Some(_) => Err(ParseMemoryError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Memory {
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

impl Memory {
    /// The nodes that the policy means under a plan, ascending; none for those that name none. Where the
    /// machine shows no nodes, the plan has none either.
    pub fn nodes(&self, plan: &Plan) -> Vec<u32> {
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

impl Plan {
    /// The words to put before a command so that it may use the plan's CPUs: `taskset -c 0-3`. Which of them
    /// a worker takes is left to the scheduler.
    pub fn taskset(&self) -> String {
        format!("taskset -c {}", self.cpus())
    }

    /// The same with a memory policy: `numactl --physcpubind=0-3 --interleave=0-1`. Nodes are `all` where
    /// neither the policy nor the plan names any.
    pub fn numactl(&self, memory: &Memory) -> String {
        let cpus = self.cpus();
        let nodes = match memory.nodes(self).as_slice() {
            [] => "all".to_owned(),
            nodes => set(nodes).to_string(),
        };
        let policy = match memory {
            Memory::Default => String::new(),
            Memory::Local => " --localalloc".to_owned(),
            Memory::Interleave(_) => format!(" --interleave={nodes}"),
            Memory::Bind(_) => format!(" --membind={nodes}"),
        };
        format!("numactl --physcpubind={cpus}{policy}")
    }
}

fn set(nodes: &[u32]) -> CpuSet {
    nodes.iter().copied().collect()
}

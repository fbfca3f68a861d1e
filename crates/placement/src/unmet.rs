//! What a machine cannot give, and the nearest that it can.

use super::policy::Level;
use manycore_topology::CpuSet;

/// A demand on the placement that this machine cannot meet. The text names the demand and the nearest one
/// that can be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmet {
    /// Nothing to place.
    #[error("there are no workers to place; ask for at least 1")]
    NoWorkers,
    /// More workers than [`super::MOST_WORKERS`].
    #[error("{asked} workers are too many for a plan; ask for at most {most}")]
    TooManyWorkers {
        /// Workers asked for.
        asked: usize,
        /// Most that a plan holds.
        most: usize,
    },
    /// The machine's description has more CPUs than [`super::MOST_CPUS`].
    #[error("the machine is described with {0} CPUs, more than any has; read it again with topo")]
    TooManyCpus(usize),
    /// No CPU is online, allowed, and not isolated.
    #[error(
        "no CPU may be used: online {online}, allowed {allowed}, isolated {isolated}; cpus=LIST may name isolated ones, and +isolated takes them all"
    )]
    NoCpus {
        /// Online CPUs.
        online: String,
        /// CPUs that this process may use.
        allowed: String,
        /// CPUs that the scheduler leaves alone.
        isolated: String,
    },
    /// The reserve leaves nothing.
    #[error("{reserved} CPUs are to be kept back and only {usable} may be used; keep back at most {most}")]
    Reserved {
        /// CPUs that the reserve asks for.
        reserved: usize,
        /// CPUs that may be used.
        usable: usize,
        /// The largest reserve that leaves a CPU to work on.
        most: usize,
    },
    /// `cpus=` names CPUs that cannot be used.
    #[error("cpus={asked}: {why}; CPUs that may be used: {usable}")]
    Cpus {
        /// The list.
        asked: String,
        /// Which CPUs, and what keeps each of them from being used.
        why: String,
        /// CPUs that the list may name.
        usable: CpuSet,
    },
    /// The reserve names CPUs that are offline, or that the machine does not have.
    #[error("reserve cpus={asked}: {why}; CPUs that may be kept back: {usable}")]
    Kept {
        /// The list.
        asked: CpuSet,
        /// Which CPUs, and what is wrong with each of them.
        why: String,
        /// CPUs that the list may name.
        usable: CpuSet,
    },
    /// The machine shows no group at this level.
    #[error("spread@{}: this machine shows no {}; {}", .level.name(), .level.name(), nearest_level(*.nearest))]
    NoLevel {
        /// The level asked for.
        level: Level,
        /// The nearest level that has groups.
        nearest: Option<Level>,
    },
    /// No device of this name.
    #[error("near={name}: this machine shows no such device; {}", near_names(.near))]
    NoDevice {
        /// The name asked for.
        name: String,
        /// Names that are most like it.
        near: Vec<String>,
    },
    /// All CPUs next to the device are out of use.
    #[error(
        "near={name}: none of its CPUs {cpus} may be used: {why}; CPUs that may be used: {usable} (spread uses them)"
    )]
    DeviceOutOfReach {
        /// The device asked for.
        name: String,
        /// CPUs next to it.
        cpus: CpuSet,
        /// What keeps them from being used.
        why: String,
        /// CPUs that may be used.
        usable: CpuSet,
    },
    /// `near=nodeN` for a node that is not there.
    #[error("near=node{node}: this machine shows no CPUs of node {node}; {}", with_cpus(.known))]
    NoCpusOfNode {
        /// The node asked for.
        node: u32,
        /// Nodes that CPUs are on or near to.
        known: CpuSet,
    },
    /// Several isolated CPUs for one worker.
    #[error(
        "{asked}: the scheduler moves nothing between isolated CPUs ({isolated}), so each worker needs one of its own; \
         write close+isolated, spread+isolated or cpus=LIST"
    )]
    Unbalanced {
        /// The placement.
        asked: String,
        /// The isolated CPUs.
        isolated: CpuSet,
    },
    /// A memory policy names a node that is not there or has no memory.
    #[error("{asked}: this machine shows no memory on node {node}; {}", with_memory(.known))]
    NoNode {
        /// The policy.
        asked: String,
        /// The node.
        node: u32,
        /// Nodes with memory.
        known: CpuSet,
    },
    /// Not every worker can have a CPU of its own.
    #[error("{workers} workers on CPUs {cpus} cannot have one each; at most {} can", .cpus.len())]
    NotExclusive {
        /// Workers that are to share the CPUs.
        workers: usize,
        /// The CPUs.
        cpus: CpuSet,
    },
}

fn nearest_level(level: Option<Level>) -> String {
    level.map_or_else(|| "write spread".to_owned(), |level| format!("the nearest is spread@{}", level.name()))
}

fn with_memory(known: &CpuSet) -> String {
    if known.is_empty() { "it shows no nodes".to_owned() } else { format!("nodes with memory: {known}") }
}

fn with_cpus(known: &CpuSet) -> String {
    if known.is_empty() { "it shows no nodes".to_owned() } else { format!("nodes with CPUs: {known}") }
}

fn near_names(near: &[String]) -> String {
    match near {
        [] => "it shows no devices at all".to_owned(),
        _ => format!("the nearest names are {}", near.join(", ")),
    }
}

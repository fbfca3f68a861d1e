//! Requests that a machine cannot meet, with the nearest request that it can.

use manycore_topology::{CpuSet, Level};

/// A request for a placement that this machine cannot meet. The message names the request and the nearest
/// one that can be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// There are no workers to place.
    #[error("there are no workers to place; request at least 1")]
    NoWorkers,
    /// More workers than [`crate::MAX_WORKERS`].
    #[error("{requested} workers are too many for a plan; request at most {most}")]
    TooManyWorkers {
        /// Workers requested.
        requested: usize,
        /// Maximum number of workers of a plan.
        most: usize,
    },
    /// The machine's description has more CPUs than [`crate::MAX_CPUS`].
    #[error("the machine description has {0} CPUs, more than any real machine; create it again")]
    TooManyCpus(usize),
    /// No CPU is online, allowed, and not isolated.
    #[error(
        "no CPU may be used: online {online}, allowed {allowed}, isolated {isolated}; cpus=LIST may name isolated CPUs, and +isolated uses all of them"
    )]
    NoCpus {
        /// Online CPUs.
        online: String,
        /// CPUs that this process may use.
        allowed: String,
        /// CPUs isolated from the scheduler's load balancing.
        isolated: String,
    },
    /// The reserve leaves no CPU.
    #[error("the reserve is {reserved} CPUs, but only {usable} may be used; reserve at most {most}")]
    ReserveTooLarge {
        /// Size of the reserve.
        reserved: usize,
        /// CPUs that may be used.
        usable: usize,
        /// Largest reserve that leaves a CPU for the workers.
        most: usize,
    },
    /// `cpus=` names CPUs that cannot be used.
    #[error("cpus={requested}: {why}; CPUs that may be used: {usable}")]
    Cpus {
        /// The list.
        requested: String,
        /// The CPUs that cannot be used, and why.
        why: String,
        /// CPUs that the list may name.
        usable: CpuSet,
    },
    /// The reserve names CPUs that are offline or that the machine does not have.
    #[error("reserve cpus={requested}: {why}; CPUs that may be reserved: {usable}")]
    ReserveCpus {
        /// The list.
        requested: CpuSet,
        /// The CPUs that cannot be reserved, and why.
        why: String,
        /// CPUs that the list may name.
        usable: CpuSet,
    },
    /// The machine has no group at this level.
    #[error("spread@{}: this machine reports no {}; {}", .level.name(), .level.name(), nearest_level(*.nearest))]
    NoLevel {
        /// The level requested.
        level: Level,
        /// The nearest level with groups.
        nearest: Option<Level>,
    },
    /// There is no device with this name.
    #[error("near={name}: this machine reports no such device; {}", near_names(.similar))]
    NoDevice {
        /// The name requested.
        name: String,
        /// Similar names of devices.
        similar: Vec<String>,
    },
    /// None of the CPUs near the device may be used.
    #[error(
        "near={name}: none of its CPUs {cpus} may be used: {why}; CPUs that may be used: {usable} (use spread for them)"
    )]
    NoUsableCpuNearDevice {
        /// The device requested.
        name: String,
        /// CPUs near the device.
        cpus: CpuSet,
        /// Why they may not be used.
        why: String,
        /// CPUs that may be used.
        usable: CpuSet,
    },
    /// `near=nodeN` names a node that has no CPUs or does not exist.
    #[error("near=node{node}: this machine reports no CPUs of node {node}; {}", with_cpus(.known))]
    NoCpusOfNode {
        /// The node requested.
        node: u32,
        /// Nodes with CPUs on them or near them.
        known: CpuSet,
    },
    /// A worker would get several isolated CPUs.
    #[error(
        "{requested}: the scheduler does not balance load between isolated CPUs ({isolated}), so each worker needs \
         its own; write close+isolated, spread+isolated or cpus=LIST"
    )]
    SeveralIsolatedCpus {
        /// The placement requested.
        requested: String,
        /// The isolated CPUs.
        isolated: CpuSet,
    },
    /// A memory policy names a node that does not exist or has no memory.
    #[error("{requested}: this machine reports no memory on node {node}; {}", with_memory(.known))]
    NoNode {
        /// The policy requested.
        requested: String,
        /// The node.
        node: u32,
        /// Nodes with memory.
        known: CpuSet,
    },
    /// There is not one CPU per worker.
    #[error("{workers} workers on CPUs {cpus} cannot have one CPU each; at most {} can", .cpus.len())]
    NotExclusive {
        /// Workers on these CPUs.
        workers: usize,
        /// The CPUs.
        cpus: CpuSet,
    },
}

fn nearest_level(level: Option<Level>) -> String {
    level.map_or_else(|| "write spread".to_owned(), |level| format!("the nearest is spread@{}", level.name()))
}

fn with_memory(known: &CpuSet) -> String {
    if known.is_empty() { "it reports no nodes".to_owned() } else { format!("nodes with memory: {known}") }
}

fn with_cpus(known: &CpuSet) -> String {
    if known.is_empty() { "it reports no nodes".to_owned() } else { format!("nodes with CPUs: {known}") }
}

fn near_names(similar: &[String]) -> String {
    match similar {
        [] => "it reports no devices".to_owned(),
        _ => format!("the nearest names are {}", similar.join(", ")),
    }
}

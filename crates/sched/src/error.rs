//! Why the scheduler cannot be shown or loaded.

use manycore_topology::Error as TopologyError;

/// Why the scheduler cannot be shown or loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be opened, or one of its files cannot be parsed.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The program was built without the scheduler.
    #[error(
        "this manycore was built without the scheduler, for want of {0}: install it and build again, or keep threads \
         apart with --with affinity"
    )]
    NotBuilt(&'static str),
    /// The kernel cannot load schedulers.
    #[error(
        "this kernel has no sched_ext (Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT=y): --with affinity keeps \
         threads apart without it"
    )]
    NoSchedExt,
    /// Another scheduler is loaded.
    #[error("the sched_ext scheduler {} is loaded: end the program that loaded it first", quoted(.0))]
    Other(String),
    /// The machine has one cluster.
    #[error(
        "this machine has one cluster only, so there is nothing to spread over ('manycore topo' shows it)"
    )]
    OneCluster,
    /// The kernel refused the scheduler.
    #[error(transparent)]
    Bpf(#[from] manycore_bpf::Error),
    /// The kernel removed the scheduler.
    #[error("the kernel has removed the scheduler: {0}; its own scheduler is in force")]
    Removed(String),
}

fn quoted(name: &str) -> String {
    format!("{:?}", name.chars().take(64).collect::<String>())
}

/// The result of an operation of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

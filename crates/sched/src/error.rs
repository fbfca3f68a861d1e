//! Why the scheduler cannot be shown or changed.

use manycore_linux::targets::TargetError;
use manycore_topology::Level;

/// Why the scheduler cannot be shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be opened, or one of its files cannot be parsed.
    #[error(transparent)]
    Topology(#[from] manycore_topology::Error),
    /// A process cannot be followed, or an affinity cannot be changed.
    #[error(transparent)]
    Control(#[from] manycore_control::Error),
    /// A control group does not exist.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// No process has the name.
    #[error("no process is named {name:?}{hidden}")]
    NoProcessNamed {
        /// The name.
        name: String,
        /// Why processes of other users may not have been found, as the end of the message.
        hidden: String,
    },
    /// There is no work to place.
    #[error("no work is named")]
    NoTarget,
    /// Spread or pack cannot be chosen by measurement.
    #[error("affinities cannot be chosen by measurement: give spread or pack")]
    AutoPolicy,
    /// The machine has only one unit of the level.
    #[error(
        "this machine has only one {level} with CPUs that may be used: there is nothing to spread over{}",
        instead(.others)
    )]
    OneUnit {
        /// The level.
        level: Level,
        /// Levels with several units.
        others: Vec<Level>,
    },
    /// The affinities of these processes may not be changed. Nothing was changed.
    #[error(
        "the affinity of {process} may not be changed (Operation not permitted): run manycore as root, or as the user of \
         the process; nothing was changed"
    )]
    NotPermitted {
        /// Name and id of a process.
        process: String,
    },
    /// The class of this process cannot be changed, which a command inherits.
    #[error("this process cannot be scheduled by the loaded scheduler: {0}")]
    SchedulingClass(std::io::Error),
    /// A control group is none of version 2.
    #[error("{0} is no control group of version 2: policies of groups need the unified hierarchy (cgroup2)")]
    OldGroup(String),
    /// Spread or pack is to be measured, but nothing says how much work is done.
    #[error("spread and pack cannot be compared without a measure of the work")]
    NoProgress,
    /// Several policies are to be measured at the same time.
    #[error("only one policy can be auto: what one measurement changes would disturb the other")]
    SeveralAuto,
    /// The progress of the work cannot be read.
    #[error("the progress of the work cannot be read: {command}: {why}")]
    Progress {
        /// The command.
        command: String,
        /// What is wrong.
        why: String,
    },
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

fn instead(others: &[Level]) -> String {
    match others.first() {
        Some(level) => format!("; it has several {level}s"),
        None => String::new(),
    }
}

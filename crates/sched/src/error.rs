//! Why the scheduler cannot be shown or changed.

use crate::affinity::Level;
use manycore_linux::targets::TargetError;

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
    #[error("no process is named {0:?}")]
    NoProcessNamed(String),
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
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

fn instead(others: &[Level]) -> String {
    match others.first() {
        Some(level) => format!("; it has several {level}s"),
        None => String::new(),
    }
}

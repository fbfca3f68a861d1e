//! Why a machine cannot be audited.

use manycore_linux::absent_process::AbsentProcess;
use manycore_topology::Error as TopologyError;

/// Why an audit failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such process, or it is hidden.
    #[error(transparent)]
    NoProcess(AbsentProcess),
    /// A file of the system cannot be parsed.
    #[error(transparent)]
    Read(#[from] TopologyError),
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

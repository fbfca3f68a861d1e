//! Why the scheduler cannot be shown.

/// Why the scheduler cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be opened, or one of its files cannot be parsed.
    #[error(transparent)]
    Topology(#[from] manycore_topology::Error),
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

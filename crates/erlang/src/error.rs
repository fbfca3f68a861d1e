//! Why a node cannot be queried.

/// Why a node cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process is not an Erlang node that can be queried.
    #[error("{0}")]
    NoNode(String),
    /// The node gave no usable answer.
    #[error("{0}")]
    Query(String),
    /// There is no cookie, or its file is not one that only its user can write.
    #[error("{0}")]
    UntrustedCookie(String),
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

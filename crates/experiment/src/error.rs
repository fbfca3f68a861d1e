//! Why an experiment can fail.

use std::fmt::Display;

/// Why an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A needed right, file, program or resource is missing.
    #[error("{0}")]
    Unavailable(String),
    /// A measured command or a worker failed.
    #[error("{0}")]
    Failed(String),
    /// The work was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// [`Error::Unavailable`] with this message.
    pub fn unavailable(message: impl Display) -> Self {
        Self::Unavailable(message.to_string())
    }
}

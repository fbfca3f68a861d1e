//! Why an experiment can fail.

use std::fmt::Display;

/// Why an experiment failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A needed right, file, program or resource is missing.
    #[error("{0}")]
    Unavailable(String),
    /// A measured command or a worker failed.
    #[error("{0}")]
    Failed(String),
    /// The definition of a metric is wrong; the message says what was found and what was expected.
    #[error("{0}")]
    InvalidMetric(String),
    /// The output of a command does not have the requested figures; the message says what was found instead.
    #[error("{0}")]
    UnreadableOutput(String),
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

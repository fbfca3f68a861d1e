//! Why a study can fail.

use std::fmt::Display;

/// Why a study failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options or an input are wrong.
    #[error("{0}")]
    Invalid(String),
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
    /// [`Error::Invalid`] with this message.
    pub fn invalid(message: impl Display) -> Self {
        Self::Invalid(message.to_string())
    }

    /// [`Error::Unavailable`] with this message.
    pub fn unavailable(message: impl Display) -> Self {
        Self::Unavailable(message.to_string())
    }
}

impl From<manycore_experiment::Error> for Error {
    fn from(error: manycore_experiment::Error) -> Self {
        use manycore_experiment::Error as Cause;
        match error {
            Cause::Unavailable(message) => Self::Unavailable(message),
            Cause::Failed(message) => Self::Failed(message),
            Cause::Interrupted => Self::Interrupted,
        }
    }
}

impl From<manycore_control::Error> for Error {
    fn from(error: manycore_control::Error) -> Self {
        if error.is_request() { Self::invalid(error) } else { Self::unavailable(error) }
    }
}

//! Why a change of the system can fail.

use std::fmt::Display;

/// Why a change of the system failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options or an input are wrong.
    #[error("{0}")]
    Invalid(String),
    /// A needed right, file, program or resource is missing.
    #[error("{0}")]
    Unavailable(String),
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

//! Why a run fails, and the exit codes.

use crate::output;
use manycore_guard::Error;
use std::{io, process::ExitCode};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The guard failed.
    #[error("{}", guard_message(.0))]
    Guard(#[from] Error),
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// The reader of standard output has closed the pipe; nothing is printed.
    #[error("the reader of the output is gone")]
    ReaderGone,
}

impl From<manycore_erlang::Error> for Failure {
    fn from(error: manycore_erlang::Error) -> Self {
        Self::Guard(error.into())
    }
}

/// Returns the message with the option that it is about.
fn guard_message(error: &Error) -> String {
    match error {
        Error::InvalidCgroup(_) => format!("--{error}"),
        Error::InvalidMetricsPlace(_) => format!("--metrics: {error}"),
        _ => error.to_string(),
    }
}

impl Failure {
    /// Returns the exit code: 2 for a wrong option or input, 130 if interrupted, otherwise 3.
    pub fn code(&self) -> u8 {
        match self {
            Self::Guard(Error::Interrupted) => 130,
            Self::Guard(error) if error.is_invalid_input() => 2,
            Self::ReaderGone => 0,
            Self::Guard(_) | Self::Output(_) | Self::Signals(_) => 3,
        }
    }

    /// Prints the message on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        if !matches!(self, Self::ReaderGone) {
            output::note(&format!("manycore: {self}"));
        }
        ExitCode::from(self.code())
    }
}

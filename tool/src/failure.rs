//! How a run can end badly, and the exit code that says so.

use crate::output;
use std::{fmt::Display, process::ExitCode};

/// Why the run failed; each variant has its documented exit code and one message for standard error.
#[derive(Debug)]
pub enum Failure {
    /// 1: the check that was asked for does not hold.
    Check(String),
    /// 2: the command line or an input file is wrong.
    Input(String),
    /// 3: a needed right, file system or program is missing, or an output cannot be written.
    Missing(String),
    /// 4: a measured command or worker failed.
    Measured(String),
    /// 130: interrupted; what was measured is saved.
    Interrupted(String),
    /// The reader of our output went away (`manycore topo | head`): nothing to say.
    ReaderGone,
}

/// The result of a verb or of a step of it.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Prints the message on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let (code, message) = match self {
            Self::Check(message) => (1, message),
            Self::Input(message) => (2, message),
            Self::Missing(message) => (3, message),
            Self::Measured(message) => (4, message),
            Self::Interrupted(message) => (130, message),
            Self::ReaderGone => return ExitCode::SUCCESS,
        };
        output::note(&format!("manycore: {message}"));
        ExitCode::from(code)
    }

    /// An input that cannot be used: exit code 2.
    pub fn input(message: impl Display) -> Self {
        Self::Input(message.to_string())
    }

    /// Something that the machine lacks: exit code 3.
    pub fn missing(message: impl Display) -> Self {
        Self::Missing(message.to_string())
    }
}

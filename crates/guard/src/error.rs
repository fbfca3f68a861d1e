//! Why the guard can fail.

use manycore_control::journal::FOLDER_VARIABLE;
use manycore_linux::absent_process::AbsentProcess;
use std::{io, path::PathBuf};

/// Why the guard failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rules file has an error.
    #[error("{file}: {reason}")]
    InvalidRules {
        /// The file, or `the default rules`.
        file: String,
        /// The line, what was found and what was expected.
        reason: String,
    },
    /// Other users can change the rules file.
    #[error("refusing rules that other users can change: {0}")]
    UntrustedRules(String),
    /// A control group that was requested besides the rules does not exist or cannot be watched.
    #[error("{0}")]
    InvalidCgroup(String),
    /// Metrics can be neither served at nor written to this place.
    #[error("{0:?} is not an address: write 127.0.0.1:9101, or ./{0} for a file")]
    InvalidMetricsPlace(String),
    /// There is no process with this id, or it is hidden.
    #[error(transparent)]
    NoSuchProcess(AbsentProcess),
    /// An Erlang node cannot be queried.
    #[error(transparent)]
    Erlang(#[from] manycore_erlang::Error),
    /// Another guard is running. It answers on this socket.
    #[error(
        "a guard is already running (it listens on {}): stop it first, or set {FOLDER_VARIABLE} to another directory \
        for a second one", .0.display()
    )]
    AlreadyRunning(PathBuf),
    /// A running guard cannot be queried.
    #[error("{0}")]
    Unanswered(String),
    /// A file that the guard reads or writes belongs to other users, or is not a regular file.
    #[error("{0}")]
    UntrustedFile(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted: `cannot listen on /run/manycore/guard.sock`.
        what: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The monitor thread has panicked.
    #[error("the monitor thread has panicked")]
    MonitorPanicked,
    /// A signal requested the end.
    #[error("interrupted")]
    Interrupted,
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a constructor of [`Error::System`] with this description.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }

    /// Whether an option or an input is wrong, rather than something missing on this machine.
    pub fn is_invalid_input(&self) -> bool {
        matches!(
            self,
            Self::InvalidRules { .. }
                | Self::UntrustedRules(_)
                | Self::InvalidCgroup(_)
                | Self::InvalidMetricsPlace(_)
                | Self::NoSuchProcess(_)
                | Self::Erlang(manycore_erlang::Error::NoNode(_))
        )
    }
}

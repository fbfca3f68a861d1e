//! Why a density could not be measured.

use std::io;

/// Why a density could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bound is invalid.
    #[error("{0}")]
    Bound(String),
    /// The command of an instance is invalid.
    #[error("{0}")]
    Template(String),
    /// An instance cannot be started.
    #[error("cannot start instance {index} ({program}): {source}")]
    Start {
        /// Number of the instance, from 0.
        index: usize,
        /// Its program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// An instance ended by itself.
    #[error("instance {index} has ended ({status}){}", said(.last))]
    Ended {
        /// Number of the instance, from 0.
        index: usize,
        /// How.
        status: String,
        /// The last line that it printed.
        last: String,
    },
    /// An instance accepts no connections.
    #[error(
        "instance {index} accepts no connection on port {port} within {seconds} s{}: does the command use {{port}}?",
        said(.last)
    )]
    NotReady {
        /// Number of the instance, from 0.
        index: usize,
        /// Its port.
        port: u16,
        /// How long it was waited for.
        seconds: u64,
        /// The last line that it printed.
        last: String,
    },
    /// Another program uses the port of an instance.
    #[error("port {port} of instance {index} is in use by another program: choose others with --ports")]
    PortInUse {
        /// Number of the instance, from 0.
        index: usize,
        /// The port.
        port: u16,
    },
    /// The lone instance cannot be measured.
    #[error("the lone instance cannot be measured: {0}")]
    Alone(String),
    /// A load could not be generated.
    #[error(transparent)]
    Load(#[from] manycore_load::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

impl Error {
    /// Whether it says that the machine cannot hold so many instances, and not that the request is wrong.
    pub(crate) fn is_of_count(&self) -> bool {
        matches!(
            self,
            Self::Ended { .. } | Self::NotReady { .. } | Self::Load(manycore_load::Error::Connect { .. })
        )
    }
}

/// Returns what an instance printed last, as the end of a sentence.
fn said(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!(", having printed: {last}") }
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

//! Why a command cannot run on another host.

use crate::RemoteHost;
use std::io;

/// Why a command cannot run on another host.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that reaches hosts is missing here.
    #[error("{program} is not installed here, and is needed to reach {host}")]
    MissingProgram {
        /// Its name.
        program: String,
        /// The host.
        host: RemoteHost,
    },
    /// The host cannot be reached, or refuses the user.
    #[error("{host} cannot be reached: {why}")]
    Unreachable {
        /// The host.
        host: RemoteHost,
        /// The last line of ssh, salloc or srun.
        why: String,
    },
    /// A program is missing on the other host.
    #[error("{program} cannot be started on {host}: {why}")]
    MissingThere {
        /// Its name.
        program: String,
        /// The host.
        host: RemoteHost,
        /// The last line that was printed there.
        why: String,
    },
    /// The connection to the host, or what ran there, has ended.
    #[error("the connection to {host} has ended: {why}")]
    Lost {
        /// The host.
        host: RemoteHost,
        /// The last line of ssh or srun.
        why: String,
    },
    /// The host did not answer.
    #[error("{host} has not answered within {seconds} s")]
    TooLate {
        /// The host.
        host: RemoteHost,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

//! Why a density could not be measured.

use crate::memory::MemoryShortage;
use manycore_control::{GroupError, setting::SettingError};
use manycore_remote::RemoteHost;
use rustix::io::Errno;
use std::{io, net::IpAddr};

/// Why a density could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// The command that shows whether an instance is ready does not succeed.
    #[error("instance {index} is not ready within {seconds} s: {command} does not succeed{}", said(.last))]
    NotReadyByCommand {
        /// Number of the instance, from 0.
        index: usize,
        /// The command.
        command: String,
        /// How long it was waited for.
        seconds: u64,
        /// The last line that it printed.
        last: String,
    },
    /// The command that prepares an instance failed.
    #[error("instance {index} cannot be prepared: {command} failed ({status}){}", said(.last))]
    Prepare {
        /// Number of the instance, from 0.
        index: usize,
        /// The command.
        command: String,
        /// How it ended.
        status: String,
        /// The last line that it printed.
        last: String,
    },
    /// A command for an instance cannot be run.
    #[error("instance {index}: {command} cannot be run: {source}")]
    Helper {
        /// Number of the instance, from 0.
        index: usize,
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// A program that manages instances is missing.
    #[error("{0} is not installed, and the instances need it")]
    MissingProgram(&'static str),
    /// The program that manages instances runs, but fails before there are any.
    #[error("{program} cannot be used: {source}; {hint}")]
    ManagerFails {
        /// The program, such as `virsh`.
        program: &'static str,
        /// What it printed.
        source: io::Error,
        /// What can be done.
        hint: &'static str,
    },
    /// The program that manages instances cannot do what is needed.
    #[error("instance {index} cannot be {what}: {source}")]
    Manage {
        /// Number of the instance, from 0.
        index: usize,
        /// What it should be: `paused`.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// An instance cannot be tuned as its variant says.
    #[error("instance {index} cannot be tuned: {source}")]
    Tuning {
        /// Number of the instance, from 0.
        index: usize,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A setting of the machine cannot be switched.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The limits of instances cannot be set on this machine.
    #[error("instances cannot have control groups of their own: {0}; limits and weights need them, and root")]
    Unlimited(GroupError),
    /// The limits or the places of instances are invalid.
    #[error("{0}")]
    Limits(String),
    /// The memory does not hold so many instances.
    #[error(transparent)]
    Memory(#[from] MemoryShortage),
    /// The journal or the cleanup process.
    #[error(transparent)]
    Control(#[from] manycore_control::Error),
    /// Another program uses the port of an instance.
    #[error("port {port} of instance {index} is in use by another program")]
    PortInUse {
        /// Number of the instance, from 0.
        index: usize,
        /// The port.
        port: u16,
    },
    /// The client of an instance cannot be started.
    #[error("the client of instance {index} ({program}) cannot be started: {source}")]
    ClientStart {
        /// Number of the instance, from 0.
        index: usize,
        /// Its program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The client of an instance failed.
    #[error("the client of instance {index} ({program}) failed: {why}")]
    Client {
        /// Number of the instance, from 0.
        index: usize,
        /// Its program.
        program: String,
        /// Why.
        why: String,
    },
    /// The client of the observed instance did not end.
    #[error(
        "the client of the observed instance has not ended after {seconds:.0} s: give it a number of requests or a time"
    )]
    ClientTooLong {
        /// How long it was waited for.
        seconds: f64,
    },
    /// The output of the client of the observed instance has no latencies.
    #[error("the output of the client cannot be read by {reader}: {why}")]
    ClientOutput {
        /// The reader.
        reader: String,
        /// Why.
        why: String,
    },
    /// A host of loads cannot be reached, or a program is missing there.
    #[error(transparent)]
    Remote(#[from] manycore_remote::Error),
    /// The generator on another host is another version of this program.
    #[error(
        "{program} on {host} is '{said}', and this is {wanted}: the load generator there must be the same version"
    )]
    GeneratorVersion {
        /// Its name.
        program: String,
        /// The host.
        host: RemoteHost,
        /// What it printed as its version.
        said: String,
        /// The version that is needed.
        wanted: &'static str,
    },
    /// Loads on another host cannot reach the instances.
    #[error("instances serve on {address}, which does not lead from {host} to this machine")]
    UnreachableAddress {
        /// The address.
        address: IpAddr,
        /// The host of loads.
        host: RemoteHost,
    },
    /// No pair of slices counted.
    #[error("nothing was measured, because no pair of slices counted: in the last one, {0}")]
    NoPair(String),
    /// The user interrupted the measurement.
    #[error("interrupted")]
    Interrupted,
    /// The lone instance cannot be measured.
    #[error("the lone instance cannot be measured: {0}")]
    Alone(String),
    /// The kernel's counters cannot be read.
    #[error(transparent)]
    Resources(manycore_topology::Error),
    /// A load could not be generated.
    #[error(transparent)]
    Load(manycore_load::Error),
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
    /// Whether a right, a file system or a program is missing, and not that the request is wrong.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::MissingProgram(_) | Self::ManagerFails { .. } | Self::Unlimited(_) | Self::Control(_)
        )
    }

    /// Whether a client printed no latencies.
    pub(crate) fn is_of_output(&self) -> bool {
        matches!(self, Self::ClientOutput { .. })
    }

    /// Whether it says that the machine cannot hold so many instances, and not that the request is wrong.
    pub(crate) fn is_of_count(&self) -> bool {
        matches!(
            self,
            Self::Ended { .. }
                | Self::Start { index: 1.., .. }
                | Self::Manage { .. }
                | Self::NotReady { .. }
                | Self::NotReadyByCommand { .. }
                | Self::Prepare { .. }
                | Self::Memory(_)
                | Self::Client { .. }
        ) || matches!(self, Self::Load(manycore_load::Error::Connect { source, .. }) if !is_own(source))
    }
}

impl From<manycore_load::Error> for Error {
    fn from(error: manycore_load::Error) -> Self {
        match error {
            manycore_load::Error::Interrupted => Self::Interrupted,
            error => Self::Load(error),
        }
    }
}

/// Whether this process lacks files, memory or ports, which says nothing about the instances.
fn is_own(error: &io::Error) -> bool {
    let of_process =
        [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|error| of_process.contains(&error))
}

/// Returns what an instance printed last, as the end of a sentence.
fn said(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!(", having printed: {last}") }
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_files_here_is_no_limit_of_the_instances() {
        let of = |errno: Errno| {
            let address = ([127, 0, 0, 1], 1).into();
            Error::Load(manycore_load::Error::Connect { address, source: errno.into() }).is_of_count()
        };
        assert!(of(Errno::CONNREFUSED) && of(Errno::TIMEDOUT));
        assert!(!of(Errno::MFILE) && !of(Errno::ADDRNOTAVAIL));
    }
}

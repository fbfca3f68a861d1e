//! Why a program cannot be observed.

use std::io;

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

/// Why a program cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
    /// There is no such program.
    #[error("cannot start {0}: no such program; check its name and PATH")]
    NotFound(String),
    /// The file is not a program that can be run here.
    #[error("cannot start {program}: {why}")]
    NotExecutable {
        /// The program.
        program: String,
        /// The reason.
        why: String,
    },
    /// The program cannot be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// The program.
        program: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// A program for another architecture.
    #[error(
        "{program} is a program for {found}, but only programs for {expected} can be observed on this machine"
    )]
    OtherArchitecture {
        /// The program.
        program: String,
        /// The architecture of the program.
        found: String,
        /// The architecture of this machine.
        expected: String,
    },
    /// The emulator is not installed.
    #[error(
        "{0} is not installed: install the package qemu-user, or a QEMU that was built with --enable-plugins where that \
         package has no plugins (Debian 13, Ubuntu 25.04 and later)"
    )]
    NoEmulator(String),
    /// The emulator does not support plugins, as no static build does. Debian's is static since its version 1:9.1.0.
    #[error(
        "{0} was built without plugins, as the package qemu-user of Debian 13, Ubuntu 25.04 and later is: put a QEMU \
         that was built with --enable-plugins first in PATH"
    )]
    NoPlugins(String),
    /// This binary was built without the plugin.
    #[error("this manycore was built without its QEMU plugin; build it for the target {0}-unknown-linux-gnu")]
    NoPlugin(&'static str),
    /// The emulator rejected the plugin, or did not start.
    #[error("{emulator} could not start the program: {why}")]
    EmulatorRefused {
        /// The emulator.
        emulator: String,
        /// What is known about the reason.
        why: String,
    },
    /// The emulator needs more address space than `RLIMIT_AS` allows.
    #[error(
        "the address space is limited to {} MiB (ulimit -v), which is too little for the emulator: run \
         'ulimit -v unlimited' in this shell, or raise the limit where it is set, and try again ({why})",
        bytes >> 20
    )]
    AddressSpace {
        /// The limit, in bytes (`RLIMIT_AS`).
        bytes: u64,
        /// What failed.
        why: String,
    },
    /// The CPUs have no events that record the addresses of accesses.
    #[error("{0}")]
    NoEvents(String),
    /// There is neither an emulator nor an event that records the addresses of accesses.
    #[error("{emulator}; {events}")]
    NoEngine {
        /// What is missing for emulation.
        emulator: String,
        /// What is missing for sampling.
        events: String,
    },
    /// The kernel refuses to open the events.
    #[error(
        "cannot open {event} on CPU {cpu} ({error}): sampling needs root, or kernel.perf_event_paranoid at 1 or less \
         (it is {paranoid})"
    )]
    EventsRefused {
        /// The names of the events.
        event: String,
        /// The CPU.
        cpu: u32,
        /// The kernel's error.
        error: io::Error,
        /// `/proc/sys/kernel/perf_event_paranoid`
        paranoid: String,
    },
    /// The size of this machine's cache lines cannot be read.
    #[error("cannot read the size of this machine's cache lines: {0}")]
    Machine(String),
    /// The cleanup process cannot be started.
    #[error(transparent)]
    Cleanup(#[from] manycore_control::Error),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error.
        error: io::Error,
    },
    /// Another system call failed.
    #[error("cannot observe the command: {0}")]
    Failed(#[from] io::Error),
}

/// Returns a function that makes [`Error::System`] of the error of `what`.
pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::System { what, error }
}

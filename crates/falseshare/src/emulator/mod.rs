//! Runs a program in QEMU's user-mode emulator and observes its memory accesses.
//!
//! The emulator loads our plugin (`shadow/plugin`), and the program loads our library (`shadow/preload`).
//! Both are embedded in this binary and become anonymous files (`memfd_create(2)`), whose paths below `/proc`
//! are valid as long as this process runs, so that no files are left behind. They record accesses in a region
//! of shared memory, which stays readable after the observed processes have exited.

mod convert;
mod program;
mod qemu;

use crate::shadow::region::{self, Region};
use crate::sharing::{End, Layout, Observation};
use manycore_control::cleanup::{self, Cleanup, Leftover};
use manycore_linux::{child, job};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process_group, pidfd_open},
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::ExitStatus,
    time::{Duration, Instant},
};

/// What to observe, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The line layouts to follow; the first is that of the machine. Lines have 32, 64 or 128 bytes, and
    /// there are at most eight layouts.
    pub layouts: Vec<Layout>,
    /// Most memory for bookkeeping, in bytes. One half holds the shared lines of all processes. The other
    /// half is a limit for each process: it is used to find out which lines are shared, in all layouts, and
    /// for heap blocks. Accesses that do not fit are counted and reported.
    pub memory_limit_bytes: u64,
    /// The program is stopped after this time.
    pub timeout: Option<Duration>,
    /// The program that runs the cleanup process, which kills the observed processes if this process is
    /// killed. Without it, they keep running then.
    pub cleanup: Option<cleanup::Program>,
}

/// Why a program cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program.
    #[error("cannot start {0}: no such program; check its name and PATH")]
    NotFound(String),
    /// The file is not a program that can be run here.
    #[error("cannot start {program}: {why}")]
    NotExecutable {
        /// The program.
        program: String,
        /// Returns the reason.
        why: String,
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
        "{0} is not installed: install the package qemu-user (apt-get install qemu-user, or dnf install qemu-user)"
    )]
    NoEmulator(String),
    /// The emulator does not support plugins.
    #[error(
        "{0} has no support for plugins, as is usual for static builds: install qemu-user instead of qemu-user-static"
    )]
    NoPlugins(String),
    /// The emulator rejected the plugin, or did not start.
    #[error("{emulator} could not start the program: {why}")]
    Refused {
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
    /// This binary was built without the plugin.
    #[error("this manycore was built without its QEMU plugin; build it for the target {0}-unknown-linux-gnu")]
    NoPlugin(&'static str),
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
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
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::System { what, error }
}

/// Replaces an error that a limited address space may have caused by [`Error::AddressSpace`].
fn of_limit(error: Error) -> Error {
    let is_possible = match &error {
        Error::System { error, .. } => error.kind() == io::ErrorKind::OutOfMemory,
        Error::Refused { .. } => true,
        _ => false,
    };
    match getrlimit(Resource::As).current.filter(|_| is_possible) {
        Some(bytes) => Error::AddressSpace { bytes, why: error.to_string() },
        None => error,
    }
}

/// Runs a command to its end and returns the lines that its threads shared. The command uses our terminal,
/// standard input and output. `stop` is called several times a second; when it returns true, the command is
/// ended early, and what was seen until then is returned. Processes that the command leaves behind are ended
/// with it. Therefore, no other children of this process may start or exit during the call.
///
/// # Errors
/// See [`Error`]; failures of the command itself are in [`Observation::end`].
pub fn observe(request: &Request, stop: &dyn Fn() -> bool) -> Result<Observation, Error> {
    follow(request, stop).map_err(of_limit)
}

fn follow(request: &Request, stop: &dyn Fn() -> bool) -> Result<Observation, Error> {
    let program = program::find(&request.command)?;
    let emulator = qemu::find()?;
    let layouts: Vec<region::Layout> = request
        .layouts
        .iter()
        .map(|layout| region::Layout { line_bytes: layout.line_bytes, shift_bytes: layout.shift_bytes })
        .collect();
    let (region, file) = Region::create(&layouts, request.memory_limit_bytes).map_err(|error| {
        if error.kind() == io::ErrorKind::InvalidInput {
            Error::Request("expected lines of 32, 64 or 128 bytes, and one to eight layouts".to_owned())
        } else {
            Error::System { what: "cannot create the shared memory region", error }
        }
    })?;
    let mut launch = qemu::Launch::new(&emulator, &file)?;
    job::adopt_orphans().map_err(system("prctl"))?;
    let _cleanup = start_cleanup(request, &launch)?;
    let known: BTreeSet<u32> = manycore_linux::tasks::children(std::process::id()).into_iter().collect();
    let start = Instant::now();
    let mut child =
        child::spawn_at_terminal(&mut launch.command(&program)).map_err(system("starting the emulator"))?;
    let pid = Pid::from_child(&child);
    let end = wait(pid, request.timeout, stop).map_err(system("waiting for the program"));
    let ends_here = !matches!(end, Ok(None));
    if ends_here {
        let _ = kill_process_group(pid, Signal::KILL);
        // The emulator is in our process group where there is a terminal, so it has to be killed by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(system("waiting for the program"))?;
    let mut strays = job::end_strays(&known, &|_| true);
    if ends_here {
        // We ended these with the command, so they are not worth a note.
        strays.clear();
    }
    let seconds = start.elapsed().as_secs_f64();
    let end = end?.unwrap_or_else(|| end_of(status));
    let observation = Observation {
        schema: crate::sharing::SHARING_SCHEMA.to_owned(),
        engine: crate::sharing::Engine::Emulator { version: emulator.version.clone() },
        command: request.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        seconds,
        end,
        layouts: request.layouts.clone(),
        ..Observation::default()
    };
    let observation = convert::observed(&region, observation, &program, &strays);
    if observation.processes.iter().all(|process| process.threads.is_empty()) && end != End::Interrupted {
        let why = match end {
            End::Status(status) => format!("it exited with status {status}"),
            End::Signal(signal) => format!("it was ended by signal {signal}"),
            End::Timeout | End::Interrupted => "it did not start in time".to_owned(),
        };
        return Err(Error::Refused { emulator: emulator.version, why });
    }
    Ok(observation)
}

/// Starts the process that kills all observed processes if this process is killed.
fn start_cleanup(request: &Request, launch: &qemu::Launch) -> Result<Option<Cleanup>, Error> {
    let Some(program) = &request.cleanup else { return Ok(None) };
    let mut cleanup = Cleanup::start(program)?;
    cleanup.add(Leftover::Marked(launch.environment_mark().into()))?;
    Ok(Some(cleanup))
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Status(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Interrupted,
    }
}

/// Waits for `pid` to exit. Returns `None` if it exited by itself, else why it has to be ended.
fn wait(pid: Pid, timeout: Option<Duration>, stop: &dyn Fn() -> bool) -> io::Result<Option<End>> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let start = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        if left == Some(Duration::ZERO) {
            return Ok(Some(End::Timeout));
        }
        let pause = left.unwrap_or(Duration::MAX).min(Duration::from_millis(100));
        let pause = Timespec::try_from(pause).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut descriptors = [PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut descriptors, Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // Ctrl-C in the terminal stops us and may also have ended the process.
            Ok(_) => return Ok(stop().then_some(End::Interrupted)),
            Err(error) => return Err(error.into()),
        }
        if stop() {
            return Ok(Some(End::Interrupted));
        }
    }
}

/// A program that can be observed.
#[derive(Clone, Debug)]
struct Program {
    /// Path of the file that the emulator runs.
    path: PathBuf,
    /// Its arguments, starting with its own name.
    arguments: Vec<OsString>,
    /// Whether it is linked dynamically with glibc.
    is_dynamic: bool,
    /// Notes for the user.
    notes: Vec<String>,
}

//! A program run in QEMU's user-mode emulator, with every access to memory observed.
//!
//! The emulator loads a plugin of ours (`shadow/plugin`), and the program a library of ours (`shadow/preload`).
//! Both are in this binary, and become files without names whose paths below `/proc` live as long as we do, so that
//! nothing is left behind. What they see goes into a region of shared memory that outlives them all.

mod convert;
mod guard;
mod program;
mod qemu;

use crate::shadow::region::{self, Region};
use crate::sharing::{End, Layout, Observation};
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

/// What is to be observed.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How memory is divided into lines; the first is that of the machine. Lines of 32, 64 or 128 bytes, at most
    /// eight layouts.
    pub layouts: Vec<Layout>,
    /// Most memory that is spent on keeping what is observed, in bytes: half of it for lines that are shared, of all
    /// processes; half in each process for telling which these are, in all layouts, and for blocks of its allocator.
    /// What is beyond is counted and told.
    pub memory_limit_bytes: u64,
    /// After so long the program is ended.
    pub timeout: Option<Duration>,
}

/// Why a program cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such program.
    #[error("cannot start {0}: there is no such program")]
    NotFound(String),
    /// Not a program, or not one for us.
    #[error("cannot start {program}: {why}")]
    NotExecutable {
        /// The program.
        program: String,
        /// Why.
        why: String,
    },
    /// A program for another architecture.
    #[error("{program} is a program for {found}: only programs for {expected} can be observed here")]
    OtherArchitecture {
        /// The program.
        program: String,
        /// What it is for.
        found: String,
        /// What this machine is.
        expected: String,
    },
    /// The emulator is not there.
    #[error(
        "{0} is missing: install the package qemu-user (apt-get install qemu-user, or dnf install qemu-user)"
    )]
    NoEmulator(String),
    /// The emulator takes no plugins.
    #[error(
        "{0} was built without plugins, which static builds are: install the package qemu-user, not qemu-user-static"
    )]
    NoPlugins(String),
    /// The emulator refused the plugin, or never began.
    #[error("{emulator} could not begin the program: {why}")]
    Refused {
        /// The emulator.
        emulator: String,
        /// What is known of the reason.
        why: String,
    },
    /// The emulator needs more addresses than it may have.
    #[error(
        "the address space is limited to {} MiB (ulimit -v), which is too small for the emulation: run \
         'ulimit -v unlimited' in this shell, or where the limit was set, and try again ({why})",
        bytes >> 20
    )]
    AddressSpace {
        /// The limit, in bytes (`RLIMIT_AS`).
        bytes: u64,
        /// What failed.
        why: String,
    },
    /// This program was built without the plugin.
    #[error("this manycore was built without its plugin for QEMU: build it for {0}-unknown-linux-gnu")]
    NoPlugin(&'static str),
    /// The request makes no sense.
    #[error("{0}")]
    Request(String),
    /// A call to the system failed.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::System { what, error }
}

/// What is wrong where the address space is limited: the limit, whatever else a failure was taken for.
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

/// Runs a command to its end and tells which lines its threads shared. The command has our terminal, standard
/// input and output; `stop` is asked some times a second, and true ends the command early. What was seen until
/// then is told in any case. What the command leaves behind is ended with it, so this process may have no other
/// children that come or go meanwhile.
///
/// # Errors
/// See [`Error`]; what the command itself does wrong is in [`Observation::end`].
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
            Error::Request(
                "lines can have 32, 64 or 128 bytes, and there can be one to eight layouts".to_owned(),
            )
        } else {
            Error::System { what: "memory for what is observed", error }
        }
    })?;
    let mut launch = qemu::Launch::new(&emulator, &file)?;
    job::adopt_orphans().map_err(system("prctl"))?;
    let _guard = guard::Guard::over(&launch.mark()).map_err(system("starting a guard"))?;
    let known: BTreeSet<u32> = manycore_linux::tasks::children(std::process::id()).into_iter().collect();
    let start = Instant::now();
    let mut child =
        child::spawn_at_terminal(&mut launch.command(&program)).map_err(system("starting the emulator"))?;
    let pid = Pid::from_child(&child);
    let end = wait(pid, request.timeout, stop).map_err(system("waiting for the program"));
    let ends_here = !matches!(end, Ok(None));
    if ends_here {
        let _ = kill_process_group(pid, Signal::KILL);
        // It is in our group where there is a terminal.
        let _ = child.kill();
    }
    let status = child.wait().map_err(system("waiting for the program"))?;
    let mut strays = job::end_strays(&known, &|_| true);
    if ends_here {
        // We ended them with the command.
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
            End::Status(status) => format!("it ended with status {status}"),
            End::Signal(signal) => format!("signal {signal} ended it"),
            End::Timeout | End::Interrupted => "it did not begin in time".to_owned(),
        };
        return Err(Error::Refused { emulator: emulator.version, why });
    }
    Ok(observation)
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Status(code),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => End::Interrupted,
    }
}

/// Waits for the end of `pid`; `None` where it ended by itself.
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
            // The key that asks us to stop may have ended it too.
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
    /// The file that the emulator runs.
    path: PathBuf,
    /// Its arguments, its own name first.
    arguments: Vec<OsString>,
    /// Whether it loads shared libraries, of the C library of GNU.
    is_dynamic: bool,
    /// What should be told about it.
    notes: Vec<String>,
}

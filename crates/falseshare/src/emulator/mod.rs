//! Runs a program in QEMU's user-mode emulator and observes its memory accesses.
//!
//! The emulator loads our plugin (`plugin/`), and the program loads our library (`preload/`).
//! Both are embedded in this binary and become anonymous files (`memfd_create(2)`), whose paths below `/proc`
//! are valid as long as this process runs, so that no files are left behind. They record accesses in a region
//! of shared memory, which stays readable after the observed processes have exited.

mod convert;
mod program;
mod qemu;

pub use qemu::{Emulator, find};

use crate::{
    error::{Error, Result, system},
    shadow::region::{self, Region},
    sharing::{CommandEnd, Engine, LineLayout, Observation, SHARING_SCHEMA},
};
use manycore_control::cleanup::{self, Cleanup, Leftover};
use manycore_linux::{child, job};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Resource, Signal, getrlimit, kill_process_group, pidfd_open},
};
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::File,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

/// What to observe, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The line layouts to follow; the first is that of the machine. Lines have 32, 64 or 128 bytes, and
    /// there are at most eight layouts.
    pub layouts: Vec<LineLayout>,
    /// Maximum memory for bookkeeping, in bytes. One half holds the shared lines of all processes. The other
    /// half is a limit for each process: it is used to find out which lines are shared, in all layouts, and
    /// for heap blocks. Accesses that do not fit are counted and reported.
    pub memory_limit_bytes: u64,
    /// The program is stopped after this time.
    pub timeout: Option<Duration>,
    /// The program that runs the cleanup process, which kills the observed processes if this process is
    /// killed. Without it, they keep running then.
    pub cleanup: Option<cleanup::Program>,
}

/// Replaces an error that a limited address space may have caused by [`Error::AddressSpace`].
fn explain_address_limit(error: Error) -> Error {
    let is_possible = match &error {
        Error::System { error, .. } => error.kind() == io::ErrorKind::OutOfMemory,
        Error::EmulatorRefused { .. } => true,
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
pub fn observe(request: &Request, stop: &dyn Fn() -> bool) -> Result<Observation> {
    run_observed(request, stop).map_err(explain_address_limit)
}

fn run_observed(request: &Request, stop: &dyn Fn() -> bool) -> Result<Observation> {
    let program = program::find(&request.command)?;
    let emulator = find()?;
    let (region, file) = create_region(request)?;
    let mut launch = qemu::Launch::new(&emulator, &file)?;
    job::adopt_orphans().map_err(system("prctl"))?;
    let _cleanup = start_cleanup(request, &launch)?;
    let start = Instant::now();
    let (end, leftovers) = run_to_end(&mut launch.command(&program), request.timeout, stop)?;
    let observation = Observation {
        schema: SHARING_SCHEMA.to_owned(),
        engine: Engine::Emulator { version: emulator.version.clone() },
        command: request.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        seconds: start.elapsed().as_secs_f64(),
        end,
        layouts: request.layouts.clone(),
        ..Observation::default()
    };
    let observation = convert::to_observation(&region, observation, &program, &leftovers);
    let has_started = observation.processes.iter().any(|process| !process.threads.is_empty());
    if has_started || end == CommandEnd::Interrupted {
        return Ok(observation);
    }
    let why = match end {
        CommandEnd::Status(status) => format!("it exited with status {status}"),
        CommandEnd::Signal(signal) => format!("it was ended by signal {signal}"),
        CommandEnd::Timeout | CommandEnd::Interrupted => "it did not start in time".to_owned(),
    };
    Err(Error::EmulatorRefused { emulator: emulator.version, why })
}

/// Creates the shared memory region, and the file through which other processes map it.
fn create_region(request: &Request) -> Result<(Region, File)> {
    let layouts: Vec<region::LineLayout> = request
        .layouts
        .iter()
        .map(|layout| region::LineLayout { line_bytes: layout.line_bytes, shift_bytes: layout.shift_bytes })
        .collect();
    Region::create(&layouts, request.memory_limit_bytes).map_err(|error| {
        if error.kind() == io::ErrorKind::InvalidInput {
            Error::Request("expected lines of 32, 64 or 128 bytes, and one to eight layouts".to_owned())
        } else {
            Error::System { what: "cannot create the shared memory region", error }
        }
    })
}

/// Runs the emulator until it exits or has to be ended. Returns how it ended, and the names of the programs
/// that the command left running.
fn run_to_end(
    command: &mut Command,
    timeout: Option<Duration>,
    stop: &dyn Fn() -> bool,
) -> Result<(CommandEnd, Vec<String>)> {
    let known: BTreeSet<u32> = manycore_linux::tasks::children(std::process::id()).into_iter().collect();
    let mut child = child::spawn_at_terminal(command).map_err(system("starting the emulator"))?;
    let pid = Pid::from_child(&child);
    let end = wait(pid, timeout, stop).map_err(system("waiting for the program"));
    let ends_here = !matches!(end, Ok(None));
    if ends_here {
        let _ = kill_process_group(pid, Signal::KILL);
        // The emulator is in our process group where there is a terminal, so it has to be killed by itself.
        let _ = child.kill();
    }
    let status = child.wait().map_err(system("waiting for the program"))?;
    let mut leftovers = job::end_leftover_processes(&known, &|_| true);
    if ends_here {
        // We ended these with the command, so they are not worth a note.
        leftovers.clear();
    }
    Ok((end?.unwrap_or_else(|| end_of(status)), leftovers))
}

/// Starts the process that kills all observed processes if this process is killed.
fn start_cleanup(request: &Request, launch: &qemu::Launch) -> Result<Option<Cleanup>> {
    let Some(program) = &request.cleanup else { return Ok(None) };
    let mut cleanup = Cleanup::start(program)?;
    cleanup.add(Leftover::Marked(launch.environment_mark().into()))?;
    Ok(Some(cleanup))
}

fn end_of(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Status(code),
        (None, Some(signal)) => CommandEnd::Signal(signal),
        (None, None) => CommandEnd::Interrupted,
    }
}

/// Waits for `pid` to exit. Returns `None` if it exited by itself, else why it has to be ended.
fn wait(pid: Pid, timeout: Option<Duration>, stop: &dyn Fn() -> bool) -> io::Result<Option<CommandEnd>> {
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let start = Instant::now();
    loop {
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        if left == Some(Duration::ZERO) {
            return Ok(Some(CommandEnd::Timeout));
        }
        let pause = left.unwrap_or(Duration::MAX).min(Duration::from_millis(100));
        let pause = Timespec::try_from(pause).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut descriptors = [PollFd::new(&pidfd, PollFlags::IN)];
        match poll(&mut descriptors, Some(&pause)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // Ctrl-C in the terminal stops us and may also have ended the process.
            Ok(_) => return Ok(stop().then_some(CommandEnd::Interrupted)),
            Err(error) => return Err(error.into()),
        }
        if stop() {
            return Ok(Some(CommandEnd::Interrupted));
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

//! Loads and stores sampled by the CPU, with their addresses and the source of the data.
//!
//! Intel CPUs provide them through PEBS (`mem-loads`, `mem-stores`), AMD CPUs through IBS (`ibs_op`), both
//! with `perf_event_open(2)`. Arm's SPE is not supported. The record parser was tested on synthetic records
//! and on real records of page faults, but not on a CPU with these events.

mod events;
mod gather;
mod record;
mod ring;
#[cfg(test)]
mod tests;

pub use events::{Event, find};
pub use gather::Gathered;
pub use record::{Record, Sample, Source, records};

use crate::sharing::{End, Engine, Layout, Observation, SHARING_SCHEMA};
use manycore_linux::{child, job, tasks};
use ring::Ring;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fs,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::{fd::AsFd, unix::process::ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};
use thiserror::Error;

/// Interval between two readings of the buffers.
const LOOK: Duration = Duration::from_millis(20);

/// Answers to the waiting child: it may execute its program, or it has to exit.
const GRANTED: u8 = 1;
const REFUSED: u8 = 0;

/// What to observe.
#[derive(Clone, Debug)]
pub struct Request {
    /// The command.
    pub command: Vec<String>,
    /// The command is stopped after this time.
    pub timeout: Option<Duration>,
    /// Size of a cache line in bytes, a power of two.
    pub line_bytes: u32,
}

/// Why a command cannot be observed.
#[derive(Debug, Error)]
pub enum Error {
    /// The CPUs have no such events.
    #[error("{0}")]
    NoEvents(String),
    /// The kernel refuses to open the events.
    #[error(
        "cannot open {event} on CPU {cpu} ({error}): sampling needs root, or kernel.perf_event_paranoid at 1 or less \
         (it is {paranoid})"
    )]
    Refused {
        /// The names of the events.
        event: String,
        /// The CPU.
        cpu: u32,
        /// The kernel's error.
        error: io::Error,
        /// `/proc/sys/kernel/perf_event_paranoid`
        paranoid: String,
    },
    /// The command cannot be started.
    #[error("cannot start {program}: {error}")]
    Start {
        /// The program.
        program: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// Another system call failed.
    #[error("cannot observe the command: {0}")]
    Failed(#[from] io::Error),
}

/// Runs a command and samples its accesses until it exits, its time is over, or `stop` returns true. `stop`
/// is called several times a second. Processes that the command leaves behind are ended with it. Therefore,
/// no other children of this process may start or exit during the call.
///
/// # Errors
/// If the CPU has no such events, the kernel refuses them, or the command cannot be started.
pub fn observe(request: &Request, stop: &dyn Fn() -> bool) -> Result<Observation, Error> {
    let events = find(Path::new("/")).map_err(Error::NoEvents)?;
    sample_whole(request, &events, stop)
}

/// Like [`sample`]; also ends processes that the command leaves behind, and adds notes about them.
fn sample_whole(request: &Request, events: &[Event], stop: &dyn Fn() -> bool) -> Result<Observation, Error> {
    job::adopt_orphans()?;
    let known = tasks::children(std::process::id()).into_iter().collect();
    let seen = sample(request, events, stop);
    let strays = job::end_strays(&known, &|_| true);
    let mut seen = seen?;
    seen.notes.extend(strays.iter().map(|name| job::left_behind(name)));
    Ok(seen)
}

/// Runs a command like [`observe`], with the given events.
fn sample(request: &Request, events: &[Event], stop: &dyn Fn() -> bool) -> Result<Observation, Error> {
    let began = Instant::now();
    let (came, child_came) = io::pipe()?;
    let (child_goes, go) = io::pipe()?;
    let (gathered, pid, end) = thread::scope(|scope| {
        // The child waits until its events are open, and the thread that spawned it waits with it. Hence this thread.
        let run = scope.spawn(|| run(&request.command, child_came, child_goes));
        let watched = watch(request, events, stop, came, go, began, &|| run.is_finished());
        let ended = run.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        match (watched, ended) {
            (Ok((gathered, pid, cut)), Ok(status)) => Ok((gathered, pid, cut.unwrap_or_else(|| end(status)))),
            (_, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::Start { program: request.command[0].clone(), error })
            }
            (Err(error), _) => Err(error),
            (_, Err(error)) => Err(error.into()),
        }
    })?;
    let layout = Layout { line_bytes: request.line_bytes, shift_bytes: 0 };
    let names = events.iter().filter(|event| event.period > 0).map(|event| event.name.clone());
    Ok(Observation {
        schema: SHARING_SCHEMA.to_owned(),
        engine: Engine::Sampling { events: names.collect(), lost: gathered.lost },
        command: request.command.clone(),
        seconds: began.elapsed().as_secs_f64(),
        end,
        layouts: vec![layout],
        processes: gathered.processes(pid, layout),
        unobserved: 0,
        notes: Vec::new(),
    })
}

/// Starts the command, which reports its process id and waits for permission to continue; then waits for its exit.
fn run(command: &[String], came: PipeWriter, goes: PipeReader) -> io::Result<ExitStatus> {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    let mut child = wait_for_leave(&mut process, came, goes)?;
    child.wait()
}

#[allow(unsafe_code, reason = "a child can be held only between fork and exec")]
fn wait_for_leave(
    process: &mut Command,
    came: PipeWriter,
    goes: PipeReader,
) -> io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure makes system calls and allocates nothing, as is required between fork and exec.
    unsafe {
        process.pre_exec(move || {
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            rustix::io::write(came.as_fd(), &pid.to_ne_bytes())?;
            let mut answer = [REFUSED];
            rustix::io::read(goes.as_fd(), &mut answer)?;
            if answer == [GRANTED] { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
        });
    }
    child::spawn(process)
}

/// Opens the events of the child that reports itself, lets it continue, and reads the buffers until it has exited.
fn watch(
    request: &Request,
    events: &[Event],
    stop: &dyn Fn() -> bool,
    mut came: PipeReader,
    mut go: PipeWriter,
    began: Instant,
    ended: &dyn Fn() -> bool,
) -> Result<(Gathered, i32, Option<End>), Error> {
    let mut pid = [0; 4];
    came.read_exact(&mut pid)?;
    let pid = i32::from_ne_bytes(pid);
    let rings = open(pid, events);
    // The child has the write end of this pipe too, so it would not notice that ours is closed.
    go.write_all(&[if rings.is_ok() { GRANTED } else { REFUSED }])?;
    let mut rings = rings?;
    let (mut gathered, mut cut) = (Gathered::default(), None);
    loop {
        let last = ended();
        let bytes: Vec<Vec<u8>> = rings.iter_mut().map(Ring::read).collect();
        for bytes in bytes {
            gathered.take(records(&bytes));
        }
        if last {
            return Ok((gathered, pid, cut));
        }
        let late = request.timeout.is_some_and(|timeout| began.elapsed() > timeout);
        if cut.is_none() && (late || stop()) {
            cut = Some(if late { End::Timeout } else { End::Interrupted });
            if let Some(group) = Pid::from_raw(pid) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        thread::sleep(LOOK);
    }
}

/// Opens the buffers of all CPUs. Events that a CPU does not have (those of the other core type) are left out there.
fn open(pid: i32, events: &[Event]) -> Result<Vec<Ring>, Error> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let cpus: manycore_topology::CpuSet =
        online.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut rings = Vec::new();
    for cpu in cpus.iter() {
        let here: Vec<Event> = events.iter().filter(|event| is_on(event, cpu)).cloned().collect();
        rings.push(Ring::open(pid, cpu as i32, &here).map_err(|error| {
            Error::Refused {
                event: here.iter().map(|event| event.name.as_str()).collect::<Vec<_>>().join(", "),
                cpu,
                error,
                paranoid: fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
                    .map_or_else(|_| "unknown".to_owned(), |level| level.trim().to_owned()),
            }
        })?);
    }
    Ok(rings)
}

/// Returns whether a CPU has this event. PMUs of hybrid CPUs list their CPUs in the file `cpus`.
fn is_on(event: &Event, cpu: u32) -> bool {
    let pmu = event.name.split('/').next().unwrap_or_default();
    let cpus = fs::read_to_string(format!("/sys/bus/event_source/devices/{pmu}/cpus"));
    cpus.ok()
        .and_then(|text| text.trim().parse::<manycore_topology::CpuSet>().ok())
        .is_none_or(|cpus| cpus.iter().any(|one| one == cpu))
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Status(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

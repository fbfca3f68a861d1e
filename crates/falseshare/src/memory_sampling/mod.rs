//! Loads and stores sampled by the CPU, with their addresses and the source of the data.
//!
//! Intel CPUs provide them through PEBS (`mem-loads`, `mem-stores`), AMD CPUs through IBS (`ibs_op`), both
//! with `perf_event_open(2)`. Arm's SPE is not supported. The record parser was tested on synthetic records
//! and on real records of page faults, but not on a CPU with these events.

mod collect;
mod events;
mod record;
mod ring;
#[cfg(test)]
mod tests;

use collect::SampleCollector;
use events::MemoryEvent;
pub use events::find;
use record::records;

use crate::{
    Error, Result,
    sharing::{CommandEnd, Engine, LineLayout, Observation, SHARING_SCHEMA},
};
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

/// Interval between two readings of the buffers.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Answers to the waiting child: it may execute its program, or it has to exit.
const CONTINUE: u8 = 1;
const EXIT: u8 = 0;

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

/// Runs a command and samples its accesses until it exits, its time is over, or `stop` returns true. `stop`
/// is called several times a second. Processes that the command leaves behind are ended with it. Therefore,
/// no other children of this process may start or exit during the call.
///
/// # Errors
/// If the CPU has no such events, the kernel refuses them, or the command cannot be started.
pub fn observe(request: &Request, stop: &dyn Fn() -> bool) -> Result<Observation> {
    let events = find(Path::new("/"))?;
    sample_and_clean_up(request, &events, stop)
}

/// Like [`sample`]; also ends processes that the command leaves behind, and adds notes about them.
fn sample_and_clean_up(
    request: &Request,
    events: &[MemoryEvent],
    stop: &dyn Fn() -> bool,
) -> Result<Observation> {
    job::adopt_orphans()?;
    let known = tasks::children(std::process::id()).into_iter().collect();
    let seen = sample(request, events, stop);
    let leftovers = job::end_leftover_processes(&known, &|_| true);
    let mut seen = seen?;
    seen.notes.extend(leftovers.iter().map(|name| job::leftover_note(name)));
    Ok(seen)
}

/// Runs a command like [`observe`], with the given events.
fn sample(request: &Request, events: &[MemoryEvent], stop: &dyn Fn() -> bool) -> Result<Observation> {
    let began = Instant::now();
    let (ready_pipe, child_ready_pipe) = io::pipe()?;
    let (child_continue_pipe, continue_pipe) = io::pipe()?;
    let (collected, pid, end) = thread::scope(|scope| {
        // The child waits until its events are open, and the thread that spawned it waits with it. Hence this thread.
        let run = scope.spawn(|| run(&request.command, child_ready_pipe, child_continue_pipe));
        let watched = watch(request, events, stop, ready_pipe, continue_pipe, began, &|| run.is_finished());
        let ended = run.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        match (watched, ended) {
            (Ok((collected, pid, cut)), Ok(status)) => {
                Ok((collected, pid, cut.unwrap_or_else(|| end(status))))
            }
            (_, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::Start { program: request.command[0].clone(), error })
            }
            (Err(error), _) => Err(error),
            (_, Err(error)) => Err(error.into()),
        }
    })?;
    let layout = LineLayout { line_bytes: request.line_bytes, shift_bytes: 0 };
    let names = events.iter().filter(|event| event.period > 0).map(|event| event.name.clone());
    Ok(Observation {
        schema: SHARING_SCHEMA.to_owned(),
        engine: Engine::Sampling { events: names.collect(), lost: collected.lost },
        command: request.command.clone(),
        seconds: began.elapsed().as_secs_f64(),
        end,
        layouts: vec![layout],
        processes: collected.processes(pid, layout),
        unobserved_processes: 0,
        notes: Vec::new(),
    })
}

/// Starts the command, which reports its process id and waits for permission to continue; then waits for its exit.
fn run(command: &[String], ready_pipe: PipeWriter, continue_pipe: PipeReader) -> io::Result<ExitStatus> {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]);
    let mut child = spawn_stopped(&mut process, ready_pipe, continue_pipe)?;
    child.wait()
}

#[allow(unsafe_code, reason = "a child can be held only between fork and exec")]
fn spawn_stopped(
    process: &mut Command,
    ready_pipe: PipeWriter,
    continue_pipe: PipeReader,
) -> io::Result<std::process::Child> {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure makes system calls and allocates nothing, as is required between fork and exec.
    unsafe {
        process.pre_exec(move || {
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            rustix::io::write(ready_pipe.as_fd(), &pid.to_ne_bytes())?;
            let mut answer = [EXIT];
            rustix::io::read(continue_pipe.as_fd(), &mut answer)?;
            if answer == [CONTINUE] { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
        });
    }
    child::spawn(process)
}

/// Opens the events of the child that reports itself, lets it continue, and reads the buffers until it has exited.
fn watch(
    request: &Request,
    events: &[MemoryEvent],
    stop: &dyn Fn() -> bool,
    mut ready_pipe: PipeReader,
    mut continue_pipe: PipeWriter,
    began: Instant,
    ended: &dyn Fn() -> bool,
) -> Result<(SampleCollector, i32, Option<CommandEnd>)> {
    let mut pid = [0; 4];
    ready_pipe.read_exact(&mut pid)?;
    let pid = i32::from_ne_bytes(pid);
    let rings = open(pid, events);
    // The child has the write end of this pipe too, so it would not notice that ours is closed.
    continue_pipe.write_all(&[if rings.is_ok() { CONTINUE } else { EXIT }])?;
    let mut rings = rings?;
    let (mut collected, mut cut) = (SampleCollector::default(), None);
    loop {
        let last = ended();
        let bytes: Vec<Vec<u8>> = rings.iter_mut().map(Ring::read).collect();
        for bytes in bytes {
            collected.take(records(&bytes));
        }
        if last {
            return Ok((collected, pid, cut));
        }
        let late = request.timeout.is_some_and(|timeout| began.elapsed() > timeout);
        if cut.is_none() && (late || stop()) {
            cut = Some(if late { CommandEnd::Timeout } else { CommandEnd::Interrupted });
            if let Some(group) = Pid::from_raw(pid) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Opens the buffers of all CPUs. Events that a CPU does not have (those of the other core type) are left out there.
fn open(pid: i32, events: &[MemoryEvent]) -> Result<Vec<Ring>> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let cpus: manycore_topology::CpuSet =
        online.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut rings = Vec::new();
    for cpu in cpus.iter() {
        let here: Vec<MemoryEvent> = events.iter().filter(|event| is_on(event, cpu)).cloned().collect();
        rings.push(Ring::open(pid, cpu as i32, &here).map_err(|error| {
            Error::EventsRefused {
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
fn is_on(event: &MemoryEvent, cpu: u32) -> bool {
    let pmu = event.name.split('/').next().unwrap_or_default();
    let cpus = fs::read_to_string(format!("/sys/bus/event_source/devices/{pmu}/cpus"));
    cpus.ok()
        .and_then(|text| text.trim().parse::<manycore_topology::CpuSet>().ok())
        .is_none_or(|cpus| cpus.iter().any(|one| one == cpu))
}

fn end(status: ExitStatus) -> CommandEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandEnd::Status(code),
        (None, signal) => CommandEnd::Signal(signal.unwrap_or(0)),
    }
}

//! One count in a fresh runtime: start, hold, work, end.

use crate::{
    cpus::CpuSampler,
    error::{Error, Result},
    protocol::Message,
    runtimes::RuntimeProgram,
    session::{MESSAGE_TIMEOUT, RuntimeSession, SessionEnd},
};
use manycore_control::memory_group::MemoryGroup;
use manycore_experiment::spawning::{Ending, Io, Purpose, SpawnRun, Spin, Work};
use manycore_linux::clock;
use std::{path::Path, time::Duration};

/// Bytes of a file that is written and read.
pub const FILE_BYTES: u64 = 4096;

/// Number of progress reports of a runtime in a run.
const PROGRESS_REPORTS: u64 = 64;

/// Number of progress reports in a run that looks for the count at which the runtime ends.
const PROGRESS_REPORTS_AT_LIMIT: u64 = 1024;

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct SpawnTrial {
    /// Number of light processes.
    pub count: u64,
    /// Work of each.
    pub work: Work,
    /// How long they work.
    pub length: Duration,
    /// Purpose of the run.
    pub purpose: Purpose,
}

/// Information that a runtime reports about itself.
#[derive(Clone, Debug, Default)]
pub struct RuntimeInfo {
    /// Its version.
    pub version: String,
    /// Name of one light process in this runtime.
    pub unit: String,
    /// Number of schedulers.
    pub schedulers: Option<usize>,
    /// How the schedulers are bound to CPUs.
    pub binding: Option<String>,
    /// Size of the table of light processes, and used entries of it, if the runtime has such a table.
    pub table: Option<(u64, u64)>,
}

impl SpawnTrial {
    /// Returns a run of `count` idle light processes.
    pub fn idle(count: u64) -> Self {
        Self { count, work: Work::Idle, length: Duration::ZERO, purpose: Purpose::Count }
    }
}

/// Makes the run, and calls `waiting` several times a second while the runtime is silent. A failure of the runtime is
/// part of the result, not an error. The notes report anything unusual.
///
/// # Errors
/// [`Error::Unavailable`] if the runtime cannot be started or does not send its first message.
pub fn run(
    program: &dyn RuntimeProgram,
    trial: &SpawnTrial,
    group: Option<&MemoryGroup>,
    folder: Option<&Path>,
    cpus: &CpuSampler,
    waiting: &mut dyn FnMut(),
) -> Result<(RuntimeInfo, SpawnRun, Vec<String>)> {
    let mut command = program.command(trial.count);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut session = RuntimeSession::start(&mut command, group, waiting)
        .map_err(|error| Error::unavailable(format!("cannot start {name}: {error}")))?;
    let ready = session.receive("ready", MESSAGE_TIMEOUT).map_err(|end| match end {
        SessionEnd::Interrupted => Error::Interrupted,
        other => Error::unavailable(format!("{name} does not start: {}", reason(&other))),
    })?;
    let info = RuntimeInfo {
        version: ready.text("version").unwrap_or("unknown").to_owned(),
        unit: ready.text("unit").unwrap_or("process").to_owned(),
        schedulers: ready.number("schedulers"),
        binding: ready.text("binding").map(str::to_owned),
        table: ready.number("places").zip(ready.number("taken")),
    };
    let mut run = SpawnRun {
        requested: trial.count,
        purpose: trial.purpose,
        memory_limit_bytes: group.map(|_| 0),
        ..SpawnRun::default()
    };
    let mut notes = Vec::new();
    if let Err(end) = run_session(&mut session, trial, folder, cpus, &mut run, &mut notes) {
        run.alive = run.alive.max(session.alive);
        run.ending = ending(&end);
    }
    Ok((info, run, notes))
}

/// Runs the session from the first light process to the last. Results are stored in `run` as they come.
fn run_session(
    session: &mut RuntimeSession,
    trial: &SpawnTrial,
    folder: Option<&Path>,
    cpus: &CpuSampler,
    run: &mut SpawnRun,
    notes: &mut Vec<String>,
) -> Result<(), SessionEnd> {
    run.before = session.memory()?;
    let reports =
        if trial.purpose == Purpose::CapacityTest { PROGRESS_REPORTS_AT_LIMIT } else { PROGRESS_REPORTS };
    let began = clock::now_ns();
    session.send(&format!("start\t{}\t{}", trial.count, (trial.count / reports).max(1)));
    let started = session.receive("started", MESSAGE_TIMEOUT)?;
    run.start_seconds = seconds_since(began);
    run.reported_start_seconds = started.number("seconds");
    run.alive = started.number("alive").unwrap_or(0);
    session.alive = run.alive;
    run.held = session.memory()?;
    let refused = started.text("refused").map(str::to_owned);
    work(session, trial, folder, cpus, run, notes)?;
    let end_sent = clock::now_ns();
    session.send("end");
    session.receive("gone", MESSAGE_TIMEOUT)?;
    session.wait_for_exit(MESSAGE_TIMEOUT)?;
    run.end_seconds = Some(seconds_since(end_sent));
    if let Some(why) = refused.filter(|_| run.alive < run.requested) {
        run.ending = Ending::Refused { why };
    }
    Ok(())
}

/// Makes the light processes work and stores the results in `run`.
fn work(
    session: &mut RuntimeSession,
    trial: &SpawnTrial,
    folder: Option<&Path>,
    cpus: &CpuSampler,
    run: &mut SpawnRun,
    notes: &mut Vec<String>,
) -> Result<(), SessionEnd> {
    let length = trial.length.as_millis();
    match (trial.work, folder) {
        (Work::Spin, _) => {
            let interval = CpuSampler::interval(trial.length);
            session.send(&format!("spin\t{length}\t{}", interval.as_millis()));
            session.receive("spinning", MESSAGE_TIMEOUT)?;
            let mut spin = cpus.sample(trial.length)?;
            let message = session.receive("spun", trial.length + MESSAGE_TIMEOUT)?;
            spin.queued = message.numbers("queued");
            drop_unmatched_intervals(&mut spin);
            spin.schedulers = message.numbers("schedulers");
            run.spin = Some(spin);
        }
        (Work::Io, Some(folder)) => {
            session.send(&format!("io\t{length}\t{FILE_BYTES}\t{}", folder.display()));
            session.receive("working", MESSAGE_TIMEOUT)?;
            let done = session.receive("done", trial.length + MESSAGE_TIMEOUT)?;
            run.io = Some(io_result(&done, folder));
            notes.extend(failures_note(&done));
        }
        _ => {}
    }
    Ok(())
}

/// Drops intervals at the end that only this program or only the runtime has sampled: each uses its own clock.
fn drop_unmatched_intervals(spin: &mut Spin) {
    let sampled = spin.busy.len().min(spin.queued.len());
    if sampled > 0 {
        spin.busy.truncate(sampled);
        spin.stolen.truncate(sampled);
        spin.running.truncate(sampled);
        spin.queued.truncate(sampled);
    }
}

fn io_result(done: &Message, folder: &Path) -> Io {
    Io {
        seconds: done.number("seconds").unwrap_or(0.0),
        operations: done.number("operations").unwrap_or(0),
        bytes: FILE_BYTES,
        file_system: manycore_linux::scratch::file_system(folder).unwrap_or_else(|| "unknown".to_owned()),
        latency: done.pairs("latency"),
    }
}

/// Returns a note about rounds that failed.
fn failures_note(done: &Message) -> Option<String> {
    let failed = done.number::<u64>("failed").filter(|&failed| failed > 0)?;
    let why = done.text("why").unwrap_or("unknown reason");
    let advice = if why.contains("emfile") || why.contains("oo many open files") {
        "; raise the limit of open files (ulimit -n)"
    } else {
        ""
    };
    Some(format!("{failed} rounds on files failed and are not counted. First failure: {why}{advice}"))
}

fn ending(end: &SessionEnd) -> Ending {
    match end {
        SessionEnd::Interrupted => Ending::Interrupted,
        SessionEnd::Killed => Ending::Killed { why: reason(end) },
        SessionEnd::Ended(_) | SessionEnd::Lost(_) => Ending::Failed { why: reason(end) },
    }
}

fn reason(end: &SessionEnd) -> String {
    match end {
        SessionEnd::Interrupted => "interrupted".to_owned(),
        SessionEnd::Killed => "the kernel killed it at the memory limit of its control group".to_owned(),
        SessionEnd::Ended(why) | SessionEnd::Lost(why) => why.clone(),
    }
}

fn seconds_since(began_ns: u64) -> f64 {
    (clock::now_ns() - began_ns) as f64 / 1e9
}

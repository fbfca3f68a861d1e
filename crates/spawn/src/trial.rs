//! One count in a fresh runtime: start, hold, work, end.

use crate::error::{Error, Result};
use crate::{
    cpus::Watched,
    protocol::Line,
    runtimes::Program,
    session::{PATIENCE, Session, Stop},
};
use manycore_control::memory_group::MemoryGroup;
use manycore_experiment::spawning::{Ending, Io, Purpose, Run, Spin, Work};
use manycore_linux::clock;
use std::{path::Path, time::Duration};

/// Bytes of a file that is written and read.
pub const FILE_BYTES: u64 = 4096;

/// Number of progress reports of a runtime in a run.
const TOLD: u64 = 64;

/// Number of progress reports in a run that looks for the count at which the runtime ends.
const TOLD_AT_CEILING: u64 = 1024;

/// Parameters of one run.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
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
pub struct Versed {
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

impl Trial {
    /// Returns a run of `count` idle light processes.
    pub fn of(count: u64) -> Self {
        Self { count, work: Work::Idle, length: Duration::ZERO, purpose: Purpose::Count }
    }
}

/// Makes the run. A failure of the runtime is part of the result, not an error. The notes report anything
/// unusual.
///
/// # Errors
/// [`Failure::Missing`] if the runtime cannot be started or does not send its first message.
pub fn run(
    program: &dyn Program,
    trial: &Trial,
    group: Option<&MemoryGroup>,
    folder: Option<&Path>,
    cpus: &Watched,
) -> Result<(Versed, Run, Vec<String>)> {
    let mut command = program.command(trial.count);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut session = Session::start(&mut command, group)
        .map_err(|error| Error::unavailable(format!("cannot start {name}: {error}")))?;
    let ready = session.hear("ready", PATIENCE).map_err(|stop| match stop {
        Stop::Interrupted => Error::Interrupted,
        other => Error::unavailable(format!("{name} does not start: {}", told(&other))),
    })?;
    let versed = Versed {
        version: ready.text("version").unwrap_or("unknown").to_owned(),
        unit: ready.text("unit").unwrap_or("process").to_owned(),
        schedulers: ready.number("schedulers"),
        binding: ready.text("binding").map(str::to_owned),
        table: ready.number("places").zip(ready.number("taken")),
    };
    let mut run = Run {
        asked: trial.count,
        purpose: trial.purpose,
        memory_limit_bytes: group.map(|_| 0),
        ..Run::default()
    };
    let mut notes = Vec::new();
    if let Err(stop) = live(&mut session, trial, folder, cpus, &mut run, &mut notes) {
        run.alive = run.alive.max(session.alive);
        run.ending = ending(&stop);
    }
    Ok((versed, run, notes))
}

/// Runs the session from the first light process to the last. Results are stored in `run` as they come.
fn live(
    session: &mut Session,
    trial: &Trial,
    folder: Option<&Path>,
    cpus: &Watched,
    run: &mut Run,
    notes: &mut Vec<String>,
) -> Result<(), Stop> {
    run.before = session.memory()?;
    let tellings = if trial.purpose == Purpose::Ceiling { TOLD_AT_CEILING } else { TOLD };
    let began = clock::now_ns();
    session.say(&format!("start\t{}\t{}", trial.count, (trial.count / tellings).max(1)));
    let started = session.hear("started", PATIENCE)?;
    run.start_seconds = seconds_since(began);
    run.own_start_seconds = started.number("seconds");
    run.alive = started.number("alive").unwrap_or(0);
    session.alive = run.alive;
    run.held = session.memory()?;
    let refused = started.text("refused").map(str::to_owned);
    work(session, trial, folder, cpus, run, notes)?;
    let told = clock::now_ns();
    session.say("end");
    session.hear("gone", PATIENCE)?;
    session.gone(PATIENCE)?;
    run.end_seconds = Some(seconds_since(told));
    if let Some(why) = refused.filter(|_| run.alive < run.asked) {
        run.ending = Ending::Refused { why };
    }
    Ok(())
}

/// Makes the light processes work and stores the results in `run`.
fn work(
    session: &mut Session,
    trial: &Trial,
    folder: Option<&Path>,
    cpus: &Watched,
    run: &mut Run,
    notes: &mut Vec<String>,
) -> Result<(), Stop> {
    let length = trial.length.as_millis();
    match (trial.work, folder) {
        (Work::Spin, _) => {
            let interval = Watched::interval(trial.length);
            session.say(&format!("spin\t{length}\t{}", interval.as_millis()));
            session.hear("spinning", PATIENCE)?;
            let mut spin = cpus.watch(trial.length)?;
            let said = session.hear("spun", trial.length + PATIENCE)?;
            spin.queued = said.numbers("queued");
            align(&mut spin);
            spin.schedulers = said.numbers("schedulers");
            run.spin = Some(spin);
        }
        (Work::Io, Some(folder)) => {
            session.say(&format!("io\t{length}\t{FILE_BYTES}\t{}", folder.display()));
            session.hear("working", PATIENCE)?;
            let done = session.hear("done", trial.length + PATIENCE)?;
            run.io = Some(files(&done, folder));
            notes.extend(failures(&done));
        }
        _ => {}
    }
    Ok(())
}

/// Drops intervals at the end that only one side has sampled: the runtime uses a clock of its own.
fn align(spin: &mut Spin) {
    let both = spin.busy.len().min(spin.queued.len());
    if both > 0 {
        spin.busy.truncate(both);
        spin.stolen.truncate(both);
        spin.running.truncate(both);
        spin.queued.truncate(both);
    }
}

fn files(done: &Line, folder: &Path) -> Io {
    Io {
        seconds: done.number("seconds").unwrap_or(0.0),
        operations: done.number("operations").unwrap_or(0),
        bytes: FILE_BYTES,
        file_system: manycore_linux::scratch::file_system(folder).unwrap_or_else(|| "unknown".to_owned()),
        latency: done.pairs("latency"),
    }
}

/// Returns a note about rounds that failed.
fn failures(done: &Line) -> Option<String> {
    let failed = done.number::<u64>("failed").filter(|&failed| failed > 0)?;
    let why = done.text("why").unwrap_or("unknown reason");
    let lift = if why.contains("emfile") || why.contains("oo many open files") {
        "; raise the limit of open files (ulimit -n)"
    } else {
        ""
    };
    Some(format!("{failed} rounds on files failed and are not counted. First failure: {why}{lift}"))
}

fn ending(stop: &Stop) -> Ending {
    match stop {
        Stop::Interrupted => Ending::Interrupted,
        Stop::Killed => Ending::Killed { why: told(stop) },
        Stop::Ended(_) | Stop::Lost(_) => Ending::Failed { why: told(stop) },
    }
}

fn told(stop: &Stop) -> String {
    match stop {
        Stop::Interrupted => "interrupted".to_owned(),
        Stop::Killed => "the kernel killed it at the memory limit of its control group".to_owned(),
        Stop::Ended(why) | Stop::Lost(why) => why.clone(),
    }
}

fn seconds_since(began_ns: u64) -> f64 {
    (clock::now_ns() - began_ns) as f64 / 1e9
}

//! Runs a command on planned CPUs.

use crate::{
    error::{Error, Result},
    journal::{Change, Journal, UndoResult},
    placement::{CommandProcesses, PlacementSession, ResolvedPlacement, SignalSource, open_journal},
};
use manycore_linux::{affinity, clock, job, tasks};
use manycore_placement::PlacementTrace;
use manycore_topology::CpuSet;
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use std::{
    collections::BTreeSet,
    io,
    os::fd::AsFd,
    process::{Command, ExitStatus},
    thread,
    time::Duration,
};

/// Environment variable that marks the processes of a run, so that `undo` can find them.
pub(super) const MARK: &str = "MANYCORE_RUN";

/// Time between two scans for processes that the command has left running.
const DESCENDANT_POLL: Duration = Duration::from_millis(128);

/// Maximum number of searches for processes that were being created at the end of a run, and the time between two.
const LATE_ROUNDS: usize = 20;
const LATE_DELAY: Duration = Duration::from_millis(20);

/// A command to run on planned CPUs.
#[derive(Clone, Debug)]
pub struct PlacedCommand {
    /// The program and its arguments; not empty.
    pub words: Vec<String>,
    /// The command as readable text, for the trace.
    pub subject: String,
    /// A description of the change for a reader of the journal.
    pub what: String,
    /// Whether to wait until all processes that the command has started have ended, daemons included.
    pub wait: bool,
}

/// How a command ended.
pub struct CommandEnd {
    /// The exit status of the command.
    pub status: ExitStatus,
    /// Where its tasks ran.
    pub trace: PlacementTrace,
    /// The processes that it left running.
    pub left_running: LeftRunning,
    /// Name of the journal, by which changes that could not be restored can be undone later.
    pub journal: String,
    /// What was restored.
    pub restored: Result<UndoResult>,
    /// Whether waiting for the processes that the command left running failed.
    pub waited: Result,
}

/// Processes that a command left running, and the CPUs that they have now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftRunning {
    /// Names and ids of processes with their former CPUs.
    pub unpinned: Vec<String>,
    /// Names and ids of processes that are still pinned, with a sentence on how to unpin them.
    pub still_pinned: Vec<String>,
}

/// Runs a command to its end on the planned CPUs. Enforces the placement of its tasks, and restores what was
/// changed. Signals to this process are passed on to the command.
///
/// # Errors
/// The journal cannot be written ([`Error::JournalUnwritable`]), the command cannot be started
/// ([`Error::CannotStart`]), or waiting for it fails ([`Error::Wait`]).
pub fn run(
    command: &PlacedCommand,
    placement: &ResolvedPlacement,
    signals: &dyn SignalSource,
) -> Result<CommandEnd> {
    job::adopt_orphans().map_err(Error::AdoptOrphans)?;
    let journal = open_journal("run", &command.what, false)?;
    let mark = format!("{MARK}={}-{}", journal.id(), clock::now_ns());
    record_start(&journal, placement, &mark)?;
    let mut processes = CommandProcesses::new(&journal, placement.enforcement);
    let mut session = PlacementSession::new(placement, journal, command.subject.clone());
    let pid = match start(command, placement, &mut processes, &mark) {
        Ok(pid) => pid,
        Err(error) => {
            session.restore()?;
            return Err(Error::CannotStart {
                program: command.words.first().cloned().unwrap_or_default(),
                error,
            });
        }
    };
    PlacementSession::raise_priority();
    let ended = wait_for_command(&mut session, &processes, pid, signals);
    let waited = match (&ended, command.wait) {
        (Ok(_), true) => wait_for_descendants(&mut session, &processes, signals),
        _ => Ok(()),
    };
    reap_orphans(&processes, 0);
    let left: Vec<u32> = processes.running().into_iter().collect();
    let mut trace = session.finish(&left);
    trace.cpu_ns = Some(processes.cpu_ns());
    session.enforcer().record_processes(&left);
    let journal = session.journal_id();
    let restored = session.restore();
    restore_late(&processes, &left, placement);
    let left_running = LeftRunning::new(&processes, placement);
    trace.notes.extend(left_running.notes());
    Ok(CommandEnd { status: ended?.status, trace, left_running, journal, restored, waited })
}

/// Records in the journal the CPUs that the command starts with.
fn record_start(journal: &Journal, placement: &ResolvedPlacement, mark: &str) -> Result {
    let Some(new) = placement.workers.cpus() else { return Ok(()) };
    let change = Change::Command { mark: mark.to_owned(), old: placement.own_cpus.clone(), new };
    journal.record(&change).map_err(Error::JournalWrite)
}

fn start(
    command: &PlacedCommand,
    placement: &ResolvedPlacement,
    processes: &mut CommandProcesses,
    mark: &str,
) -> io::Result<Pid> {
    let (program, arguments) = command.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (name, value) = mark.split_once('=').unwrap_or((mark, ""));
    let mut process = Command::new(program);
    process.args(arguments).env(name, value);
    processes.launch(&mut process, &placement.workers.start())
}

/// Waits for the end of the command.
fn wait_for_command(
    session: &mut PlacementSession,
    processes: &CommandProcesses,
    pid: Pid,
    signals: &dyn SignalSource,
) -> Result<job::JobUsage> {
    let number = pid.as_raw_nonzero().get() as u32;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Error::Wait(error.into()))?;
    let all = || -> Vec<u32> { processes.running().into_iter().collect() };
    loop {
        let ended = session.wait(&all, pidfd.as_fd(), signals.descriptor(), Duration::MAX)?;
        for signal in signals.take_for_command() {
            let _ = kill_process(pid, signal);
        }
        if ended {
            session.enforcer().process_ended(number);
            return job::reap(number).map_err(Error::Wait);
        }
        reap_orphans(processes, number);
    }
}

/// Waits until all processes that the command has started have ended. Signals are passed on to all of them.
fn wait_for_descendants(
    session: &mut PlacementSession,
    processes: &CommandProcesses,
    signals: &dyn SignalSource,
) -> Result {
    loop {
        reap_orphans(processes, 0);
        let left = processes.running();
        let Some(pid) = left.first().and_then(|&pid| Pid::from_raw(pid as i32)) else { return Ok(()) };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let all = || left.iter().copied().collect();
        session.wait(&all, pidfd.as_fd(), signals.descriptor(), DESCENDANT_POLL)?;
        for signal in signals.take_for_command() {
            for pid in left.iter().filter_map(|&pid| Pid::from_raw(pid as i32)) {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Reaps zombies that became children of this process, except the command itself.
pub(super) fn reap_orphans(processes: &CommandProcesses, command: u32) {
    for pid in processes.children() {
        if pid != command && !tasks::is_alive(pid) {
            let _ = job::reap(pid);
        }
    }
}

/// Restores the CPUs of processes that were being created while all others were restored: none of `known`. On a busy machine,
/// the creation of a process can outlast the search.
fn restore_late(processes: &CommandProcesses, known: &[u32], placement: &ResolvedPlacement) {
    let planned = planned(placement);
    for _ in 0..LATE_ROUNDS {
        let mut late = processes.still_pinned(&planned);
        late.retain(|pid, _| !known.contains(pid));
        if late.is_empty() {
            return;
        }
        let is_pinned = |tid: &u32| affinity::of_thread(*tid).is_ok_and(|cpus| planned.contains(&cpus));
        for tid in late.into_keys().flat_map(tasks::threads).filter(is_pinned) {
            // It may have ended; what is still pinned is reported.
            let _ = affinity::restrict(tid, &placement.own_cpus);
        }
        thread::sleep(LATE_DELAY);
    }
}

/// Returns the affinities that this placement gives to tasks.
fn planned(placement: &ResolvedPlacement) -> BTreeSet<CpuSet> {
    let online = affinity::online();
    let shown = |cpus: &CpuSet| online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
    let workers = &placement.workers;
    let mut planned: BTreeSet<CpuSet> = workers.workers.iter().chain(&workers.cpus()).map(shown).collect();
    planned.remove(&shown(&placement.own_cpus));
    planned
}

impl LeftRunning {
    /// Reads the affinities of all processes that still run.
    fn new(processes: &CommandProcesses, placement: &ResolvedPlacement) -> Self {
        let pinned = processes.still_pinned(&planned(placement));
        let name = |pid: u32| format!("{} ({pid})", tasks::name(pid).unwrap_or_default());
        let unpinned = processes.running().into_iter().filter(|pid| !pinned.contains_key(pid)).map(name);
        let unpinned = unpinned.collect();
        let own = &placement.own_cpus;
        let still_pinned = pinned.into_iter().map(|(pid, cpus)| {
            format!("to CPUs {cpus}: {}; 'taskset -acp {own} {pid}' unpins it", name(pid))
        });
        Self { unpinned, still_pinned: still_pinned.collect() }
    }

    /// Returns one sentence for the processes with their former CPUs, and one for each that is still pinned.
    fn notes(&self) -> Vec<String> {
        let unpinned = (!self.unpinned.is_empty())
            .then(|| format!("left running, with their former CPUs: {}", self.unpinned.join(", ")));
        let pinned = self.still_pinned.iter().map(|text| format!("left running, still pinned {text}"));
        unpinned.into_iter().chain(pinned).collect()
    }
}

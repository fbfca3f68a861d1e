//! `manycore run`: runs a command on planned CPUs.

use crate::{
    cli::RunArgs,
    failure::{Failure, Outcome},
    placing,
    signals::{self, Signals},
};
use manycore_control::journal::{Change, Journal};
use manycore_control::placement::{CommandProcesses, PlacementSession, ResolvedPlacement, open_journal};
use manycore_linux::{
    affinity,
    job::{self, JobUsage},
    tasks,
};
use manycore_study::{line, with_workers};
use manycore_topology::CpuSet;
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use std::{
    collections::BTreeSet,
    io::ErrorKind,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

/// Environment variable that marks the processes of a run, so that `undo` can find them.
const MARK: &str = "MANYCORE_RUN";

/// Time between two scans for processes that the command has left running.
const LEFT: Duration = Duration::from_millis(128);

/// Runs the command to its end, enforces the placement of its tasks, and shows where they ran.
///
/// # Errors
/// The plan cannot be made, or the command cannot be started. [`Failure::Status`] with the exit status of
/// the command if that is not 0.
pub fn run(args: &RunArgs) -> Outcome {
    let aim = placing::aim(&args.placing)?;
    let (command, _) = with_workers(&args.command.command, aim.plan.workers.len());
    let subject = line(&command);
    let signals = Signals::catch(&signals::ALL)?;
    job::adopt_orphans()
        .map_err(|error| Failure::missing(format!("cannot look after orphans of commands: {error}")))?;
    let journal = open_journal("run", &format!("run --place {} -- {subject}", aim.plan.place), false)?;
    let mark = format!("{}-{}", journal.id(), manycore_linux::clock::now_ns());
    note_start(&journal, &aim, &mark)?;
    let mut family = CommandProcesses::new(&journal, aim.enforcement);
    let mut follow = PlacementSession::new(&aim, journal, subject);
    let began = Instant::now();
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).env(MARK, &mark);
    let pid = match family.launch(&mut process, &aim.workers.start()) {
        Ok(pid) => pid,
        Err(error) => {
            placing::take_back(follow, true)?;
            return Err(cannot_start(&command[0], &error));
        }
    };
    follow.raise_priority();
    let ended = look_after(&mut follow, &family, pid, &signals);
    let stayed = if args.wait && ended.is_ok() { trace(&mut follow, &family, &signals) } else { Ok(()) };
    reap_orphans(&family, 0);
    let left: Vec<u32> = family.running().into_iter().collect();
    let mut seen = follow.finish(&left, began.elapsed().as_secs_f64());
    seen.cpu_ns = Some(family.cpu_ns());
    follow.enforcer().record_processes(&left);
    let taken_back = placing::take_back(follow, args.placing.quiet);
    seen.notes.extend(left_running(&family, &aim));
    let ended = ended?;
    let told = stayed.and(taken_back).and(placing::show(&seen, &args.placing));
    match (status(ended.status), told) {
        (0, told) => told,
        (code, Ok(())) => Err(Failure::Status(code)),
        (code, Err(failure)) => {
            failure.report();
            Err(Failure::Status(code))
        }
    }
}

/// Records in the journal the CPUs that the command starts with.
fn note_start(journal: &Journal, aim: &ResolvedPlacement, mark: &str) -> Outcome {
    let Some(new) = aim.workers.cpus() else { return Ok(()) };
    let change = Change::Command { mark: format!("{MARK}={mark}"), old: aim.own_cpus.clone(), new };
    journal.record(&change).map_err(|error| Failure::missing(format!("cannot write the journal: {error}")))
}

fn cannot_start(program: &str, error: &std::io::Error) -> Failure {
    let program = program.escape_debug();
    match error.kind() {
        ErrorKind::NotFound => Failure::missing(format!("cannot start {program}: there is no such program")),
        _ => Failure::missing(format!("cannot start {program}: {error}")),
    }
}

/// Returns notes on the processes that are left running: those that have their former CPUs, and those that
/// have not. The affinities are read again for this.
fn left_running(family: &CommandProcesses, aim: &ResolvedPlacement) -> Vec<String> {
    let online = affinity::online();
    let shown = |cpus: &CpuSet| online.as_ref().map_or(cpus.clone(), |online| cpus.intersection(online));
    let mut ours: BTreeSet<CpuSet> =
        aim.workers.workers.iter().chain(&aim.workers.cpus()).map(shown).collect();
    ours.remove(&shown(&aim.own_cpus));
    let kept = family.still_pinned(&ours);
    let name = |pid: u32| format!("{} ({pid})", tasks::name(pid).unwrap_or_default());
    let free: Vec<String> =
        family.running().into_iter().filter(|pid| !kept.contains_key(pid)).map(name).collect();
    let mut notes = Vec::new();
    if !free.is_empty() {
        let names = free.join(", ");
        notes.push(format!("left running, with their former CPUs: {names} (--wait waits for them)"));
    }
    let kept = kept.into_iter().map(|(pid, cpus)| {
        let wide = &aim.own_cpus;
        format!(
            "left running, still pinned to CPUs {cpus}: {}; 'taskset -acp {wide} {pid}' unpins it",
            name(pid)
        )
    });
    notes.extend(kept);
    notes
}

/// Waits for the end of the command. Signals to this process are passed on to the command.
fn look_after(
    follow: &mut PlacementSession,
    family: &CommandProcesses,
    pid: Pid,
    signals: &Signals,
) -> Outcome<JobUsage> {
    let number = pid.as_raw_nonzero().get() as u32;
    let lost =
        |error: &dyn std::fmt::Display| Failure::missing(format!("cannot wait for the command: {error}"));
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| lost(&error))?;
    let all = || -> Vec<u32> { family.running().into_iter().collect() };
    loop {
        let ended = follow.wait(&all, pidfd.as_fd(), signals.descriptor(), Duration::MAX)?;
        for signal in signals.take_for_command() {
            let _ = kill_process(pid, signal);
        }
        if ended {
            follow.enforcer().process_ended(number);
            return job::reap(number).map_err(|error| lost(&error));
        }
        reap_orphans(family, number);
    }
}

/// Waits until all processes that the command has started have ended. Signals are passed on to all of them.
fn trace(follow: &mut PlacementSession, family: &CommandProcesses, signals: &Signals) -> Outcome {
    loop {
        reap_orphans(family, 0);
        let left = family.running();
        let Some(pid) = left.first().and_then(|&pid| Pid::from_raw(pid as i32)) else { return Ok(()) };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        follow.wait(&|| left.iter().copied().collect(), pidfd.as_fd(), signals.descriptor(), LEFT)?;
        for signal in signals.take_for_command() {
            for pid in left.iter().filter_map(|&pid| Pid::from_raw(pid as i32)) {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Reaps zombies that became children of this process, except the command itself.
fn reap_orphans(family: &CommandProcesses, command: u32) {
    for pid in family.children() {
        if pid != command && !tasks::is_alive(pid) {
            let _ = job::reap(pid);
        }
    }
}

/// Converts an exit status as shells do: the exit code, or 128 + N after signal N.
fn status(status: ExitStatus) -> u8 {
    status.code().or_else(|| Some(128 + status.signal()?)).map_or(4, |code| code as u8)
}

//! `manycore run`: a command on planned CPUs.

use crate::{
    cli::Run,
    failure::{Failure, Outcome},
    placing::{self, Aim, Follow},
    signals::Signals,
    study::{line, with_workers},
};
use manycore_host::{
    child,
    job::{self, Ended},
    journal::{Change, Journal},
    tasks,
};
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};
use std::{
    io::ErrorKind,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

/// Variable that marks what a run has started, for `undo` to find it.
const MARK: &str = "MANYCORE_RUN";

/// Time between looks at what the command has left behind.
const LEFT: Duration = Duration::from_millis(128);

/// Runs the command to its end, keeps its tasks in place, and shows where they ran.
///
/// # Errors
/// The plan cannot be made, or the command not be started; [`Failure::Status`] with the command's own status.
pub fn run(args: &Run) -> Outcome {
    let aim = placing::aim(&args.placing)?;
    let (command, _) = with_workers(&args.command.command, aim.plan.workers.len());
    let subject = line(&command);
    let signals = Signals::catch()?;
    job::adopt_orphans()
        .map_err(|error| Failure::missing(format!("cannot look after orphans of commands: {error}")))?;
    let journal = placing::journal("run", &format!("run --place {} -- {subject}", aim.plan.place), false)?;
    let mark = format!("{}-{}", journal.id(), manycore_host::clock::now_ns());
    note_start(&journal, &aim, &mark)?;
    let mut follow = Follow::new(&aim, &args.placing, journal, subject);
    let began = Instant::now();
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).env(MARK, &mark);
    let child = match child::launch(&mut process, &aim.place.start()) {
        Ok(child) => child,
        Err(error) => {
            follow.take_back(true)?;
            return Err(cannot_start(&command[0], &error));
        }
    };
    follow.hurry();
    let pid = Pid::from_child(&child);
    let ended = look_after(&mut follow, pid, &signals);
    if args.wait && ended.is_ok() {
        stay(&mut follow, &signals)?;
    }
    let mut seen = follow.end(began.elapsed().as_secs_f64());
    let left: Vec<String> = left_behind().into_iter().filter_map(tasks::name).collect();
    if !left.is_empty() {
        let names = left.join(", ");
        seen.notes
            .push(format!("it left {names} running, which have their CPUs back (--wait stays with them)"));
    }
    follow.take_back(args.placing.quiet)?;
    let ended = ended?;
    seen.cpu_ns = Some(ended.cpu.as_nanos() as u64);
    let shown = placing::show(&seen, &args.placing);
    match status(ended.status) {
        0 => shown,
        code => Err(Failure::Status(code)),
    }
}

/// Writes down what the command will start with.
fn note_start(journal: &Journal, aim: &Aim, mark: &str) -> Outcome {
    let Some(new) = aim.place.cpus() else { return Ok(()) };
    let change = Change::Command { mark: format!("{MARK}={mark}"), old: aim.inherited.clone(), new };
    journal.note(&change).map_err(|error| Failure::missing(format!("cannot write the journal: {error}")))
}

fn cannot_start(program: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => Failure::missing(format!("cannot start {program}: there is no such program")),
        _ => Failure::missing(format!("cannot start {program}: {error}")),
    }
}

/// Waits for the end of the command; signals to us are passed on to it.
fn look_after(follow: &mut Follow, pid: Pid, signals: &Signals) -> Outcome<Ended> {
    let number = pid.as_raw_nonzero().get() as u32;
    let lost =
        |error: &dyn std::fmt::Display| Failure::missing(format!("cannot wait for the command: {error}"));
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| lost(&error))?;
    loop {
        let ended = follow.wait(&[number], pidfd.as_fd(), Duration::MAX)?;
        for signal in signals.take() {
            let _ = kill_process(pid, signal);
        }
        if ended {
            follow.keeper().farewell(number);
            return job::reap(number).map_err(|error| lost(&error));
        }
        reap_orphans(number);
    }
}

/// Stays until all that the command has started has ended, or a signal comes.
fn stay(follow: &mut Follow, signals: &Signals) -> Outcome {
    loop {
        reap_orphans(0);
        let left = left_behind();
        let Some(pid) = left.first().and_then(|&pid| Pid::from_raw(pid as i32)) else { return Ok(()) };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        follow.wait(&left, pidfd.as_fd(), LEFT)?;
        if let Some(signal) = signals.take().first() {
            for pid in left.into_iter().filter_map(|pid| Pid::from_raw(pid as i32)) {
                let _ = kill_process(pid, *signal);
            }
        }
    }
}

/// Living children that came to us.
fn left_behind() -> Vec<u32> {
    tasks::children(std::process::id()).into_iter().filter(|pid| tasks::is_alive(*pid)).collect()
}

/// Ends the lives of zombies that came to us, but for the command itself.
fn reap_orphans(command: u32) {
    for pid in tasks::children(std::process::id()) {
        if pid != command && !tasks::is_alive(pid) {
            let _ = job::reap(pid);
        }
    }
}

/// As shells tell it.
fn status(status: ExitStatus) -> u8 {
    status.code().or_else(|| Some(128 + status.signal()?)).map_or(4, |code| code as u8)
}

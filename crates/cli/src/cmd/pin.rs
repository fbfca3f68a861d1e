//! `manycore pin`: places running processes on planned CPUs.

use crate::{
    cli::PinArgs,
    failure::{Failure, Outcome},
    output, placing,
    signals::{self, Signals},
};
use manycore_control::placement::{PlacementSession, open_journal};
use manycore_linux::tasks;
use manycore_placement::MemoryPlacement;
use manycore_text::units;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// Moves the processes to the planned CPUs and enforces the placement until all of them have ended or a
/// signal arrives. Then restores their former CPUs.
///
/// # Errors
/// [`Failure::Input`] if a process does not exist or the plan cannot be made. [`Failure::Missing`] if a
/// task may not be moved; then no task is moved.
pub fn run(args: &PinArgs) -> Outcome {
    let signals = Signals::catch(&signals::ENDS)?;
    let processes: Vec<(u32, OwnedFd)> =
        args.pid.iter().map(|&pid| Ok((pid, open(pid)?))).collect::<Outcome<_>>()?;
    check(args)?;
    let aim = placing::aim(&args.placing)?.pin_everywhere();
    let names: Vec<String> = args.pid.iter().filter_map(|&pid| tasks::name(pid)).collect();
    let pids: Vec<String> = args.pid.iter().map(u32::to_string).collect();
    let what = format!("pin --pid {} --place {} ({})", pids.join(","), aim.plan.place, names.join(", "));
    let journal = open_journal("pin", &what, args.once)?;
    let id = journal.id();
    let mut follow = PlacementSession::new(&aim, journal, what.clone());
    let began = Instant::now();
    follow.raise_priority();
    if let Some(recorder) = follow.enforcer().journal() {
        recorder.count_cpu_time();
    }
    follow.enforcer().take_over(&args.pid);
    follow.enforcer().update_cpu_time();
    follow.enter_cgroup_now(&args.pid);
    if let Some(why) = follow.first_failure() {
        placing::take_back(follow, true)?;
        return Err(Failure::missing(format!("{why}; nothing was changed")));
    }
    if args.once {
        let trace = follow.finish(&args.pid, began.elapsed().as_secs_f64());
        if !args.placing.quiet {
            let tasks = units::counted(trace.tasks.len(), "task");
            let held = &trace.held_by;
            output::note(&format!(
                "manycore: {tasks} moved, held by {held}; 'manycore undo {id}' restores their CPUs"
            ));
        }
        return Ok(());
    }
    if !args.placing.quiet {
        output::note(&format!("manycore: {what}: until all processes have ended or Ctrl-C"));
    }
    let ended = look_after(&mut follow, &processes, &signals);
    let trace = follow.finish(&living(&processes), began.elapsed().as_secs_f64());
    placing::take_back(follow, args.placing.quiet)?;
    ended?;
    placing::show(&trace, &args.placing)
}

/// Checks for options that cannot be applied to running processes.
fn check(args: &PinArgs) -> Outcome {
    if matches!(args.placing.memory, MemoryPlacement::Local | MemoryPlacement::Interleave(_)) {
        return Err(Failure::input(format!(
            "--memory {}: a running process keeps its memory policy; only bind can be applied, through a cpuset",
            args.placing.memory
        )));
    }
    if args.once && (args.placing.out.is_some() || args.placing.check.is_some()) {
        return Err(Failure::input(
            "--once does not stay to observe where tasks run; leave out --once to use --out or --check",
        ));
    }
    Ok(())
}

/// Enforces the placement until all processes have ended or a signal arrives.
fn look_after(follow: &mut PlacementSession, processes: &[(u32, OwnedFd)], signals: &Signals) -> Outcome {
    let mut living: Vec<&(u32, OwnedFd)> = processes.iter().collect();
    while let Some((first, pidfd)) = living.first() {
        let roots: Vec<u32> = living.iter().map(|(pid, _)| *pid).collect();
        if follow.wait(&|| roots.clone(), pidfd.as_fd(), signals.descriptor(), Duration::MAX)? {
            follow.enforcer().process_ended(*first);
            living.remove(0);
        }
        // The id of a process that has ended may already be in use again.
        living.retain(|(pid, _)| tasks::is_alive(*pid));
        if !signals.take().is_empty() {
            break;
        }
    }
    Ok(())
}

/// Returns the ids of the processes that have not ended. The pidfds are used because ids may be in use
/// again.
fn living(processes: &[(u32, OwnedFd)]) -> Vec<u32> {
    let lives = |pidfd: &OwnedFd| {
        let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
        poll(&mut ended, Some(&Timespec::default())).is_ok_and(|count| count == 0)
    };
    processes.iter().filter(|(_, pidfd)| lives(pidfd)).map(|(pid, _)| *pid).collect()
}

fn open(pid: u32) -> Outcome<OwnedFd> {
    let none = || Failure::input(format!("there is no process {pid}"));
    let number = Pid::from_raw(pid as i32).ok_or_else(none)?;
    if tasks::is_kernel(pid) {
        let name = tasks::name(pid).unwrap_or_default();
        return Err(Failure::input(format!(
            "{pid} ({name}) is a kernel thread and cannot be pinned; name a user process"
        )));
    }
    let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        // EINVAL for a thread, and ENOENT since Linux 6.9.
        rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => {
            Failure::input(format!("{pid} is a thread, not a process; pass the id of its process"))
        }
        _ => none(),
    })?;
    if tasks::is_alive(pid) { Ok(pidfd) } else { Err(Failure::input(format!("process {pid} has ended"))) }
}

//! `manycore pin`: running processes on planned CPUs.

use crate::{
    cli::Pin,
    failure::{Failure, Outcome},
    output,
    placing::{self, Follow},
    signals::Signals,
};
use manycore_host::tasks;
use manycore_model::placement::Memory;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// Moves the processes, keeps them there until all have ended or a signal comes, and gives back.
///
/// # Errors
/// [`Failure::Input`] where there is no such process or the plan cannot be made, [`Failure::Missing`] where none of
/// its tasks may be moved.
pub fn run(args: &Pin) -> Outcome {
    let signals = Signals::catch()?;
    let processes: Vec<(u32, OwnedFd)> =
        args.pid.iter().map(|&pid| Ok((pid, open(pid)?))).collect::<Outcome<_>>()?;
    if matches!(args.placing.memory, Memory::Local | Memory::Interleave(_)) {
        return Err(Failure::input(format!(
            "--memory {}: a running process keeps its memory policy; bind can be had, through a cpuset",
            args.placing.memory
        )));
    }
    let aim = placing::aim(&args.placing)?;
    let names: Vec<String> = args.pid.iter().filter_map(|&pid| tasks::name(pid)).collect();
    let pids: Vec<String> = args.pid.iter().map(u32::to_string).collect();
    let what = format!("pin --pid {} --place {} ({})", pids.join(","), aim.plan.place, names.join(", "));
    let journal = placing::journal("pin", &what, args.once)?;
    let id = journal.id();
    let mut follow = Follow::new(&aim, &args.placing, journal, what);
    let began = Instant::now();
    follow.hurry();
    follow.keeper().take_over(&args.pid);
    follow.hold_now(&args.pid);
    if follow.keeper().processes().next().is_none() {
        follow.take_back(true)?;
        return Err(Failure::input(format!("process {} has ended", pids.join(", "))));
    }
    let refused: Vec<String> =
        follow.keeper().refused().iter().map(|(name, why)| format!("{name}: {why}")).collect();
    if follow.keeper().recorder().is_some_and(|recorder| recorder.stay().tasks.is_empty()) {
        follow.take_back(true)?;
        return Err(Failure::missing(format!("none of its tasks can be moved ({})", refused.join("; "))));
    }
    if args.once {
        let stay = follow.end(began.elapsed().as_secs_f64());
        if !args.placing.quiet {
            output::note(&format!(
                "manycore: {} tasks moved, held by {}; 'manycore undo {id}' gives back",
                stay.tasks.len(),
                stay.hold
            ));
            stay.notes.iter().for_each(|note| output::note(note));
        }
        return Ok(());
    }
    if !args.placing.quiet {
        output::note(&format!("manycore: {what}: until it ends or Ctrl-C", what = follow.subject()));
    }
    for (pid, pidfd) in &processes {
        while !signals.any() && !follow.wait(&args.pid, pidfd.as_fd(), Duration::MAX)? {}
        follow.keeper().farewell(*pid);
    }
    let stay = follow.end(began.elapsed().as_secs_f64());
    follow.take_back(args.placing.quiet)?;
    placing::show(&stay, &args.placing)
}

fn open(pid: u32) -> Outcome<OwnedFd> {
    let none = || Failure::input(format!("there is no process {pid}"));
    let number = Pid::from_raw(pid as i32).ok_or_else(none)?;
    if tasks::is_kernel(pid) {
        let name = tasks::name(pid).unwrap_or_default();
        return Err(Failure::input(format!(
            "{pid} ({name}) is a thread of the kernel, which places it itself"
        )));
    }
    pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        rustix::io::Errno::INVAL => Failure::input(format!("{pid} is a thread: name its process")),
        _ => none(),
    })
}

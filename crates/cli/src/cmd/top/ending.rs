//! The end of a command that is watched, and of what it has started.

use crate::{
    failure::{Failure, Outcome},
    output,
    signals::{ENDS, Signals, is_ignored},
};
use manycore_linux::{pidfd::ProcessHandle, process_reader::ProcessReader, tasks};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

/// The time between two looks at a command that is to end.
const PAUSE: Duration = Duration::from_millis(50);
/// For how long the end of the command is waited for without a word.
const TELL_AFTER: Duration = Duration::from_millis(500);

/// Asks the command and what it has started to end, and waits: it may have to tidy up. Another signal ends it at once.
///
/// This program (`is_own`) gets what Ctrl-C at a terminal sends: an interrupt to its process group. Its other processes are left
/// to it, as `density` takes the end of an instance for a failure, and ended after it. Another signal ends these at once, so that it
/// can undo what it changed; only the one after that ends it, too.
pub(super) fn end(command: &mut Child, name: &str, is_own: bool) -> Outcome<ExitStatus> {
    let signals = Signals::catch(&ENDS)?;
    let id = command.id();
    let mut tree = ProcessTree::new(id);
    tree.look();
    let is_first = |pid| pid == id;
    match Pid::from_raw(id as i32) {
        // It inherits whether interrupts are ignored.
        _ if is_own && is_ignored(Signal::INT.as_raw()) => tree.signal(Signal::TERM, is_first),
        // The id is not that of another process: this one has not been waited for.
        Some(group) if is_own && getpgid(Some(group)) == Ok(group) => {
            let _ = kill_process_group(group, Signal::INT);
        }
        _ if is_own => tree.signal(Signal::INT, is_first),
        _ => tree.signal(Signal::TERM, |_| true),
    }
    let mut tell_at = Some(Instant::now() + TELL_AFTER);
    let mut is_spared = is_own;
    loop {
        if let Some(status) = command.try_wait().map_err(Failure::missing)? {
            if is_own {
                tree.signal(Signal::TERM, |_| true);
            }
            return Ok(status);
        }
        signals.wait(PAUSE)?;
        if !signals.take().is_empty() {
            tree.look();
            tree.signal(Signal::KILL, |pid| !(is_spared && is_first(pid)));
            is_spared = false;
        }
        if tell_at.take_if(|at| *at <= Instant::now()).is_some() {
            let what = if is_own { "its processes at once; a second one ends it, too" } else { "it at once" };
            output::note(&format!("Waiting for {name} to end. Ctrl-C ends {what}."));
        }
    }
}

/// A process that has not been waited for, and its descendants. A process whose parent has ended is in no later list, and its id may
/// be that of another one by then, so handles of those that were found stay open.
struct ProcessTree {
    first: u32,
    reader: Option<ProcessReader>,
    known: BTreeMap<u32, ProcessHandle>,
    /// Those of which no handle can be opened.
    others: Vec<u32>,
}

impl ProcessTree {
    fn new(first: u32) -> Self {
        let reader = ProcessReader::open(Path::new("/")).ok();
        Self { first, reader, known: BTreeMap::new(), others: Vec::new() }
    }

    /// Looks for its processes.
    fn look(&mut self) {
        self.known.retain(|_, process| !process.has_exited());
        self.others.clear();
        for pid in tasks::with_descendants(&[self.first]) {
            if self.known.contains_key(&pid) {
                continue;
            }
            let start = tasks::start_time(pid).zip(self.reader.as_mut());
            match start.and_then(|(start, reader)| ProcessHandle::open(reader, pid, start).ok()) {
                Some(process) => drop(self.known.insert(pid, process)),
                None => self.others.push(pid),
            }
        }
    }

    /// Sends a signal to those of the processes that were found that are meant.
    fn signal(&mut self, signal: Signal, is_meant: impl Fn(u32) -> bool) {
        // They may have ended.
        for (_, process) in self.known.iter().filter(|(pid, _)| is_meant(**pid)) {
            let _ = process.signal(signal);
        }
        // At once after they were found, or their ids may be those of others.
        for pid in self.others.drain(..).filter(|pid| is_meant(*pid)) {
            let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, signal));
        }
    }
}

/// Returns whether a process runs this program, under whatever name.
pub(super) fn is_this_program(pid: u32) -> bool {
    let file = |process: &str| {
        let about = fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((about.dev(), about.ino()))
    };
    file("self").is_some_and(|own| file(&pid.to_string()) == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::child;
    use std::{os::unix::process::ExitStatusExt, process::Command};

    /// Regression: the instances of `density` were asked to end with it, and it reported that as their failure.
    #[test]
    fn a_subcommand_ends_its_processes_by_itself_and_what_is_left_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let started = folder.path().join("started");
        // Exit code 7 if the child still runs when the signal comes. It is left.
        let script = "sleep 1000 & trap 'kill -0 $!; exit $((7 + $?))' INT TERM; echo $! >\"$0\"; wait; wait";
        let mut command = Command::new("sh").args(["-c", script]).arg(&started).spawn().unwrap();
        let child = || fs::read_to_string(&started).ok()?.trim().parse::<u32>().ok();
        while child().is_none() {
            std::thread::yield_now();
        }
        assert!(is_this_program(std::process::id()) && !is_this_program(command.id()));
        assert_eq!(end(&mut command, "density", true).unwrap().code(), Some(7));
        // A process that has ended has no command line.
        let is_left = |pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        while is_left(child().unwrap()) {
            std::thread::yield_now();
        }
    }

    /// Regression: `run` was asked alone, and a shell ends only after the program that it waits for.
    #[test]
    fn a_subcommand_and_its_process_group_get_an_interrupt() {
        let mut command = Command::new("sh");
        command.args(["-c", "sh -c 'sleep 1000'; exit 7"]);
        let mut command = child::spawn_in_session(&mut command).unwrap();
        // A shell that has not become the program yet catches the interrupt.
        let is_sleep =
            |pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
        while !tasks::with_descendants(&[command.id()]).into_iter().any(is_sleep) {
            std::thread::yield_now();
        }
        assert_eq!(end(&mut command, "run", true).unwrap().signal(), Some(Signal::INT.as_raw()));
    }
}

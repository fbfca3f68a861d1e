//! A running runtime: its messages, its memory, and the end of all its processes.

use crate::protocol::Line;
use manycore_control::memory_group::MemoryGroup;
use manycore_experiment::interrupt;
use manycore_experiment::spawning::Memory;
use manycore_linux::{
    child,
    job::{adopt_orphans, end_leftover_processes},
    process_memory, tasks,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Time between checks for signals and for kills by the kernel.
const LOOK: Duration = Duration::from_millis(50);

/// Maximum time between two lines of a runtime, in addition to the time that it was ordered to work.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Time that a runtime has to exit by itself after its input has ended.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum number of bytes of standard error that are kept; they are its end.
const MOST_COMPLAINTS: usize = 16 << 10;

/// Why a runtime sends no more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The kernel killed a process in its control group.
    Killed,
    /// It ended by itself; with what is known about it.
    Ended(String),
    /// It sent an unexpected message, or none for too long.
    Lost(String),
    /// A signal requested the end of this program.
    Interrupted,
}

/// A running runtime.
pub struct Session<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    complaints: Receiver<Vec<u8>>,
    group: Option<&'a MemoryGroup>,
    /// Children of this process that existed before the runtime.
    others: BTreeSet<u32>,
    /// Number of light processes that the runtime last reported.
    pub alive: u64,
}

impl<'a> Session<'a> {
    /// Starts `command` in `group`, as the first process to be killed if memory runs out. Must be called by a
    /// thread that lives as long as the session: the kernel kills the runtime when that thread ends.
    ///
    /// # Errors
    /// Those of starting a program.
    pub fn start(command: &mut Command, group: Option<&'a MemoryGroup>) -> io::Result<Self> {
        adopt_orphans()?;
        let others = tasks::children(std::process::id()).into_iter().collect();
        let entrance =
            group.map(|group| OpenOptions::new().write(true).open(group.entrance())).transpose()?;
        child::prefer_oom_kill(command, entrance);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child::spawn(command)?;
        let (said, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.all(|line| said.send(Line::parse(&line)).is_ok())
            });
        }
        let (sent, complaints) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || sent.send(last_of(stderr)));
        }
        Ok(Self { stdin: child.stdin.take(), child, lines, complaints, group, others, alive: 0 })
    }

    /// Sends a line to the runtime. If the runtime has ended, the next [`hear`](Self::hear) reports it.
    pub fn say(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{text}\n").as_bytes());
        }
    }

    /// Waits for the line that begins with `what`, for at most `time` after the previous line.
    ///
    /// # Errors
    /// The reason why it did not come.
    pub fn hear(&mut self, what: &str, time: Duration) -> Result<Line, Stop> {
        let mut last = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) if line.what == what => return Ok(line),
                Ok(line) if line.what == "alive" => {
                    self.alive = line.first().unwrap_or(self.alive);
                    last = Instant::now();
                }
                Ok(line) => {
                    return Err(Stop::Lost(format!("it sent {:?} instead of {what:?}", line.what)));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.end_of_it()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt::requested() {
                return Err(Stop::Interrupted);
            }
            if self.is_killed() {
                return Err(Stop::Killed);
            }
            if last.elapsed() > time {
                return Err(Stop::Lost(format!("it sent nothing for {} s", time.as_secs())));
            }
        }
    }

    /// Returns the present memory of all its processes, and what the runtime itself reports.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub fn memory(&mut self) -> Result<Memory, Stop> {
        let members = || self.group.map(|group| group.members().into_iter().collect());
        let pids: BTreeSet<u32> = members().unwrap_or_else(|| tasks::with_descendants(&[self.child.id()]));
        let seen = process_memory::of(&pids);
        let kernel = self.group.and_then(MemoryGroup::kernel);
        let group_bytes = self.group.and_then(MemoryGroup::charge);
        self.say("look");
        let own_bytes = self.hear("look", PATIENCE)?.number("own");
        Ok(Memory {
            pss_bytes: seen.pss_bytes,
            rss_bytes: seen.rss_bytes,
            kernel_bytes: kernel.or(Some(seen.tables_bytes)),
            own_bytes,
            group_bytes,
        })
    }

    /// Waits until the runtime has exited by itself.
    ///
    /// # Errors
    /// Why it has not, or how it ended otherwise.
    pub fn gone(&mut self, time: Duration) -> Result<(), Stop> {
        drop(self.stdin.take());
        let deadline = Instant::now() + time;
        while !self.ends_within(LOOK) {
            if interrupt::requested() {
                return Err(Stop::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(Stop::Lost(format!("it did not end within {} s", time.as_secs())));
            }
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.end_of_it()),
        }
    }

    fn is_killed(&self) -> bool {
        self.group.is_some_and(|group| group.killed() > 0)
    }

    fn ends_within(&self, time: Duration) -> bool {
        let Ok(pidfd) = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()) else { return true };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
    }

    /// Returns how a runtime ended that has closed its output.
    fn end_of_it(&mut self) -> Stop {
        if !self.ends_within(GRACE) {
            return Stop::Lost("it closed its output".to_owned());
        }
        let status = self.child.wait();
        if self.is_killed() {
            return Stop::Killed;
        }
        let how = match status {
            Ok(status) if status.signal() == Some(rustix::process::Signal::KILL.as_raw()) => {
                "it was killed (SIGKILL)".to_owned()
            }
            Ok(status) => format!("it ended ({status})"),
            Err(error) => format!("it ended ({error})"),
        };
        let complaints = self.complaints.recv_timeout(GRACE).unwrap_or_default();
        let complaints = String::from_utf8_lossy(&complaints);
        match complaints.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => {
                Stop::Ended(format!("{how}: {}", line.trim().chars().take(300).collect::<String>()))
            }
            None => Stop::Ended(how),
        }
    }
}

impl Drop for Session<'_> {
    /// Closes the input, which ends the runtime. Kills what remains, with all processes that the runtime
    /// started.
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !self.is_killed() {
            self.ends_within(GRACE);
        }
        child::kill(&mut self.child);
        let _ = end_leftover_processes(&self.others, &|_| true);
    }
}

/// Reads a pipe to its end and returns the last bytes.
fn last_of(mut pipe: impl Read) -> Vec<u8> {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(MOST_COMPLAINTS);
        kept.drain(..excess);
    }
    kept
}

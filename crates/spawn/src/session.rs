//! A running runtime: its messages, its memory, and the end of all its processes.

use crate::protocol::Message;
use manycore_control::memory_group::MemoryGroup;
use manycore_experiment::{interrupt, spawning::Memory};
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
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum time between two lines of a runtime, in addition to the time that it was ordered to work.
pub const MESSAGE_TIMEOUT: Duration = Duration::from_mins(2);

/// Time that a runtime has to exit by itself after its input has ended.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of bytes of standard error that are kept; they are its end.
const MAX_STDERR_BYTES: usize = 16 << 10;

/// Why a runtime sends no more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
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
pub struct RuntimeSession<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Message>,
    stderr: Receiver<Vec<u8>>,
    group: Option<&'a MemoryGroup>,
    /// Called every [`POLL_INTERVAL`] while it waits for a message.
    waiting: &'a mut dyn FnMut(),
    /// Children of this process that existed before the runtime.
    others: BTreeSet<u32>,
    /// Number of light processes that the runtime last reported.
    pub alive: u64,
}

impl<'a> RuntimeSession<'a> {
    /// Starts `command` in `group`, as the first process to be killed if memory runs out. Must be called by a
    /// thread that lives as long as the session: the kernel kills the runtime when that thread ends.
    ///
    /// # Errors
    /// Those of starting a program.
    pub fn start(
        command: &mut Command,
        group: Option<&'a MemoryGroup>,
        waiting: &'a mut dyn FnMut(),
    ) -> io::Result<Self> {
        adopt_orphans()?;
        let others = tasks::children(std::process::id()).into_iter().collect();
        let group_file =
            group.map(|group| OpenOptions::new().write(true).open(group.entrance())).transpose()?;
        child::prefer_oom_kill(command, group_file);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child::spawn(command)?;
        let (sender, messages) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.all(|line| sender.send(Message::parse(&line)).is_ok())
            });
        }
        let (sender, errors) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || sender.send(read_tail(stderr)));
        }
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            messages,
            stderr: errors,
            group,
            waiting,
            others,
            alive: 0,
        })
    }

    /// Sends a line to the runtime. If the runtime has ended, the next [`receive`](Self::receive) reports it.
    pub fn send(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{text}\n").as_bytes());
        }
    }

    /// Waits for the message of this `kind`, for at most `time` after the previous message.
    ///
    /// # Errors
    /// The reason why it did not come.
    pub fn receive(&mut self, kind: &str, time: Duration) -> Result<Message, SessionEnd> {
        let mut last = Instant::now();
        loop {
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok(message) if message.kind == kind => return Ok(message),
                Ok(message) if message.kind == "alive" => {
                    self.alive = message.first().unwrap_or(self.alive);
                    last = Instant::now();
                }
                Ok(message) => {
                    return Err(SessionEnd::Lost(format!("it sent {:?} instead of {kind:?}", message.kind)));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.exit_reason()),
                Err(RecvTimeoutError::Timeout) => (self.waiting)(),
            }
            if interrupt::requested() {
                return Err(SessionEnd::Interrupted);
            }
            if self.is_killed() {
                return Err(SessionEnd::Killed);
            }
            if last.elapsed() > time {
                return Err(SessionEnd::Lost(format!("it sent nothing for {} s", time.as_secs())));
            }
        }
    }

    /// Returns the present memory of all its processes, and what the runtime itself reports.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn memory(&mut self) -> Result<Memory, SessionEnd> {
        let members = || self.group.map(|group| group.members().into_iter().collect());
        let pids: BTreeSet<u32> = members().unwrap_or_else(|| tasks::with_descendants(&[self.child.id()]));
        let resident = process_memory::read(&pids);
        let kernel = self.group.and_then(MemoryGroup::kernel);
        let cgroup_bytes = self.group.and_then(MemoryGroup::charge);
        self.send("look");
        let reported_bytes = self.receive("look", MESSAGE_TIMEOUT)?.number("own");
        Ok(Memory {
            pss_bytes: resident.pss_bytes,
            rss_bytes: resident.rss_bytes,
            kernel_bytes: kernel.or(Some(resident.tables_bytes)),
            reported_bytes,
            cgroup_bytes,
        })
    }

    /// Waits until the runtime has exited by itself.
    ///
    /// # Errors
    /// The reason if it has not, or if it failed.
    pub fn wait_for_exit(&mut self, time: Duration) -> Result<(), SessionEnd> {
        drop(self.stdin.take());
        let deadline = Instant::now() + time;
        while !self.ends_within(POLL_INTERVAL) {
            (self.waiting)();
            if interrupt::requested() {
                return Err(SessionEnd::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(SessionEnd::Lost(format!("it did not end within {} s", time.as_secs())));
            }
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.exit_reason()),
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
    fn exit_reason(&mut self) -> SessionEnd {
        if !self.ends_within(EXIT_TIMEOUT) {
            return SessionEnd::Lost("it closed its output".to_owned());
        }
        let status = self.child.wait();
        if self.is_killed() {
            return SessionEnd::Killed;
        }
        let how = match status {
            Ok(status) if status.signal() == Some(rustix::process::Signal::KILL.as_raw()) => {
                "it was killed (SIGKILL)".to_owned()
            }
            Ok(status) => format!("it ended ({status})"),
            Err(error) => format!("it ended ({error})"),
        };
        let stderr = self.stderr.recv_timeout(EXIT_TIMEOUT).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr);
        match stderr.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => {
                SessionEnd::Ended(format!("{how}: {}", line.trim().chars().take(300).collect::<String>()))
            }
            None => SessionEnd::Ended(how),
        }
    }
}

impl Drop for RuntimeSession<'_> {
    /// Closes the input, which ends the runtime. Kills what remains, with all processes that the runtime
    /// started.
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !self.is_killed() {
            self.ends_within(EXIT_TIMEOUT);
        }
        child::kill(&mut self.child);
        let _ = end_leftover_processes(&self.others, &|_| true);
    }
}

/// Reads a pipe to its end and returns the last bytes.
fn read_tail(mut pipe: impl Read) -> Vec<u8> {
    let (mut kept, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = pipe.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..count]);
        let excess = kept.len().saturating_sub(MAX_STDERR_BYTES);
        kept.drain(..excess);
    }
    kept
}

//! The running program of a scheduler, and the end of what it writes to standard error.

use super::{MARK, SchedulerLoader};
use manycore_linux::child;
use manycore_text::names::printable;
use rustix::{
    fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, ftruncate, memfd_create},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    process::{Child, Command, ExitStatus, Stdio},
};

/// Number of lines of standard error in messages.
const MAX_LINES: usize = 5;

/// Longest line of standard error in messages, in characters.
const MAX_LINE: usize = 300;

/// Bytes of standard error that are kept at most. Beyond that, all but the last [`KEPT`] are dropped.
const MAX_STDERR: u64 = 1 << 20;

/// Bytes of standard error that are read for messages.
const KEPT: u64 = 16 << 10;

/// A running program of a scheduler, in a process group of its own. It is killed when this process ends, or when this is
/// dropped.
#[derive(Debug)]
pub(super) struct SchedulerProcess {
    child: Child,
    /// Its standard error is a file in memory: through a pipe, a program that writes much would wait for us, and with it
    /// the tasks that it schedules.
    stderr: File,
    status: Option<ExitStatus>,
}

impl SchedulerProcess {
    /// Starts a program with `mark` as the value of [`MARK`] in its environment.
    pub(super) fn start(loader: &SchedulerLoader, mark: &str) -> io::Result<Self> {
        let stderr = File::from(memfd_create("scheduler-messages", MemfdFlags::CLOEXEC)?);
        // Each write goes to the end, which is moved when the file is shortened.
        fcntl_setfl(&stderr, fcntl_getfl(&stderr)? | OFlags::APPEND)?;
        let [program, arguments @ ..] = loader.command.as_slice() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(loader.env.iter().map(|(name, value)| (name, value))).env(MARK, mark);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr.try_clone()?);
        Ok(Self { child: child::spawn(&mut command)?, stderr, status: None })
    }

    /// Its process id, which is that of its group.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its exit status if it has ended. Its process group is killed then.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.shorten();
        if self.status.is_some() {
            return self.status;
        }
        let pid = Pid::from_child(&self.child);
        // Without reaping it: its id stays that of the group.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if matches!(waitid(WaitId::Pid(pid), peek), Ok(None)) {
            return None;
        }
        let _ = kill_process_group(pid, Signal::KILL);
        self.status = self.child.wait().ok();
        self.status
    }

    /// Sends a signal to its process group.
    pub(super) fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }

    /// Drops the beginning of a long standard error.
    fn shorten(&self) {
        if self.stderr.metadata().is_ok_and(|file| file.len() > MAX_STDERR) {
            let last = self.last_bytes();
            let _ = ftruncate(&self.stderr, 0).map(|()| io::Write::write_all(&mut &self.stderr, &last));
        }
    }

    fn last_bytes(&self) -> Vec<u8> {
        let length = self.stderr.metadata().map_or(0, |file| file.len());
        let mut bytes = vec![0; length.min(KEPT) as usize];
        let read = self.stderr.read_at(&mut bytes, length.saturating_sub(KEPT)).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    /// Returns the last lines of its standard error that are not empty, separated by ` | `.
    pub(super) fn last_lines(&self) -> String {
        let bytes = self.last_bytes();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines: Vec<String> = text
            .lines()
            .rev()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(MAX_LINES)
            .map(|line| printable(&line.chars().take(MAX_LINE).collect::<String>()))
            .collect();
        lines.reverse();
        if lines.is_empty() { "it wrote nothing to standard error".to_owned() } else { lines.join(" | ") }
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

//! A cleanup process that kills the observed processes when this process is killed.
//!
//! A parent-death signal (`PR_SET_PDEATHSIG`) would kill the command, but not what the command started. It is
//! also sent when the parent's *thread* exits, so programs that fork in short-lived threads would lose their
//! children during normal operation.
#![allow(unsafe_code, reason = "fork(2)")]

use manycore_linux::{child, tasks};
use rustix::process::{Pid, Signal, kill_process, setpgid};
use std::io::{self, PipeReader, PipeWriter, Read};

/// Most scans of all processes; processes that fork during a scan are found by the next one.
const MOST_LOOKS: usize = 1000;

/// A running cleanup process. It is stopped when this is dropped; if this process dies instead, it cleans up.
#[derive(Debug)]
pub struct Guard {
    pid: Pid,
    /// Closed by the kernel when this process exits, which is the signal to clean up.
    _rope: PipeWriter,
}

impl Guard {
    /// Starts a process that kills all processes with `mark` (`NAME=VALUE`) in their environment once this
    /// process has exited.
    ///
    /// # Errors
    /// Those of `pipe2(2)` and `fork(2)`.
    pub fn over(mark: &str) -> io::Result<Self> {
        let (end, rope) = io::pipe()?;
        // SAFETY: the child is a copy of this thread alone. Of what other threads may hold locked, it uses
        // only the allocator, which glibc and musl keep usable across a fork.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(rope);
                stand(end, mark);
                // SAFETY: it exits this process, and runs no destructors or exit handlers of the parent.
                unsafe { libc::_exit(0) }
            }
            pid => Ok(Self { pid: Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?, _rope: rope }),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = child::reap_blocking(self.pid);
    }
}

fn stand(mut end: PipeReader, mark: &str) {
    // Leave the parent's process group, so as not to receive signals that are sent to the group.
    let _ = setpgid(None, None);
    while end.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {}
    for _ in 0..MOST_LOOKS {
        let marked = tasks::all().into_iter().filter(|pid| tasks::has_environment(*pid, mark));
        let killed = marked
            .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .filter(|pid| kill_process(*pid, Signal::KILL).is_ok())
            .count();
        if killed == 0 {
            return;
        }
    }
}

//! A process that ends what is observed when we are killed.
//!
//! The kernel kills the command when we die, but not what the command started: a death signal is for a parent's
//! *thread*, so that programs which fork in threads that end would lose their children while all is well.
#![allow(unsafe_code, reason = "fork(2)")]

use manycore_linux::{child, tasks};
use rustix::process::{Pid, Signal, kill_process, setpgid};
use std::io::{self, PipeReader, PipeWriter, Read};

/// Most looks at all processes: what forks meanwhile is found in the next.
const MOST_LOOKS: usize = 1000;

/// Stands until it is dropped, or we end without that.
#[derive(Debug)]
pub struct Guard {
    pid: Pid,
    /// Closed by the kernel when we end.
    _rope: PipeWriter,
}

impl Guard {
    /// Kills all processes with `mark` (`NAME=VALUE`) in their environment, once we have ended.
    ///
    /// # Errors
    /// Those of `pipe2(2)` and `fork(2)`.
    pub fn over(mark: &str) -> io::Result<Self> {
        let (end, rope) = io::pipe()?;
        // SAFETY: the child is a copy of this thread alone. It uses nothing that another thread may hold but the
        // allocator, which the C libraries of GNU and musl keep usable across a fork.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(rope);
                stand(end, mark);
                // SAFETY: it ends this process, and runs nothing of our parent's.
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
    // What is sent to our parent's group is not for us.
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

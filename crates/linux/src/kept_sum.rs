//! The CPU time of a process without a visit of its threads.
#![allow(
    unsafe_code,
    reason = "timers of CPU clocks of other processes are system calls that rustix does not have"
)]

use crate::clock;
use std::io;

/// Expires after 272 years of CPU time, which no process reaches.
const NEVER: libc::time_t = 1 << 33;

/// Has the kernel keep the sum of the CPU time of a process, as long as it exists.
///
/// The kernel visits all threads for each reading of [`clock::process_cpu_ns`]: milliseconds for ten thousand threads. Not so
/// if a timer of that clock is armed (`thread_group_start_cputime` in `kernel/time/posix-cpu-timers.c`): then each switch and
/// tick of a thread adds to a sum, in some 20 ns. This is such a timer. It never expires, needs no privileges, and changes
/// nothing that the process can see.
///
/// The clock may lag by a constant from then on: by what its threads ran while the kernel added up their times for the first
/// time, with interrupts disabled. After the timer is dropped, the kernel visits the threads again, from the next tick on in which
/// one of them runs.
#[derive(Debug)]
pub struct KeptSum(libc::c_int);

impl KeptSum {
    /// Begins to keep the sum of process `pid`.
    ///
    /// # Errors
    /// `ESRCH` or `EINVAL`: the process has ended; `EAGAIN`: this user may have no more timers (`RLIMIT_SIGPENDING`); `ENOSYS`:
    /// a kernel without `CONFIG_POSIX_TIMERS`.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let clock = clock::id_of_process(pid);
        // SAFETY: all fields are numbers or pointers that may be null.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        // A timer without a signal is not armed. This one would be ignored.
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGURG;
        let mut timer: libc::c_int = 0;
        // SAFETY: the kernel reads the event and writes the number of the timer, or rejects the clock.
        done(unsafe { libc::syscall(libc::SYS_timer_create, clock, &raw const event, &raw mut timer) })?;
        let timer = Self(timer);
        let never = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: NEVER, tv_nsec: 0 },
        };
        let previous = std::ptr::null_mut::<libc::itimerspec>();
        // SAFETY: the kernel reads the time.
        done(unsafe { libc::syscall(libc::SYS_timer_settime, timer.0, 0, &raw const never, previous) })?;
        Ok(timer)
    }
}

impl Drop for KeptSum {
    fn drop(&mut self) {
        // SAFETY: it takes a number; the timer is this one's own.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        process::{Command, Stdio},
        thread,
    };

    /// Returns the CPU time of all threads of this process that have not ended.
    fn threads_ns() -> u64 {
        let run = |entry: io::Result<std::fs::DirEntry>| {
            let tid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            clock::cpu_ns(tid)
        };
        std::fs::read_dir("/proc/self/task").unwrap().filter_map(run).sum()
    }

    #[test]
    fn the_clock_counts_on_while_the_sum_is_kept_and_after_it() {
        let own = std::process::id();
        let clock_ns = || clock::process_cpu_ns(own).unwrap();
        let work = || {
            let (before, threads) = (clock_ns(), threads_ns());
            while threads_ns() < threads + 50_000_000 {}
            clock_ns() - before
        };
        let before = clock_ns();
        let sum = KeptSum::of_process(own).unwrap();
        assert!(work() >= 35_000_000);
        let beside = thread::spawn(move || {
            let end = clock::thread_cpu() + std::time::Duration::from_millis(5);
            while clock::thread_cpu() < end {}
        });
        let begun = clock_ns();
        beside.join().unwrap();
        assert!(clock_ns() >= begun && begun > before);
        drop(sum);
        assert!(work() >= 35_000_000);
    }

    #[test]
    fn the_sum_of_a_child_is_kept_until_it_ends() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let sum = KeptSum::of_process(child.id()).unwrap();
        assert!(clock::process_cpu_ns(child.id()).is_some());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(clock::process_cpu_ns(child.id()), None);
        drop(sum);
        assert!(KeptSum::of_process(child.id()).is_err());
        assert!(KeptSum::of_process(u32::MAX >> 4).is_err());
    }
}

//! Clocks.
#![allow(
    unsafe_code,
    reason = "CPU clocks of other threads have ids that only clock_gettime(2) itself takes"
)]

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime};

/// Returns `CLOCK_MONOTONIC` in nanoseconds, which is the same for all threads and processes of a machine.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the CPU time of this thread. Unlike wall time, it has no waits.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of a thread in nanoseconds, up to date even while it runs. `tid` is a thread of this
/// process, or a process with a single thread. Returns `None` if it has exited.
///
/// `/proc/PID/schedstat` contains the same time, but is only updated when the scheduler runs, up to a tick (4
/// ms) late. The clock ids are computed as in `pthread_getcpuclockid(3)` and `clock_getcpuclockid(3)`: the
/// complement of the id, then `CPUCLOCK_PERTHREAD_MASK` (4) and `CPUCLOCK_SCHED` (2).
pub fn cpu_ns(tid: u32) -> Option<u64> {
    let base = !(tid as libc::clockid_t) << 3;
    [base | 6, base | 2].into_iter().find_map(read)
}

/// Returns the CPU time of process `pid` in nanoseconds, of all its threads including those that have exited.
pub fn process_cpu_ns(pid: u32) -> Option<u64> {
    read(id_of_process(pid))
}

/// Returns the id of the CPU clock of a process, which need not exist.
pub(crate) const fn id_of_process(pid: u32) -> libc::clockid_t {
    !(pid as libc::clockid_t) << 3 | 2
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, or rejects the clock.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the current time in UTC, in the format of RFC 3339 with seconds: `2026-11-21T19:40:58Z`.
pub fn utc() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_has_seconds_and_is_in_utc() {
        let before = SystemTime::now() - Duration::from_secs(1);
        let text = utc();
        assert!(text.len() == "2026-11-21T19:40:58Z".len() && text.ends_with('Z'), "{text}");
        assert!(humantime::parse_rfc3339(&text).unwrap() >= before);
    }

    #[test]
    fn cpu_time_of_this_thread_grows_with_work_and_of_no_thread_is_absent() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let before = cpu_ns(tid).unwrap();
        while cpu_ns(tid).unwrap() < before + 1_000_000 {}
        assert_eq!(cpu_ns(u32::MAX >> 4), None);
    }

    #[test]
    fn cpu_time_of_a_child_is_known() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(cpu_ns(child.id()).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_clock_does_not_run_backwards() {
        let first = now_ns();
        assert!(now_ns() >= first);
    }
}

//! Clocks.
#![allow(
    unsafe_code,
    reason = "CPU clocks of other threads have ids that only clock_gettime(2) itself takes"
)]

use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns `CLOCK_MONOTONIC` in nanoseconds, which is the same for all threads and processes of a machine.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
    read(!(pid as libc::clockid_t) << 3 | 2)
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, or rejects the clock.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the current time in UTC, in the format of RFC 3339 with seconds: `2026-11-21T19:40:58Z`.
pub fn utc() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    rfc3339(seconds)
}

/// Converts seconds since 1970 to a date in the proleptic Gregorian calendar. Years begin in March so that
/// the leap day comes last (the method of Hinnant's "chrono-compatible low-level date algorithms").
fn rfc3339(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_290_058, "2026-11-21T19:40:58Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn cpu_time_of_this_thread_grows_with_work_and_of_no_thread_is_absent() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let before = cpu_ns(tid).unwrap();
        while cpu_ns(tid).unwrap() < before + 1_000_000 {}
        assert_eq!(cpu_ns(u32::MAX >> 4), None);
    }

    #[test]
    fn cpu_time_of_a_child_is_told() {
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

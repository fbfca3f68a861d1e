//! Scheduling classes of tasks (`sched(7)`): ordinary ones, real-time ones, and the one of loaded schedulers.
#![allow(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper")]

use std::io;

/// `SCHED_NORMAL`, also called `SCHED_OTHER`: of ordinary tasks.
pub const NORMAL: u32 = 0;
/// `SCHED_BATCH`: of ordinary tasks that compute.
pub const BATCH: u32 = 3;
/// `SCHED_EXT`: of tasks that a loaded scheduler schedules even if it does not schedule all. Without a loaded scheduler,
/// such tasks are scheduled as ordinary ones.
pub const EXT: u32 = 7;

/// Returns the class of a task; 0 is the calling thread.
///
/// # Errors
/// The task has ended.
pub fn of(tid: u32) -> io::Result<u32> {
    // SAFETY: the call takes no memory.
    let class = unsafe { libc::syscall(libc::SYS_sched_getscheduler, tid) };
    u32::try_from(class)
        .map(|class| class & !(libc::SCHED_RESET_ON_FORK as u32))
        .map_err(|_| io::Error::last_os_error())
}

/// Changes the class of a task to one without priorities; 0 is the calling thread. Its nice value stays.
///
/// # Errors
/// The task has ended, belongs to another user, or the kernel does not know the class.
pub fn set(tid: u32, class: u32) -> io::Result<()> {
    let priority: libc::c_int = 0;
    // The kernel's structure and system call: musl has a larger structure, and its function always fails.
    // SAFETY: the kernel reads the priority, the only field of its structure, which outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, class, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_becomes_one_of_batch_work_and_ordinary_again() {
        std::thread::spawn(|| {
            assert_eq!(of(0).unwrap(), NORMAL);
            set(0, BATCH).unwrap();
            assert_eq!(of(0).unwrap(), BATCH);
            set(0, NORMAL).unwrap();
            assert!(of(u32::MAX >> 4).is_err() && set(0, 99).is_err());
        })
        .join()
        .unwrap();
    }
}

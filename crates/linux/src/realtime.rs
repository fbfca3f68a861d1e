//! Real-time priority, to react quickly although all CPUs are busy.
#![allow(unsafe_code, reason = "sched_setscheduler(2) has no safe wrapper")]

/// Makes the calling thread run as soon as it wakes up, before all ordinary threads (`SCHED_FIFO` with the
/// lowest priority). Threads and processes that it creates get the ordinary policy. Needs `CAP_SYS_NICE`;
/// without it nothing changes. Returns whether it was granted.
///
/// This is meant for threads that sleep nearly always: while they run, they block ordinary threads of their
/// CPU.
pub fn request() -> bool {
    // The kernel's structure and system call: musl has a larger structure, and its function always fails.
    let least: libc::c_int = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads the priority, the only field of its structure, which outlives the call.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const least) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_started_with_realtime_priority_are_ordinary() {
        std::thread::spawn(|| {
            if !request() {
                return eprintln!("SKIPPED: no permission for real-time priority (CAP_SYS_NICE)");
            }
            // SAFETY: the call takes no memory.
            let policy = || unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) } as libc::c_int;
            assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO);
            assert_eq!(std::thread::spawn(policy).join().unwrap(), libc::SCHED_OTHER);
        })
        .join()
        .unwrap();
    }
}

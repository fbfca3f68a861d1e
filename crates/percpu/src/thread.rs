//! The choice of a shard for a thread without a registration.
//!
//! The shard depends on the thread and not on its CPU. Getting the CPU (`sched_getcpu`) makes an add about a
//! third slower even if glibc reads it from its registration (the benchmark measures both). Without a
//! registration, glibc has to call the vDSO or, on AArch64, the kernel.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

thread_local! {
    // Has no destructor and no lazy initialisation, so that a signal handler may use it.
    static TURN: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Returns this thread's number. Numbers are assigned in sequence, so that consecutive ones differ in their
/// low bits.
#[inline]
pub(crate) fn turn() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // A thread's storage can be destroyed only if there is a destructor, and there is none here.
    TURN.try_with(|turn| {
        if turn.get() == u32::MAX {
            // A signal handler that runs in between takes a number too; the thread keeps one of the two.
            turn.set(NEXT.fetch_add(1, Ordering::Relaxed) & (u32::MAX >> 1));
        }
        turn.get()
    })
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::turn;

    #[test]
    fn a_thread_keeps_its_number_and_shares_it_with_no_other_that_is_alive() {
        let own = turn();
        let other = std::thread::spawn(|| (turn(), turn())).join().unwrap();
        assert_eq!(other.0, other.1);
        assert_ne!(own, other.0);
        assert_eq!(own, turn());
    }
}

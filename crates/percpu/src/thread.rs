//! Which shard a thread without registration adds to.
//!
//! By the thread and not by its CPU: asking for the CPU (`sched_getcpu`) makes an add about a third slower even where
//! glibc answers from its registration (the benchmark has both); without one it asks the vDSO or, on AArch64, the
//! kernel.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

thread_local! {
    // Without destructor and lazy initialisation, so that a signal handler may use it.
    static TURN: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// A number that this thread keeps, given in turn: neighbours differ in the low bits.
#[inline]
pub(crate) fn turn() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // The thread's storage can be gone only where there is a destructor, and here is none.
    TURN.try_with(|turn| {
        if turn.get() == u32::MAX {
            // A handler that comes in between takes a number too; the thread keeps one of the two.
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

//! The state word of a line: its owner, and a lock.

use crate::shadow::{lines::TrackedLine, sys};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// State of a line: `sequence << 32 | times << 15 | thread << 3 | how << 1 | lock`. The sequence number
/// counts changes of the writer. `times` counts how often the lock was taken, so that an unchanged state
/// means that nothing happened in between. `thread` is the thread that got the line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineState(pub u64);

pub(super) const LOCK: u64 = 1;
pub(super) const TIMES: u64 = 0xffff_8000;
const ONE_TIME: u64 = 0x8000;
/// Kinds of ownership of a line.
pub(super) const UNOWNED: u64 = 0;
pub(super) const CLEAN: u64 = 1;
pub(super) const DIRTY: u64 = 2;
pub(super) const SHARED: u64 = 3;

impl LineState {
    pub fn new(sequence: u32, thread: u32, how: u64) -> Self {
        Self(u64::from(sequence) << 32 | u64::from(thread) << 3 | how << 1)
    }

    pub fn sequence(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub fn thread(self) -> u32 {
        (self.0 >> 3) as u32 & 0xfff
    }

    pub fn ownership(self) -> u64 {
        self.0 >> 1 & 3
    }
}

/// Takes the lock of `line`. Returns `None` if a thread never releases it, which should not happen.
pub(super) fn lock(line: &TrackedLine) -> Option<LineState> {
    for round in 0..1_000_000_u32 {
        let seen = line.state.load(Relaxed);
        if seen & LOCK == 0 && line.state.compare_exchange_weak(seen, seen | LOCK, Acquire, Relaxed).is_ok() {
            return Some(LineState(seen));
        }
        if round % 64 == 63 { sys::yield_now() } else { std::hint::spin_loop() }
    }
    None
}

/// Releases the lock and stores `state` with an increased lock count; returns that state.
pub(super) fn unlock(line: &TrackedLine, state: LineState) -> LineState {
    let next = state.0 & !TIMES | state.0.wrapping_add(ONE_TIME) & TIMES;
    line.state.store(next, Release);
    LineState(next)
}

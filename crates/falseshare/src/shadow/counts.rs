//! How often which instruction touched which bytes of a line.

use crate::shadow::lines::{Access, Line};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// Kinds of accesses in one block of [`Counts`].
pub const KEYS: usize = 5;

/// What one thread did at one line, by instruction and bytes. Only that thread writes here.
#[repr(C, align(64))]
pub struct Counts {
    /// The thread.
    pub thread: AtomicU32,
    /// The block that was made before.
    pub next: AtomicU32,
    /// One kind of access each; those behind the last have key 0.
    pub kinds: [Count; KEYS],
}

/// One kind of access.
#[derive(Debug)]
#[repr(C)]
pub struct Count {
    /// [`of_key`] takes it apart.
    pub key: AtomicU64,
    /// Times read, times written.
    pub times: [AtomicU64; 2],
    /// States of the line in which such a read and such a write were taken note of: as long as the state is this
    /// one, the next is only counted.
    pub known: [AtomicU64; 2],
}

impl Count {
    /// Counts an access.
    #[inline]
    pub fn count(&self, reads: bool, writes: bool) {
        let count = |times: &AtomicU64| times.store(times.load(Relaxed) + 1, Relaxed);
        if reads {
            count(&self.times[0]);
        }
        if writes {
            count(&self.times[1]);
        }
    }

    /// Counts an access to `line` of which nothing but that is new; returns whether it was one.
    #[inline]
    pub fn again(&self, line: &Line, reads: bool, writes: bool) -> bool {
        let state = line.state.load(Acquire);
        if self.known[usize::from(writes)].load(Relaxed) != state {
            return false;
        }
        self.count(reads, writes);
        true
    }
}

/// The key of an access in [`Counts`].
#[inline]
pub fn key(access: &Access) -> u64 {
    access.code << 16 | u64::from(access.offset & 0xff) << 8 | u64::from(access.bytes & 0xff)
}

/// Instruction, offset and bytes of a key.
pub fn of_key(key: u64) -> (u64, u32, u32) {
    (key >> 16, (key >> 8) as u32 & 0xff, key as u32 & 0xff)
}

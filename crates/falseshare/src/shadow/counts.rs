//! Counts accesses to the bytes of a line by instruction.

use crate::shadow::lines::{LinePart, TrackedLine};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// Number of kinds of accesses in one block of [`Counts`].
pub const KEYS: usize = 5;

/// Accesses of one thread to one line, by instruction and bytes. Only that thread writes here.
#[repr(C, align(64))]
pub struct Counts {
    /// Index of the thread.
    pub thread: AtomicU32,
    /// Index of the block that was created before this one.
    pub next: AtomicU32,
    /// One kind of access each; unused entries have key 0.
    pub kinds: [Count; KEYS],
}

/// A kind of access: instruction, offset and size.
#[derive(Debug)]
#[repr(C)]
pub struct Count {
    /// The packed key; see [`unpack_key`].
    pub key: AtomicU64,
    /// Number of reads, number of writes.
    pub times: [AtomicU64; 2],
    /// States of the line in which such a read and such a write were last recorded in full. While the line
    /// has the same state, further accesses are only counted.
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

    /// Counts an access to `line` if it changes nothing but the count; returns whether that was the case.
    #[inline]
    pub fn count_if_unchanged(&self, line: &TrackedLine, reads: bool, writes: bool) -> bool {
        let state = line.state.load(Acquire);
        if self.known[usize::from(writes)].load(Relaxed) != state {
            return false;
        }
        self.count(reads, writes);
        true
    }
}

/// Packs instruction, offset and size of an access into a key of [`Counts`].
#[inline]
pub fn key(access: &LinePart) -> u64 {
    access.code << 16 | u64::from(access.offset & 0xff) << 8 | u64::from(access.bytes & 0xff)
}

/// Unpacks a key into instruction, offset and size.
pub fn unpack_key(key: u64) -> (u64, u32, u32) {
    (key >> 16, (key >> 8) as u32 & 0xff, key as u32 & 0xff)
}

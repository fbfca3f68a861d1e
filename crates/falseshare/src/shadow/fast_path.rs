//! The fast path of an access that changes nothing but counters: one lookup in the thread's own tables,
//! without locks or writes to shared data.

use crate::shadow::{
    counts::Count,
    lines::{LinePart, TrackedLine},
    owner_table::{FastPath, FastResult},
    region::Thread,
};
use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
};

/// Number of accesses to followed lines that a thread caches, as a power of two. It is enough for a loop over
/// a block of a shared matrix, with each element accessed by each instruction.
const RECENT_BITS: u32 = 12;
/// Number of entries.
pub(crate) const RECENT: usize = 1 << RECENT_BITS;

/// A cached access to a followed line. Only its thread reads and writes it.
#[repr(C)]
pub(crate) struct CachedAccess {
    code: AtomicU64,
    /// Index of the line in the arena, and offset of the access.
    index: AtomicU64,
    line: AtomicPtr<TrackedLine>,
    count: AtomicPtr<Count>,
}

/// Number of accesses after which a thread takes the slow path, to let other threads run and to read the clock.
pub(crate) const SLOW_PATH_INTERVAL: u64 = 1024;

/// Returns whether a thread should wait for others at its access number `count`. Creating a thread takes longer
/// in the emulator than many short programs run, so their threads would run one after the other and never
/// interact. Therefore each thread's first million accesses are delayed, by about a tenth of a second in total.
#[inline]
pub(crate) fn should_wait(count: u64) -> bool {
    const FIRST: u64 = 1024;
    count <= SLOW_PATH_INTERVAL * FIRST
}

/// Where a thread keeps the lock function call that it is in, and the address range of the library with the
/// lock functions.
#[derive(Clone, Copy, Debug)]
pub struct LockCalls {
    call: *const AtomicU64,
    library: (u64, u64),
}

impl LockCalls {
    /// No call is known.
    pub const NONE: Self = Self { call: ptr::null(), library: (0, 0) };

    /// Creates it for the word at `address` of the process, which contains the call or 0. `library` is the
    /// address range of the library with the lock functions (end exclusive).
    pub fn new(address: u64, library: (u64, u64)) -> Self {
        let call = ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        if call.is_aligned() { Self { call, library } } else { Self::NONE }
    }

    /// Returns the code address to which an access of the instruction at `code` is attributed: the call of
    /// the lock function, if there is one.
    ///
    /// # Safety
    /// The word must be mapped.
    #[inline]
    unsafe fn code(&self, code: u64) -> u64 {
        if self.call.is_null() || !(self.library.0..self.library.1).contains(&code) {
            return code;
        }
        // SAFETY: required of the caller.
        match unsafe { (*self.call).load(Relaxed) } {
            0 => code,
            call => call,
        }
    }
}

/// The data of one thread for its fast path.
#[derive(Clone, Copy, Debug)]
pub struct ThreadFastPath {
    /// The lock function call that the thread is in.
    pub calls: LockCalls,
    record: *const Thread,
    own: Option<FastPath>,
    recent: *const CachedAccess,
}

// SAFETY: it only contains pointers; callers of unsafe methods guarantee that they are valid.
unsafe impl Send for ThreadFastPath {}
// SAFETY: as above.
unsafe impl Sync for ThreadFastPath {}

impl ThreadFastPath {
    /// Creates the fast path of the thread of `record`. `recent` points to [`RECENT`] entries. `own` is the
    /// thread's part of the owner table, if there is only one table.
    pub(crate) fn new(record: *const Thread, own: Option<FastPath>, recent: *const CachedAccess) -> Self {
        Self { calls: LockCalls::NONE, record, own, recent }
    }

    /// Records an access of at most 16 bytes if it changes nothing but counters; returns whether that was the case.
    ///
    /// # Safety
    /// The [`ProcessTracker`](crate::shadow::ProcessTracker) must exist, the process must not have forked, and the caller must be the
    /// thread to which this belongs.
    #[inline]
    pub unsafe fn try_record(&self, code: u64, address: u64, reads: bool, writes: bool) -> bool {
        let Some(own) = &self.own else { return false };
        // SAFETY: required of the caller.
        let accesses = unsafe { &(*self.record).accesses };
        let count = accesses.load(Relaxed) + 1;
        if count.is_multiple_of(SLOW_PATH_INTERVAL) {
            return false;
        }
        // SAFETY: required of the caller.
        let found = unsafe { own.lookup(address, writes) };
        let done = match found {
            FastResult::Own => true,
            FastResult::Other => false,
            FastResult::Followed(index, offset) => {
                // SAFETY: required of the caller.
                let code = unsafe { self.calls.code(code) };
                let place = u64::from(index) << 32 | u64::from(offset);
                let entry = self.entry(place, code);
                entry.code.load(Relaxed) == code
                    && entry.index.load(Relaxed) == place
                    // SAFETY: the entry belongs to this thread, is complete, and is of this line.
                    && unsafe { (*entry.count.load(Relaxed)).count_if_unchanged(&*entry.line.load(Relaxed), reads, writes) }
            }
        };
        if done {
            accesses.store(count, Relaxed);
        }
        done
    }

    /// Returns the code address to which an access of the instruction at `code` is attributed.
    ///
    /// # Safety
    /// As for [`ThreadFastPath::try_record`].
    pub unsafe fn code(&self, code: u64) -> u64 {
        // SAFETY: required of the caller.
        unsafe { self.calls.code(code) }
    }

    /// Clears the cache, so that the next access of each kind takes the slow path.
    pub(crate) fn clear_cache(&self) {
        for place in 0..RECENT {
            // SAFETY: each thread has RECENT entries. No instruction is at address 0.
            unsafe { (*self.recent.add(place)).code.store(0, Relaxed) };
        }
    }

    /// Returns the cache entry for an instruction and an offset of a line; entries are spread with the golden
    /// ratio (Fibonacci hashing).
    #[inline]
    fn entry(&self, place: u64, code: u64) -> &CachedAccess {
        let spread = (code ^ place.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // SAFETY: each thread has RECENT entries.
        unsafe { &*self.recent.add((spread >> (64 - RECENT_BITS)) as usize) }
    }

    /// Caches this access to the line at `index`.
    pub(crate) fn cache_access(&self, index: u32, line: &TrackedLine, access: &LinePart, count: &Count) {
        let place = u64::from(index) << 32 | u64::from(access.offset);
        let entry = self.entry(place, access.code);
        entry.count.store(ptr::from_ref(count).cast_mut(), Relaxed);
        entry.line.store(ptr::from_ref(line).cast_mut(), Relaxed);
        entry.index.store(place, Relaxed);
        entry.code.store(access.code, Relaxed);
    }
}

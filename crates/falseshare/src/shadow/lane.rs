//! The quick way of an access of which nothing is new: one look at the thread's own tables, no lock, nothing shared.

use crate::shadow::{
    counts::Count,
    grid::{Glance, Own},
    lines::{Access, Line},
    region::Thread,
};
use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed},
};

/// Accesses to followed lines that a thread finds again at once, as a power of two: those of a loop over a block of a
/// matrix that threads share, each element by each instruction.
const RECENT_BITS: u32 = 12;
/// As many.
pub(crate) const RECENT: usize = 1 << RECENT_BITS;

/// An access to a followed line, to find it again; only its thread writes and reads it.
#[repr(C)]
pub(crate) struct Recent {
    code: AtomicU64,
    /// The place of the line in the arena, and the offset of the access.
    index: AtomicU64,
    line: AtomicPtr<Line>,
    count: AtomicPtr<Count>,
}

/// Every so many accesses a thread looks up, for others and for the time.
pub(crate) const PAUSE: u64 = 1024;

/// Whether a thread that pauses at its access number `count` should wait for others. To begin a thread takes longer in the
/// emulator than many short programs have to do, so that their threads would run one after the other and never meet.
/// Each thread's first million accesses are therefore drawn out, by about a tenth of a second together.
#[inline]
pub(crate) fn is_turn(count: u64) -> bool {
    const FIRST: u64 = 1024;
    count <= PAUSE * FIRST
}

/// Where a thread keeps which call of a lock's function it is in, and the library that has these functions.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    call: *const AtomicU64,
    library: (u64, u64),
}

impl Calls {
    /// No call is known.
    pub const NONE: Self = Self { call: ptr::null(), library: (0, 0) };

    /// The word at `address` of the process has the call, or 0; `library` is the first address of the functions' library
    /// and that behind its last.
    pub fn new(address: u64, library: (u64, u64)) -> Self {
        let call = ptr::with_exposed_provenance::<AtomicU64>(address as usize);
        if call.is_aligned() { Self { call, library } } else { Self::NONE }
    }

    /// The code that stands for the instruction at `code`: the call that led to it, where that is known.
    ///
    /// # Safety
    /// The word is there.
    #[inline]
    unsafe fn code(&self, code: u64) -> u64 {
        if self.call.is_null() || !(self.library.0..self.library.1).contains(&code) {
            return code;
        }
        // SAFETY: the caller says so.
        match unsafe { (*self.call).load(Relaxed) } {
            0 => code,
            call => call,
        }
    }
}

/// What one thread needs for the accesses of which nothing is new.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Which call it is in.
    pub calls: Calls,
    record: *const Thread,
    own: Option<Own>,
    recent: *const Recent,
}

// SAFETY: it is addresses; who follows them promises that they are there.
unsafe impl Send for Lane {}
// SAFETY: as above.
unsafe impl Sync for Lane {}

impl Lane {
    /// The lane of the thread of `record`, which has [`RECENT`] entries from `recent` on; `own` is its part of the
    /// grid, where there is but one.
    pub(crate) fn new(record: *const Thread, own: Option<Own>, recent: *const Recent) -> Self {
        Self { calls: Calls::NONE, record, own, recent }
    }

    /// Takes note of an access of at most 16 bytes, where nothing about it is new; returns whether that was so.
    ///
    /// # Safety
    /// The [`Shadow`](crate::shadow::Shadow) is there, there was no fork, and the caller is the lane's thread.
    #[inline]
    pub unsafe fn quick(&self, code: u64, address: u64, reads: bool, writes: bool) -> bool {
        let Some(own) = &self.own else { return false };
        // SAFETY: the caller says so.
        let accesses = unsafe { &(*self.record).accesses };
        let count = accesses.load(Relaxed) + 1;
        if count.is_multiple_of(PAUSE) {
            return false;
        }
        // SAFETY: the caller says so.
        let glance = unsafe { own.glance(address, writes) };
        let done = match glance {
            Glance::Own => true,
            Glance::Other => false,
            Glance::Followed(index, offset) => {
                // SAFETY: the caller says so.
                let code = unsafe { self.calls.code(code) };
                let place = u64::from(index) << 32 | u64::from(offset);
                let entry = self.entry(place, code);
                entry.code.load(Relaxed) == code
                    && entry.index.load(Relaxed) == place
                    // SAFETY: the entry is this thread's, whole, and of this line.
                    && unsafe { (*entry.count.load(Relaxed)).again(&*entry.line.load(Relaxed), reads, writes) }
            }
        };
        if done {
            accesses.store(count, Relaxed);
        }
        done
    }

    /// The code that stands for the instruction at `code`.
    ///
    /// # Safety
    /// As of [`Lane::quick`].
    pub unsafe fn code(&self, code: u64) -> u64 {
        // SAFETY: the caller says so.
        unsafe { self.calls.code(code) }
    }

    /// Has all accesses be as new.
    pub(crate) fn forget(&self) {
        for place in 0..RECENT {
            // SAFETY: each thread has so many; no instruction is at address 0.
            unsafe { (*self.recent.add(place)).code.store(0, Relaxed) };
        }
    }

    /// The entry of an instruction and an offset of a line, spread by the golden ratio (Fibonacci hashing).
    #[inline]
    fn entry(&self, place: u64, code: u64) -> &Recent {
        let spread = (code ^ place.rotate_left(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // SAFETY: each thread has so many.
        unsafe { &*self.recent.add((spread >> (64 - RECENT_BITS)) as usize) }
    }

    /// Has the thread find this access to the line at `index` again.
    pub(crate) fn remember(&self, index: u32, line: &Line, access: &Access, count: &Count) {
        let place = u64::from(index) << 32 | u64::from(access.offset);
        let entry = self.entry(place, access.code);
        entry.count.store(ptr::from_ref(count).cast_mut(), Relaxed);
        entry.line.store(ptr::from_ref(line).cast_mut(), Relaxed);
        entry.index.store(place, Relaxed);
        entry.code.store(access.code, Relaxed);
    }
}

//! The memory of counters, and one counter's cells in it.
//!
//! ```text
//! row        cpu 0 | cpu 1 | ... | shard 0 | shard 1 | ... | published | base
//! in a row   counter 0, counter 1, ... counter N-1, up to a multiple of 128 bytes
//! ```
//!
//! All rows have the same length, so one counter's cells are a fixed stride apart. Two rows never share a
//! pair of cache lines. The row of a CPU is written only by sequences of threads that run on that CPU. Shards
//! are written only by atomic instructions. No cell is ever reset: all of them but `base` only take adds, so
//! nothing that runs concurrently with an add can undo it.

use crate::{
    engine::{Engine, Registration},
    near, possible, sequence,
    thread::turn,
};
use std::{
    alloc::{self, Layout},
    mem::size_of,
    ptr::NonNull,
    sync::atomic::{
        AtomicI64,
        Ordering::{AcqRel, Acquire, Relaxed},
    },
};

/// Bytes of two cache lines; hardware prefetches lines in pairs.
const PAIR: usize = 128;

/// The rows of a number of counters.
pub(crate) struct Area {
    /// The first cell of the first row. This is a raw pointer and not a box, because cells point into the
    /// area, and moving a box would invalidate these pointers.
    start: NonNull<AtomicI64>,
    layout: Layout,
    registration: Registration,
    /// Rows for threads without a registration: a power of two.
    shards: usize,
    /// Bytes from one row to the next.
    stride: usize,
}

/// Number of shards if nearly all threads have CPU rows.
const FEW_SHARDS: usize = 4;

impl Area {
    /// Allocates zeroed rows for `counters` counters. Pages are not touched before they are used.
    ///
    /// Panics as `Vec::with_capacity` does, if the size in bytes exceeds `isize::MAX`.
    pub fn new(counters: usize, registration: Registration) -> Self {
        let online = (possible::online() as usize).next_power_of_two();
        let shards = if registration.cpus > 0 { online.min(FEW_SHARDS) } else { online };
        let rows = registration.cpus as usize + shards + 2;
        let pairs = counters.saturating_mul(size_of::<AtomicI64>()).saturating_add(PAIR - 1) / PAIR;
        let stride = pairs.max(1).saturating_mul(PAIR);
        let Ok(layout) = Layout::from_size_align(rows.saturating_mul(stride), PAIR) else {
            too_many(counters)
        };
        // SAFETY: there is at least one row of at least one pair of lines, so the size is not 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        #[allow(clippy::cast_ptr_alignment)] // The layout's alignment is that of a pair of lines.
        let Some(start) = NonNull::new(start.cast::<AtomicI64>()) else { alloc::handle_alloc_error(layout) };
        Self { start, layout, registration, shards, stride }
    }

    pub fn engine(&self) -> Engine {
        if self.registration.cpus > 0 { Engine::Rseq } else { Engine::Atomics }
    }

    /// Returns the size of all rows in bytes.
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Returns the cells of counter `index`, which must be below the number of counters. They are valid as
    /// long as this area.
    pub fn cells(&self, index: usize) -> Cells {
        debug_assert!(index * size_of::<AtomicI64>() < self.stride);
        let first = self.start.as_ptr().cast_const().wrapping_add(index);
        let Registration { offset, cpus } = self.registration;
        Cells {
            shard: below(first, cpus as usize * self.stride),
            cpus,
            offset,
            stride: self.stride,
            first,
            shards: self.shards,
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and all cells that point into it are gone.
        unsafe { alloc::dealloc(self.start.as_ptr().cast(), self.layout) };
    }
}

// SAFETY: the rows consist of atomics and are owned by the area.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

#[cold]
#[allow(clippy::panic)] // As `Vec` does: a program cannot continue from here.
fn too_many(counters: usize) -> ! {
    panic!("{counters} counters exceed the address space")
}

/// Returns the cell `bytes` after `first`, in a later row.
fn below(first: *const AtomicI64, bytes: usize) -> *const AtomicI64 {
    first.wrapping_add(bytes / size_of::<AtomicI64>())
}

/// One counter's cells. The holder keeps the area alive.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Cells {
    /// The cell in the row of shard 0, to which interrupted sequences add as well. It is the first field:
    /// sequences read it at offset 0.
    pub shard: *const AtomicI64,
    /// CPU numbers below this have a row.
    pub cpus: u32,
    /// Bytes from the thread pointer to the thread's area of restartable sequences.
    pub offset: isize,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// The cell in the row of CPU 0.
    pub first: *const AtomicI64,
    shards: usize,
}

// SAFETY: the cells are atomics, and sequences write those of their thread's CPU like atomics.
unsafe impl Send for Cells {}
// SAFETY: as above.
unsafe impl Sync for Cells {}

impl Cells {
    /// Adds to this CPU's cell, or to a shard if this thread's CPU is unknown.
    #[inline]
    pub fn add(&self, n: i64) {
        let cpu = sequence::cpu_id(self.offset);
        // The CPU number of an unregistered thread is negative, which as unsigned is above that of any CPU.
        let new = if cpu < self.cpus {
            // SAFETY: `cpus` is not 0, so the offset leads to this thread's area. The CPU number that was
            // just read shows that the thread is registered and on a CPU that has a row.
            unsafe { sequence::add(self, cpu, n) }
        } else {
            self.add_to_shard(n)
        };
        if near::owes(new, n) {
            self.publish(new, n);
        }
    }

    /// Adds to a shard and returns its new value.
    #[inline(never)]
    fn add_to_shard(&self, n: i64) -> i64 {
        let shard = turn() as usize & (self.shards - 1);
        self.row(self.cpus as usize + shard).fetch_add(n, Relaxed).wrapping_add(n)
    }

    #[cold]
    #[inline(never)]
    fn publish(&self, new: i64, n: i64) {
        let owed = near::owed(new, n);
        if owed != 0 {
            self.published().fetch_add(owed, Relaxed);
        }
    }

    /// Returns the sum of all adds since the area was created.
    fn all(&self) -> i64 {
        (0..self.rows()).fold(0, |sum: i64, row| sum.wrapping_add(self.row(row).load(Relaxed)))
    }

    /// See `PerCpuCounter::sum`.
    pub fn sum(&self) -> i64 {
        // The base is read first: the rows then hold at least what they held when the base was computed from
        // them.
        let base = self.base().load(Acquire);
        self.all().wrapping_sub(base)
    }

    /// See `PerCpuCounter::approx`.
    pub fn approx(&self) -> i64 {
        // The base is read first, as in `sum`: a reset in between then counts as one that has not happened
        // yet.
        let base = self.base().load(Acquire);
        self.published().load(Relaxed).wrapping_sub(base)
    }

    /// See `PerCpuCounter::approx_error`.
    pub fn approx_error(&self) -> i64 {
        near::MAX_DIFFERENCE * self.rows() as i64
    }

    /// See `PerCpuCounter::reset`.
    pub fn reset(&self) -> i64 {
        let mut base = self.base().load(Acquire);
        loop {
            let all = self.all();
            match self.base().compare_exchange(base, all, AcqRel, Acquire) {
                Ok(_) => return all.wrapping_sub(base),
                Err(newer) => base = newer,
            }
        }
    }

    /// Returns the number of rows that take adds.
    fn rows(&self) -> usize {
        self.cpus as usize + self.shards
    }

    fn published(&self) -> &AtomicI64 {
        self.row(self.rows())
    }

    fn base(&self) -> &AtomicI64 {
        self.row(self.rows() + 1)
    }

    fn row(&self, row: usize) -> &AtomicI64 {
        debug_assert!(row < self.rows() + 2);
        // SAFETY: the area has that many rows, each with a cell of this counter at this offset, and is still
        // allocated.
        unsafe { &*below(self.first, row * self.stride) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that cells of counters never overlap and stay inside the area, and that rows never share a pair
    /// of lines.
    fn check(counters: usize, cpus: u32) {
        let area = Area::new(counters, Registration { offset: 0, cpus });
        let start = area.start.as_ptr() as usize;
        let inside = start..start + area.bytes();
        let mut seen = std::collections::HashSet::new();
        for index in 0..counters {
            let cells = area.cells(index);
            for row in 0..cells.rows() + 2 {
                let cell = std::ptr::from_ref(cells.row(row)) as usize;
                assert!(inside.contains(&cell) && cell.is_multiple_of(8));
                assert_eq!((cell - inside.start) / area.stride, row);
                assert!(seen.insert(cell));
            }
            assert_eq!(cells.shard, std::ptr::from_ref(cells.row(cpus as usize)));
        }
        assert_eq!(area.stride % 128, 0);
        assert_eq!(inside.start % 128, 0);
    }

    #[test]
    fn layout_at_the_ends_of_lines() {
        for counters in [0, 1, 2, 15, 16, 17, 33] {
            for cpus in [0, 1, 3] {
                check(counters, cpus);
            }
        }
    }

    #[test]
    fn a_thousand_counters_are_packed() {
        let area = Area::new(1000, Registration { offset: 0, cpus: 64 });
        assert_eq!(area.stride, 8064);
    }

    #[cfg_attr(miri, ignore = "many cases of what `layout_at_the_ends_of_lines` checks")]
    #[test]
    fn layout() {
        proptest!(|(counters in 0_usize..200, cpus in 0_u32..40)| check(counters, cpus));
    }

    #[test]
    fn shards_take_adds_of_threads_without_registration_and_the_sum_has_all() {
        let area = Area::new(2, Registration::NONE);
        let (one, other) = (area.cells(0), area.cells(1));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..100).for_each(|n| one.add(n)));
                scope.spawn(|| (0..100).for_each(|_| other.add(-1)));
            }
        });
        assert_eq!((one.sum(), other.sum()), (3 * 4950, -300));
        assert_eq!((one.reset(), one.sum(), other.sum()), (3 * 4950, 0, -300));
    }
}

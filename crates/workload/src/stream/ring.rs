//! Three arrays that workers process together.
//!
//! The arrays are a ring of runs. A worker that has finished a run takes the next run that is not taken,
//! whatever kernel it executes. So the whole ring lies between two uses of the same run, however treatments
//! alternate and however many workers take part, and caches hold none of it.
#![allow(unsafe_code, reason = "a run is a part of the arrays that one worker uses exclusively")]

use super::{
    Kernel, Stores,
    kernels::{self, KernelFn},
    memory::{Region, in_parallel},
};
use std::{
    io, slice,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// Numbers of each array that are processed in a tick: some tens of microseconds. With ticks of an eighth of
/// this, one worker moves 4 to 9 % less, since each tick starts without loads in flight.
pub(super) const BLOCK: usize = 16384;

/// Blocks per run: half a mebibyte of each array, so that the cost of taking runs is negligible.
pub(super) const BLOCKS: usize = 4;

/// Bytes of a run in each array.
pub const RUN_BYTES: u64 = (BLOCK * BLOCKS * size_of::<f64>()) as u64;

/// Offset of the arrays relative to pages. If a load and an earlier store agree in the lower twelve bits of
/// their addresses, the CPU assumes that the load depends on the store (4K aliasing).
const ARRAY_OFFSET: usize = 1344;

/// STREAM's scalar. Its value is chosen so that a round of the four kernels leaves all values unchanged (`q *
/// q + 2 * q = 1`); with STREAM's own value of 3, a round multiplies them by 15.
const FACTOR: f64 = std::f64::consts::SQRT_2 - 1.0;

/// Three arrays on one node.
pub(super) struct ArrayRing {
    memory: Region,
    /// Whether a worker has taken the run.
    taken: Vec<AtomicBool>,
    /// Runs taken since the start.
    next: AtomicUsize,
}

/// A run that one worker has taken, and the next block in it.
pub(super) struct ArrayRun {
    ring: Arc<ArrayRing>,
    number: usize,
    block: usize,
}

impl ArrayRing {
    /// Allocates arrays of `runs` runs each on `node`; see [`Region::new`].
    pub(super) fn new(runs: usize, node: Option<u32>, threads: usize) -> io::Result<Arc<Self>> {
        if runs == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes =
            runs.checked_mul(RUN_BYTES as usize).and_then(|bytes| (bytes + ARRAY_OFFSET).checked_mul(3));
        let memory = Region::new(bytes.ok_or(io::ErrorKind::OutOfMemory)?, node, threads)?;
        let taken = (0..runs).map(|_| AtomicBool::new(false)).collect();
        let ring = Arc::new(Self { memory, taken, next: AtomicUsize::new(0) });
        ring.fill(threads.min(runs));
        Ok(ring)
    }

    /// Sets STREAM's initial values.
    fn fill(self: &Arc<Self>, threads: usize) {
        let runs = self.taken.len();
        let part = |hand: usize| {
            for _ in hand * runs / threads..(hand + 1) * runs / threads {
                let mut run = self.take();
                while let Some([a, b, c]) = run.next() {
                    a.fill(1.0);
                    b.fill(2.0);
                    c.fill(0.0);
                }
            }
        };
        in_parallel(threads, &part);
    }

    /// Takes the next run that is not taken. A worker returns its run before it takes the next one, so there
    /// is always a free run if there are as many runs as workers. With fewer runs, workers wait for each
    /// other.
    pub(super) fn take(self: &Arc<Self>) -> ArrayRun {
        loop {
            let number = self.next.fetch_add(1, Relaxed) % self.taken.len();
            if !self.taken[number].swap(true, Acquire) {
                return ArrayRun { ring: Arc::clone(self), number, block: 0 };
            }
            std::hint::spin_loop();
        }
    }

    /// Returns the number of runs in each array.
    pub(super) fn runs(&self) -> usize {
        self.taken.len()
    }
}

impl ArrayRun {
    /// Returns the next block of `a`, `b` and `c`; `None` at the end of the run.
    fn next(&mut self) -> Option<[&mut [f64]; 3]> {
        if self.block == BLOCKS {
            return None;
        }
        let first = (self.number * BLOCKS + self.block) * BLOCK;
        let array = self.ring.taken.len() * RUN_BYTES as usize + ARRAY_OFFSET;
        self.block += 1;
        Some([0, 1, 2].map(|index| {
            let start = self.ring.memory.start().wrapping_byte_add(index * array).cast::<f64>();
            // SAFETY: the region holds three arrays of that many bytes. Each of them is aligned, because the
            // region is aligned to a page and `array` is a multiple of the size of a number. The block lies
            // within its run, which no other worker has, and the slice borrows the run. Any bit pattern is a
            // valid number.
            unsafe { slice::from_raw_parts_mut(start.wrapping_add(first), BLOCK) }
        }))
    }
}

impl Drop for ArrayRun {
    fn drop(&mut self) {
        // Stores that bypass the caches are ordered only by a fence, and must be visible to the worker that
        // takes the run next.
        kernels::fence();
        self.ring.taken[self.number].store(false, Release);
    }
}

/// A worker's position in the ring.
pub(super) struct RingWorker {
    ring: Arc<ArrayRing>,
    run: Option<ArrayRun>,
    perform: KernelFn,
    kernel: Kernel,
    stores: Stores,
}

impl RingWorker {
    pub(super) fn new(ring: Arc<ArrayRing>, kernel: Kernel, stores: Stores) -> Self {
        Self { ring, run: None, perform: kernels::widest(), kernel, stores }
    }

    /// Processes the next block.
    pub(super) fn step(&mut self) {
        if self.run.as_ref().is_none_or(|run| run.block == BLOCKS) {
            self.run = None;
            self.run = Some(self.ring.take());
        }
        if let Some(arrays) = self.run.as_mut().and_then(ArrayRun::next) {
            (self.perform)(self.kernel, self.stores, arrays, FACTOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the values of the first array, run by run.
    fn first(ring: &Arc<ArrayRing>) -> Vec<f64> {
        let mut values = vec![0.0; ring.runs() * BLOCKS * BLOCK];
        for _ in 0..ring.runs() {
            let mut run = ring.take();
            let start = run.number * BLOCKS * BLOCK;
            let mut at = start;
            while let Some([a, ..]) = run.next() {
                values[at..at + BLOCK].copy_from_slice(a);
                at += BLOCK;
            }
        }
        values
    }

    #[test]
    fn a_round_touches_every_number_once() {
        let ring = ArrayRing::new(3, None, 2).unwrap();
        // Triad computes a = b + q * c from b = 2 and c = 0.
        let mut walk = RingWorker::new(Arc::clone(&ring), Kernel::Triad, Stores::NonTemporal);
        (0..2 * BLOCKS).for_each(|_| walk.step());
        drop(walk);
        let values = first(&ring);
        let done = values.iter().filter(|&&value| value == 2.0).count();
        assert_eq!((done, values.len()), (2 * BLOCKS * BLOCK, 3 * BLOCKS * BLOCK));
        assert!(values.iter().all(|value| [1.0, 2.0].contains(value)));
    }

    #[test]
    fn a_round_of_all_kernels_leaves_values_as_they_are() {
        let ring = ArrayRing::new(1, None, 1).unwrap();
        for _ in 0..100 {
            for kernel in [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad] {
                let mut walk = RingWorker::new(Arc::clone(&ring), kernel, Stores::Ordinary);
                (0..BLOCKS).for_each(|_| walk.step());
            }
        }
        assert!(first(&ring).iter().all(|value| (value - 1.0).abs() < 1e-12));
    }

    #[test]
    fn no_run_has_two_workers() {
        let ring = ArrayRing::new(5, None, 1).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let ring = Arc::clone(&ring);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let mut run = ring.take();
                        let Some([a, ..]) = run.next() else { panic!("a run has blocks") };
                        let seen = a[0];
                        a[0] = seen + 1.0;
                        std::thread::yield_now();
                        assert_eq!(a[0], seen + 1.0, "another worker has the same run");
                    }
                });
            }
        });
        let counted: f64 = first(&ring).iter().sum::<f64>() - (5 * BLOCKS * BLOCK) as f64;
        assert_eq!(counted, 200.0);
    }

    #[test]
    fn no_run_is_no_ring() {
        assert!(ArrayRing::new(0, None, 1).is_err());
        assert!(ArrayRing::new(usize::MAX, None, 1).is_err());
    }
}

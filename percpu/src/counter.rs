//! The counters: what users see.

use crate::{
    area::{Area, Cells},
    engine::{Engine, Registration},
};
use std::{fmt, marker::PhantomData};

/// A counter that many threads add to, and that is read now and then.
///
/// It takes 128 bytes for each possible CPU and a few more; where there are many counters, [`PerCpuCounters`] packs
/// them. The type is meant to be shared: in a `static` with [`LazyLock`](std::sync::LazyLock), in an `Arc`, or
/// borrowed by scoped threads.
///
/// ```
/// use manycore_percpu::PerCpuCounter;
/// use std::sync::LazyLock;
///
/// static BYTES: LazyLock<PerCpuCounter> = LazyLock::new(PerCpuCounter::new);
///
/// BYTES.add_local(1500);
/// BYTES.sub_local(500);
/// assert_eq!(BYTES.sum(), 1000);
/// ```
pub struct PerCpuCounter {
    cells: Cells,
    area: Area,
}

/// Counters that lie side by side in each CPU's rows: 1,000 of them take 8,064 bytes for each CPU and not 128,000.
///
/// ```
/// use manycore_percpu::PerCpuCounters;
///
/// let by_status = PerCpuCounters::new(600);
/// by_status.get(404).unwrap().add_local(1);
/// by_status.add_local(200, 3);
/// assert_eq!(by_status.sums()[404], 1);
/// ```
pub struct PerCpuCounters {
    area: Area,
    len: usize,
}

/// One of [`PerCpuCounters`]. Whoever adds often keeps it: its adds need no look at the index.
#[derive(Clone, Copy)]
pub struct Counter<'a> {
    cells: Cells,
    of: PhantomData<&'a Area>,
}

impl PerCpuCounter {
    /// A counter at 0.
    pub fn new() -> Self {
        Self::on(Registration::of_process())
    }

    fn on(registration: Registration) -> Self {
        let area = Area::new(1, registration);
        Self { cells: area.cells(0), area }
    }

    /// A counter at 0 with [`Engine::Atomics`], to compare with.
    pub fn with_atomics() -> Self {
        Self::on(Registration::NONE)
    }

    /// Adds `n`: a plain load, add and store in the cache line of this CPU. The count wraps modulo 2⁶⁴.
    ///
    /// It never waits and never fails, and it is async-signal-safe.
    #[inline]
    pub fn add_local(&self, n: i64) {
        self.cells.add(n);
    }

    /// Subtracts `n`, as [`add_local`](Self::add_local) adds.
    #[inline]
    pub fn sub_local(&self, n: i64) {
        self.cells.add(n.wrapping_neg());
    }

    /// What was added since the counter was made or [`reset`](Self::reset), by reading the line of each CPU.
    ///
    /// It has every add that happened before the call (one by this thread, or by one that was joined or synchronised
    /// with since), and of those that are made meanwhile some. So it is exact when nobody adds. Where all amounts
    /// are positive and nobody resets, sums that one thread reads never shrink.
    pub fn sum(&self) -> i64 {
        self.cells.sum()
    }

    /// Nearly the [`sum`](Self::sum), by reading one shared value, however many CPUs there are.
    ///
    /// The error is at most [`approx_error`](Self::approx_error) when nobody is in the middle of an add; a thread
    /// that is in the middle of adding `n` may change it by 1,024 + |n| more.
    ///
    /// *Proof.* Let a row (a CPU's, or a shard) have the value v. An add takes the row from v to v + n, and then adds
    /// p(v + n) − p(v) to the shared value, where p rounds to the nearest multiple of 1,024. Adds that are finished
    /// thus leave the shared value at the sum of p(v) over all rows, whatever their order, and |v − p(v)| ≤ 512. So the
    /// shared value is within 512 × rows of the sum. An add between its two steps misses p(v + n) − p(v), which is
    /// at most 1,024 + |n| in size. A reset takes the same number
    /// from both; beside one, the value is near the count as if that reset had not happened yet. ∎
    ///
    /// For one add in 1,024 that leads across an odd multiple of 512, an add is followed by an atomic add to the shared
    /// value. A row that is taken to and fro across one such value by each add pays it each time: the count stays
    /// right, and the cost is that of a shared counter.
    pub fn approx(&self) -> i64 {
        self.cells.approx()
    }

    /// The most that [`approx`](Self::approx) differs from the sum when nobody is in the middle of an add: 512 for
    /// each row, of which there is one for each possible CPU and a few more.
    pub fn approx_error(&self) -> i64 {
        self.cells.approx_error()
    }

    /// Starts at 0 anew, and returns what the counter was at.
    ///
    /// Nothing is zeroed: what the rows add up to becomes the base that later sums are counted from. So an add that is
    /// made meanwhile is either in what is returned, or in what comes after, and never in neither or both; and all
    /// that ever was returned, together with [`sum`](Self::sum), is all that was added. That holds for resets
    /// beside each other, too.
    pub fn reset(&self) -> i64 {
        self.cells.reset()
    }

    /// How adds of registered threads are made.
    pub fn engine(&self) -> Engine {
        self.area.engine()
    }

    /// Bytes that this counter takes, of which those of CPUs that never add stay untouched.
    pub fn bytes(&self) -> usize {
        self.area.bytes()
    }
}

impl Default for PerCpuCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PerCpuCounter {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("PerCpuCounter").field("sum", &self.sum()).field("engine", &self.engine()).finish()
    }
}

impl PerCpuCounters {
    /// `len` counters at 0.
    ///
    /// # Panics
    /// Where the bytes that they take are more than an address can tell.
    pub fn new(len: usize) -> Self {
        Self { area: Area::new(len, Registration::of_process()), len }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The counter at `index`, where there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Counter<'_>> {
        (index < self.len).then(|| Counter { cells: self.area.cells(index), of: PhantomData })
    }

    /// All counters, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Counter<'_>> {
        (0..self.len).map(|index| Counter { cells: self.area.cells(index), of: PhantomData })
    }

    /// Adds `n` to the counter at `index`, as [`PerCpuCounter::add_local`] does.
    ///
    /// # Panics
    /// Where there is no counter of that index.
    #[inline]
    pub fn add_local(&self, index: usize, n: i64) {
        assert!(index < self.len, "counter {index} of {}", self.len);
        self.area.cells(index).add(n);
    }

    /// Each counter's [`sum`](PerCpuCounter::sum), in order.
    pub fn sums(&self) -> Vec<i64> {
        self.iter().map(Counter::sum).collect()
    }

    /// How adds of registered threads are made.
    pub fn engine(&self) -> Engine {
        self.area.engine()
    }

    /// Bytes that all counters take together.
    pub fn bytes(&self) -> usize {
        self.area.bytes()
    }
}

impl fmt::Debug for PerCpuCounters {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("PerCpuCounters").field("sums", &self.sums()).field("engine", &self.engine()).finish()
    }
}

impl Counter<'_> {
    /// See [`PerCpuCounter::add_local`].
    #[inline]
    pub fn add_local(self, n: i64) {
        self.cells.add(n);
    }

    /// See [`PerCpuCounter::sub_local`].
    #[inline]
    pub fn sub_local(self, n: i64) {
        self.cells.add(n.wrapping_neg());
    }

    /// See [`PerCpuCounter::sum`].
    pub fn sum(self) -> i64 {
        self.cells.sum()
    }

    /// See [`PerCpuCounter::approx`].
    pub fn approx(self) -> i64 {
        self.cells.approx()
    }

    /// See [`PerCpuCounter::approx_error`].
    pub fn approx_error(self) -> i64 {
        self.cells.approx_error()
    }

    /// See [`PerCpuCounter::reset`].
    pub fn reset(self) -> i64 {
        self.cells.reset()
    }
}

impl fmt::Debug for Counter<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Counter").field("sum", &self.sum()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::PerCpuCounter;

    /// A counter's cells were addresses into a box that moved with it, which Rust's rules of aliasing forbid: Miri saw
    /// it.
    #[test]
    fn a_counter_that_is_moved_counts_on() {
        let counter = PerCpuCounter::new();
        counter.add_local(1);
        let moved = Box::new(counter);
        moved.add_local(1);
        assert_eq!((moved.reset(), moved.sum()), (2, 0));
    }
}

//! The counters, which are the public interface.

use crate::{
    area::{Area, Cells},
    engine::{Engine, Registration},
};
use std::{fmt, marker::PhantomData, ops::Range, sync::OnceLock};

/// A counter for frequent adds by many threads and occasional reads.
///
/// It takes 128 bytes for each possible CPU and a few more, allocated at its first use. For many counters,
/// [`PerCpuCounters`] packs them. The type is meant to be shared: in a `static`, in an `Arc`, or borrowed by
/// scoped threads.
///
/// ```
/// use manycore_percpu::PerCpuCounter;
///
/// static BYTES: PerCpuCounter = PerCpuCounter::new();
///
/// BYTES.add_local(1500);
/// BYTES.sub_local(500);
/// assert_eq!(BYTES.sum(), 1000);
/// ```
pub struct PerCpuCounter {
    rows: OnceLock<Rows>,
    /// Whether to use atomics even if restartable sequences are available.
    atomics: bool,
}

/// The memory of one counter.
struct Rows {
    cells: Cells,
    area: Area,
}

/// Counters that are adjacent in each CPU's row: 1,000 of them take 8,064 bytes for each CPU instead of
/// 128,000.
///
/// ```
/// use manycore_percpu::PerCpuCounters;
///
/// static BY_STATUS: PerCpuCounters = PerCpuCounters::new(600);
///
/// BY_STATUS.get(404).unwrap().add_local(1);
/// BY_STATUS.add_local(200, 3);
/// assert_eq!(BY_STATUS.sums()[404], 1);
/// assert_eq!(BY_STATUS.iter().map(|counter| counter.sum()).max(), Some(3));
/// ```
pub struct PerCpuCounters {
    area: OnceLock<Area>,
    len: usize,
}

/// One of [`PerCpuCounters`]. Keep it if adds are frequent: they do not check the index again.
#[derive(Clone, Copy)]
pub struct Counter<'a> {
    cells: Cells,
    of: PhantomData<&'a Area>,
}

impl PerCpuCounter {
    /// Creates a counter with value 0.
    ///
    /// Its memory is allocated by its first use. Use it once, for example with [`sum`](Self::sum), before a
    /// signal handler adds to it.
    pub const fn new() -> Self {
        Self { rows: OnceLock::new(), atomics: false }
    }

    /// Creates a counter with value 0 that uses [`Engine::Atomics`], for comparisons.
    pub const fn with_atomics() -> Self {
        Self { rows: OnceLock::new(), atomics: true }
    }

    #[inline]
    fn rows(&self) -> &Rows {
        self.rows.get_or_init(|| Rows::allocated(self.atomics))
    }

    #[inline]
    fn cells(&self) -> &Cells {
        &self.rows().cells
    }

    /// Adds `n`: a plain load, add and store in the cache line of this CPU. The count wraps modulo 2⁶⁴.
    ///
    /// It never waits and never fails. It is async-signal-safe after the first use of the counter.
    #[inline]
    pub fn add_local(&self, n: i64) {
        self.cells().add(n);
    }

    /// Subtracts `n`, as [`add_local`](Self::add_local) adds.
    #[inline]
    pub fn sub_local(&self, n: i64) {
        self.cells().add(n.wrapping_neg());
    }

    /// Returns the sum of all adds since the counter was created or [`reset`](Self::reset). Reads the line of
    /// each CPU.
    ///
    /// The sum includes every add that happened before the call (by this thread, or by one that has been
    /// joined or synchronised with since), and some of the concurrent adds. So it is exact if there are no
    /// concurrent adds. If all amounts are positive and there are no resets, the sums that one thread reads
    /// never decrease.
    pub fn sum(&self) -> i64 {
        self.cells().sum()
    }

    /// Returns an approximation of the [`sum`](Self::sum). Reads one shared value, however many CPUs there
    /// are.
    ///
    /// The error is at most [`approx_error`](Self::approx_error) if no add is in progress. Each thread that
    /// is in the middle of adding `n` may increase it by 1,024 + |n|.
    ///
    /// *Proof.* Let a row (of a CPU, or a shard) have the value v. An add takes the row from v to v + n, and
    /// then adds p(v + n) − p(v) to the shared value, where p rounds to the nearest multiple of 1,024.
    /// Completed adds thus leave the shared value at the sum of p(v) over all rows, whatever their order, and
    /// |v − p(v)| ≤ 512. So the shared value is within 512 × rows of the sum. An add between its two steps
    /// misses p(v + n) − p(v), which is at most 1,024 + |n| in size. A reset subtracts the same number from
    /// both; during a reset, the value approximates the count as if that reset had not happened yet. ∎
    ///
    /// One add in 1,024 crosses an odd multiple of 512 and is followed by an atomic add to the shared value.
    /// A row whose value crosses such a multiple back and forth with each add pays for it each time: the
    /// count stays correct, at the cost of a shared counter.
    pub fn approx(&self) -> i64 {
        self.cells().approx()
    }

    /// Returns the largest difference of [`approx`](Self::approx) from the sum if no add is in progress: 512
    /// for each row. There is one row for each possible CPU and a few more.
    pub fn approx_error(&self) -> i64 {
        self.cells().approx_error()
    }

    /// Resets the counter to 0, and returns its value before.
    ///
    /// No memory is zeroed: the sum of the rows becomes the base from which later sums are counted. So a
    /// concurrent add is counted exactly once, either in the returned value or after it. All returned values
    /// and the final [`sum`](Self::sum) together are the sum of all adds. That holds for concurrent resets as
    /// well.
    pub fn reset(&self) -> i64 {
        self.cells().reset()
    }

    /// Returns the engine that adds of registered threads use.
    pub fn engine(&self) -> Engine {
        self.rows().area.engine()
    }

    /// Returns the size of this counter in bytes. Memory for CPUs that never add is not touched.
    pub fn bytes(&self) -> usize {
        self.rows().area.bytes()
    }
}

impl Rows {
    #[cold]
    fn allocated(atomics: bool) -> Self {
        let registration = if atomics { Registration::NONE } else { Registration::of_process() };
        let area = Area::new(1, registration);
        Self { cells: area.cells(0), area }
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
    /// Creates `len` counters with value 0.
    ///
    /// Their memory is allocated by their first use, which panics if the size in bytes exceeds `isize::MAX`.
    pub const fn new(len: usize) -> Self {
        Self { area: OnceLock::new(), len }
    }

    #[inline]
    fn area(&self) -> &Area {
        self.area.get_or_init(|| Area::new(self.len, Registration::of_process()))
    }

    /// Returns the number of counters.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no counters.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the counter at `index`, or `None` if it is out of range.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Counter<'_>> {
        (index < self.len).then(|| Counter { cells: self.area().cells(index), of: PhantomData })
    }

    /// Returns an iterator over all counters, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { counters: self, indices: 0..self.len }
    }

    /// Adds `n` to the counter at `index`, as [`PerCpuCounter::add_local`] does.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn add_local(&self, index: usize, n: i64) {
        assert!(index < self.len, "counter {index} of {}", self.len);
        self.area().cells(index).add(n);
    }

    /// Subtracts `n` from the counter at `index`, as [`PerCpuCounter::sub_local`] does.
    ///
    /// # Panics
    /// If `index` is out of range.
    #[inline]
    pub fn sub_local(&self, index: usize, n: i64) {
        self.add_local(index, n.wrapping_neg());
    }

    /// Returns each counter's [`sum`](PerCpuCounter::sum), in order.
    pub fn sums(&self) -> Vec<i64> {
        self.iter().map(Counter::sum).collect()
    }

    /// Returns the engine that adds of registered threads use.
    pub fn engine(&self) -> Engine {
        self.area().engine()
    }

    /// Returns the size of all counters in bytes.
    pub fn bytes(&self) -> usize {
        self.area().bytes()
    }
}

impl<'a> IntoIterator for &'a PerCpuCounters {
    type Item = Counter<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The counters of [`PerCpuCounters::iter`], in order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    counters: &'a PerCpuCounters,
    indices: Range<usize>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Counter<'a>;

    fn next(&mut self) -> Option<Counter<'a>> {
        self.counters.get(self.indices.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.counters.get(self.indices.next_back()?)
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl std::iter::FusedIterator for Iter<'_> {}

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

    /// Regression test: a counter's cells pointed into a box that was moved with the counter, which Rust's
    /// aliasing rules forbid. Miri found it.
    #[test]
    fn a_counter_that_is_moved_counts_on() {
        let counter = PerCpuCounter::new();
        counter.add_local(1);
        let moved = Box::new(counter);
        moved.add_local(1);
        assert_eq!((moved.reset(), moved.sum()), (2, 0));
    }
}

//! The counters: what users see.

use crate::{
    area::{Area, Cells},
    engine::{Engine, Registration},
};
use std::{fmt, marker::PhantomData, ops::Range, sync::OnceLock};

/// A counter that many threads add to, and that is read now and then.
///
/// It takes 128 bytes for each possible CPU and a few more, allocated at its first use; where there are many
/// counters, [`PerCpuCounters`] packs them. The type is meant to be shared: in a `static`, in an `Arc`, or borrowed by
/// scoped threads.
///
/// ```
/// use crate::PerCpuCounter;
///
/// static BYTES: PerCpuCounter = PerCpuCounter::new();
///
/// BYTES.add_local(1500);
/// BYTES.sub_local(500);
/// assert_eq!(BYTES.sum(), 1000);
/// ```
pub struct PerCpuCounter {
    rows: OnceLock<Rows>,
    /// Whether restartable sequences are left unused.
    atomics: bool,
}

/// The memory of one counter.
struct Rows {
    cells: Cells,
    area: Area,
}

/// Counters that lie side by side in each CPU's rows: 1,000 of them take 8,064 bytes for each CPU and not 128,000.
///
/// ```
/// use crate::PerCpuCounters;
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

/// One of [`PerCpuCounters`]. Keep it where adds are frequent: they do not check the index again.
#[derive(Clone, Copy)]
pub struct Counter<'a> {
    cells: Cells,
    of: PhantomData<&'a Area>,
}

impl PerCpuCounter {
    /// A counter at 0.
    ///
    /// Its memory is allocated by the first use. Use it once, by [`sum`](Self::sum) for example, before a signal
    /// handler adds to it.
    pub const fn new() -> Self {
        Self { rows: OnceLock::new(), atomics: false }
    }

    /// A counter at 0 with [`Engine::Atomics`], to compare with.
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
    /// It never waits and never fails, and it is async-signal-safe once the counter was used.
    #[inline]
    pub fn add_local(&self, n: i64) {
        self.cells().add(n);
    }

    /// Subtracts `n`, as [`add_local`](Self::add_local) adds.
    #[inline]
    pub fn sub_local(&self, n: i64) {
        self.cells().add(n.wrapping_neg());
    }

    /// What was added since the counter was made or [`reset`](Self::reset), by reading the line of each CPU.
    ///
    /// It has every add that happened before the call (one by this thread, or by one that was joined or synchronised
    /// with since), and of those that are made meanwhile some. So it is exact when nobody adds. Where all amounts
    /// are positive and nobody resets, sums that one thread reads never shrink.
    pub fn sum(&self) -> i64 {
        self.cells().sum()
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
        self.cells().approx()
    }

    /// The most that [`approx`](Self::approx) differs from the sum when nobody is in the middle of an add: 512 for
    /// each row, of which there is one for each possible CPU and a few more.
    pub fn approx_error(&self) -> i64 {
        self.cells().approx_error()
    }

    /// Starts at 0 anew, and returns what the counter was at.
    ///
    /// Nothing is zeroed: what the rows add up to becomes the base that later sums are counted from. So an add that is
    /// made meanwhile is either in what is returned, or in what comes after, and never in neither or both; and all
    /// that ever was returned, together with [`sum`](Self::sum), is all that was added. That holds for resets
    /// beside each other, too.
    pub fn reset(&self) -> i64 {
        self.cells().reset()
    }

    /// How adds of registered threads are made.
    pub fn engine(&self) -> Engine {
        self.rows().area.engine()
    }

    /// Bytes that this counter takes. Those of CPUs that never add are not touched.
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
    /// `len` counters at 0.
    ///
    /// Their memory is allocated by the first use. That use panics where the size in bytes exceeds `isize::MAX`.
    pub const fn new(len: usize) -> Self {
        Self { area: OnceLock::new(), len }
    }

    #[inline]
    fn area(&self) -> &Area {
        self.area.get_or_init(|| Area::new(self.len, Registration::of_process()))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The counter at `index`, where there is one.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Counter<'_>> {
        (index < self.len).then(|| Counter { cells: self.area().cells(index), of: PhantomData })
    }

    /// All counters, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { counters: self, indices: 0..self.len }
    }

    /// Adds `n` to the counter at `index`, as [`PerCpuCounter::add_local`] does.
    ///
    /// # Panics
    /// Where there is no counter of that index.
    #[inline]
    pub fn add_local(&self, index: usize, n: i64) {
        assert!(index < self.len, "counter {index} of {}", self.len);
        self.area().cells(index).add(n);
    }

    /// Subtracts `n` from the counter at `index`, as [`PerCpuCounter::sub_local`] does.
    ///
    /// # Panics
    /// Where there is no counter of that index.
    #[inline]
    pub fn sub_local(&self, index: usize, n: i64) {
        self.add_local(index, n.wrapping_neg());
    }

    /// Each counter's [`sum`](PerCpuCounter::sum), in order.
    pub fn sums(&self) -> Vec<i64> {
        self.iter().map(Counter::sum).collect()
    }

    /// How adds of registered threads are made.
    pub fn engine(&self) -> Engine {
        self.area().engine()
    }

    /// Bytes that all counters take together.
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

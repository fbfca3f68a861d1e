//! Lines that threads share: their owner, the number of their transfers, and how many of these are due to
//! false sharing.
//!
//! A line is *owned* as in a coherent cache: by one thread that wrote it, or by all threads that have read it
//! since. A thread owns it for an **ownership period**: from the transfer that brought the line until a write
//! of another thread takes it away. If a thread's own read brought the line and is directly followed by its write (`lock
//! add`, `counter += 1`), both belong to the same period.
//!
//! Each thread has a record, a [`LineThread`], at the line. It contains pairs of masks with a bit for each byte,
//! one mask for accessed bytes and one for written bytes:
//! - of its *ownership* period, and the part of it that is *unpublished*: not yet passed to the other records;
//! - *pending*: accesses of other threads since its ownership period began;
//! - *remote*: what was pending when its ownership period began.
//!
//! At the end of an ownership period, its transfer is classified: it is false sharing (`false_transfers`) if the period
//! accessed no byte that is remote and written, and wrote no byte that is remote and accessed.
//!
//! Everything except the fast path happens under a lock in the line's state word. The lock is held for some
//! dozens of instructions, which do not block. Emulated signals are delivered between instructions, so no
//! thread can exit while it holds the lock.

use crate::shadow::{
    counts::{Count, Counts, key},
    line_state::{CLEAN, DIRTY, LOCK, LineState, SHARED, TIMES, UNOWNED, lock, unlock},
    marks::{AccessMasks, Bits, bits, overlap},
    region::{Region, Slot},
    sampling_windows,
};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Maximum number of records of threads of a line; those of threads that have exited are reused.
pub const MAX_LINE_THREADS: u32 = 64;
/// Maximum number of blocks of [`Counts`] of one thread at one line.
const MAX_COUNT_BLOCKS: u32 = 64;
/// A followed line.
#[repr(C, align(64))]
pub struct TrackedLine {
    /// Owner and lock of the line; see `LineState`.
    pub state: AtomicU64,
    /// Number of transfers.
    pub transfers: AtomicU64,
    /// Number of transfers that were classified as false sharing.
    pub false_transfers: AtomicU64,
    /// Address of its first byte.
    pub address: AtomicU64,
    /// Index of the thread record that was added last.
    pub threads: AtomicU32,
    /// Number of thread records.
    pub thread_count: AtomicU32,
    /// Index of the heap block that was added last.
    pub blocks: AtomicU32,
    /// Index of the layout.
    pub layout: AtomicU32,
    /// Index of the line that was added to the process before this one.
    pub next: AtomicU32,
    /// Number of accesses that are in no [`Counts`] because there was no space.
    pub uncounted: AtomicU32,
}

/// The record of one thread at a line.
#[repr(C, align(64))]
pub struct LineThread {
    /// Index of the thread.
    pub thread: AtomicU32,
    /// Index of the thread record that was added before this one.
    pub next: AtomicU32,
    /// Index of its block of counts that was added last.
    pub counts: AtomicU32,
    /// The sequence number of the line when the thread last owned it.
    seen: AtomicU32,
    unpublished: AccessMasks,
    ownership: AccessMasks,
    pending: AccessMasks,
    remote: AccessMasks,
    /// Number of transfers that its ownership period was counted as and that are not classified yet.
    unclassified: AtomicU32,
}

/// The part of an access that falls on one line.
#[derive(Clone, Copy, Debug)]
pub struct LinePart {
    /// Index of the thread.
    pub thread: u32,
    /// Address of the instruction.
    pub code: u64,
    /// Offset of the first byte on the line.
    pub offset: u32,
    /// Number of bytes on the line.
    pub bytes: u32,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
}

/// Access to the lines of one process.
#[derive(Clone, Copy)]
pub struct LineTable<'a> {
    /// The region.
    pub region: &'a Region,
    /// The slot of the process.
    pub slot: &'a Slot,
}

impl<'a> LineTable<'a> {
    /// Creates a followed line; the caller publishes it. Returns its index.
    pub fn line(self, address: u64, layout: u32) -> Option<u32> {
        let index = self.region.allocate::<TrackedLine>()?;
        let line = self.region.get::<TrackedLine>(index)?;
        line.address.store(address, Relaxed);
        line.layout.store(layout, Relaxed);
        Some(index)
    }

    /// Adds line `index` to the list of the process.
    pub fn publish(self, index: u32) {
        let Some(line) = self.region.get::<TrackedLine>(index) else { return };
        let mut head = self.slot.lines.load(Relaxed);
        loop {
            line.next.store(head, Relaxed);
            match self.slot.lines.compare_exchange_weak(head, index, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Returns the index of the record of `thread` at `line`, and creates it if needed; `None` if there is no space.
    #[cold]
    pub fn line_thread(self, line: &TrackedLine, thread: u32) -> Option<u32> {
        let find = |wanted: &dyn Fn(&LineThread) -> bool| {
            line_threads(self.region, line).find(|(_, record)| wanted(record)).map(|(index, _)| index)
        };
        if let Some(index) = find(&|record| record.thread.load(Relaxed) == thread) {
            return Some(index);
        }
        let state = lock(line)?;
        let ended = |record: &LineThread| self.has_ended(record.thread.load(Relaxed));
        let reused = find(&ended);
        let full = line.thread_count.load(Relaxed) >= MAX_LINE_THREADS;
        let index = reused.or_else(|| if full { None } else { self.region.allocate::<LineThread>() });
        if let Some((index, record)) =
            index.and_then(|index| Some((index, self.region.get::<LineThread>(index)?)))
        {
            self.assign_thread(line, record, thread, state);
            if reused.is_none() {
                record.next.store(line.threads.load(Relaxed), Relaxed);
                line.threads.store(index, Release);
                line.thread_count.fetch_add(1, Relaxed);
            }
        }
        unlock(line, state);
        index
    }

    /// Assigns `record` to `thread`, which has not yet accessed `line`.
    fn assign_thread(self, line: &TrackedLine, record: &LineThread, thread: u32, state: LineState) {
        classify(line, record);
        // The last accesses of the thread that has exited have to reach the other records.
        publish_accesses(self.region, line);
        let (mut touched, mut written) = (record.ownership.touched.bits(), record.ownership.written.bits());
        for (_, other) in line_threads(self.region, line) {
            for (all, bits) in touched.iter_mut().zip(other.ownership.touched.bits()) {
                *all |= bits;
            }
            for (all, bits) in written.iter_mut().zip(other.ownership.written.bits()) {
                *all |= bits;
            }
        }
        record.ownership.set([0; 2], [0; 2]);
        record.pending.set(touched, written);
        // This number never equals the current one. A line that no thread has written has sequence 0.
        record.seen.store(state.sequence().wrapping_sub(1), Relaxed);
        record.thread.store(thread, Relaxed);
    }

    /// Records an access to `line` by the thread of this record; returns the counter of the access.
    pub fn access(self, line: &TrackedLine, record: &LineThread, access: &LinePart) -> Option<&'a Count> {
        let mut state = LineState(line.state.load(Acquire));
        let has = record.seen.load(Relaxed) == state.sequence() && state.ownership() != UNOWNED;
        let alone = state.thread() == access.thread && state.ownership() == DIRTY;
        if !has || access.writes && !alone {
            let weight = sampling_windows::weight(line.transfers.load(Relaxed));
            if weight > 0 || state.ownership() == UNOWNED {
                state = self.transfer(line, record, access, weight);
            }
        }
        let touched = bits(access.offset, access.bytes);
        let written = if access.writes { touched } else { [0; 2] };
        record.ownership.add(touched, written);
        record.unpublished.add(touched, written);
        let count = self.count(record, access);
        let Some(count) = count else {
            line.uncounted.fetch_add(1, Relaxed);
            return None;
        };
        count.count(access.reads, access.writes);
        count.known[usize::from(access.writes)].store(state.0 & !LOCK, Relaxed);
        Some(count)
    }

    /// Transfers `line` to the thread of `record`, which counts as `weight` transfers.
    #[cold]
    fn transfer(self, line: &TrackedLine, record: &LineThread, access: &LinePart, weight: u32) -> LineState {
        let Some(state) = lock(line) else { return LineState(LOCK) };
        let (sequence, how, thread) = (state.sequence(), state.ownership(), access.thread);
        let has = record.seen.load(Relaxed) == sequence && how != UNOWNED;
        let alone = state.thread() == thread && matches!(how, CLEAN | DIRTY);
        publish_accesses(self.region, line);
        let (next, seen) = match (access.writes, how) {
            // The line was reset, or the thread owned it all the time.
            (true, DIRTY) if alone => (state, sequence),
            (true, _) => (LineState::new(sequence.wrapping_add(1), thread, DIRTY), sequence.wrapping_add(1)),
            (false, UNOWNED) => (LineState::new(sequence, thread, CLEAN), sequence),
            (false, _) if has => (state, sequence),
            (false, _) => (LineState::new(sequence, thread, SHARED), sequence),
        };
        if !(has && (alone || !access.writes)) {
            // A transfer is counted if other threads owned the line, and the new owner writes it or finds
            // data that they wrote.
            let taken = how != UNOWNED
                && (access.writes || sequence != 0)
                && self.has_other_owner(line, sequence, thread);
            let continues = has && state.thread() == thread;
            if !continues {
                classify(line, record);
                record.remote.set([0; 2], [0; 2]);
                record.ownership.set([0; 2], [0; 2]);
            }
            record.remote.add(record.pending.touched.take(), record.pending.written.take());
            if taken && !(continues && record.unclassified.load(Relaxed) != 0) {
                let transfers = line.transfers.load(Relaxed) + u64::from(weight);
                line.transfers.store(transfers, Relaxed);
                record.unclassified.store(weight, Relaxed);
                if transfers == sampling_windows::SAMPLE_AFTER {
                    self.slot.sampled.store(1, Relaxed);
                }
            }
        }
        record.seen.store(seen, Relaxed);
        unlock(line, LineState(next.0 & !TIMES | state.0 & TIMES))
    }

    /// Returns whether a running thread other than `thread` owns `line`. A thread that has exited will not
    /// access it again.
    fn has_other_owner(self, line: &TrackedLine, sequence: u32, thread: u32) -> bool {
        line_threads(self.region, line).any(|(_, record)| {
            let other = record.thread.load(Relaxed);
            other != thread && record.seen.load(Relaxed) == sequence && !self.has_ended(other)
        })
    }

    fn has_ended(self, thread: u32) -> bool {
        self.slot.thread.get(thread as usize).is_some_and(|thread| thread.ended.load(Relaxed) != 0)
    }

    /// Returns the counter for accesses of this kind; `None` if there is no space.
    fn count(self, record: &LineThread, access: &LinePart) -> Option<&'a Count> {
        let key = key(access);
        let mut index = record.counts.load(Relaxed);
        let mut blocks = 0;
        while let Some(counts) = self.region.get::<Counts>(index) {
            if counts.thread.load(Relaxed) != access.thread {
                break;
            }
            for count in &counts.kinds {
                match count.key.load(Relaxed) {
                    0 => count.key.store(key, Relaxed),
                    known if known == key => {}
                    _ => continue,
                }
                return Some(count);
            }
            blocks += 1;
            index = counts.next.load(Relaxed);
        }
        if blocks >= MAX_COUNT_BLOCKS {
            return None;
        }
        let index = self.region.allocate::<Counts>()?;
        let counts = self.region.get::<Counts>(index)?;
        counts.thread.store(access.thread, Relaxed);
        counts.kinds[0].key.store(key, Relaxed);
        counts.next.store(record.counts.load(Relaxed), Relaxed);
        record.counts.store(index, Release);
        Some(&counts.kinds[0])
    }

    /// Records that bytes of `line` are reused for other data: no thread owns the line, and earlier accesses
    /// to them do not count.
    pub fn reset_reused(self, line: &TrackedLine, renewed: Bits) {
        let Some(state) = lock(line) else { return };
        publish_accesses(self.region, line);
        for (_, record) in line_threads(self.region, line) {
            classify(line, record);
            record.ownership.set([0; 2], [0; 2]);
            for marks in [&record.pending, &record.remote] {
                marks.remove(renewed);
            }
        }
        let next = LineState::new(state.sequence().wrapping_add(1), 0, UNOWNED);
        unlock(line, LineState(next.0 | state.0 & TIMES));
    }
}

/// Returns the thread records of a line with their indexes.
pub fn line_threads<'a>(
    region: &'a Region,
    line: &TrackedLine,
) -> impl Iterator<Item = (u32, &'a LineThread)> + use<'a> {
    let mut index = line.threads.load(Acquire);
    let mut left = MAX_LINE_THREADS;
    std::iter::from_fn(move || {
        let record = region.get::<LineThread>(index).filter(|_| left > 0)?;
        let this = index;
        index = record.next.load(Relaxed);
        left -= 1;
        Some((this, record))
    })
}

/// Passes the unpublished accesses of each record to all other records.
fn publish_accesses(region: &Region, line: &TrackedLine) {
    for (from, record) in line_threads(region, line) {
        let (touched, written) = (record.unpublished.touched.take(), record.unpublished.written.take());
        if touched != [0; 2] {
            let others = line_threads(region, line).filter(|(to, _)| *to != from);
            others.for_each(|(_, other)| other.pending.add(touched, written));
        }
    }
}

/// Classifies the transfer of the ownership period of `record`, if it is not classified yet.
fn classify(line: &TrackedLine, record: &LineThread) {
    let transfers = u64::from(record.unclassified.load(Relaxed));
    if transfers == 0 {
        return;
    }
    record.unclassified.store(0, Relaxed);
    if is_false_sharing(record) {
        line.false_transfers.store(line.false_transfers.load(Relaxed) + transfers, Relaxed);
    }
}

/// Returns whether the ownership period of `record` is false sharing so far.
fn is_false_sharing(record: &LineThread) -> bool {
    !overlap(record.ownership.touched.bits(), record.remote.written.bits())
        && !overlap(record.ownership.written.bits(), record.remote.touched.bits())
}

/// Returns the number of false-sharing transfers of a line that is not accessed any more, including those of ownership
/// periods that have not ended.
pub fn false_transfers(region: &Region, line: &TrackedLine) -> u64 {
    let open = line_threads(region, line).filter(|(_, record)| is_false_sharing(record));
    let open = open.map(|(_, record)| u64::from(record.unclassified.load(Relaxed))).sum();
    line.false_transfers.load(Relaxed).saturating_add(open)
}

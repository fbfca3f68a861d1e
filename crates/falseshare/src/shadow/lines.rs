//! Lines that threads share: their owner, the number of their transfers, and how many of these are due to
//! false sharing.
//!
//! A line is *owned* as in a coherent cache: by one thread that wrote it, or by all threads that have read it
//! since. A thread owns it for a **tenure**: from the transfer that brought the line until a write of another
//! thread takes it away. If a thread's own read brought the line and is directly followed by its write (`lock
//! add`, `counter += 1`), both belong to the same tenure.
//!
//! Each thread has a record, its **seat**, at the line. It contains pairs of masks with a bit for each byte,
//! one mask for accessed bytes and one for written bytes:
//! - of its *tenure*, and the part of it that is *fresh*: not yet passed to the other seats;
//! - *pending*: accesses of other threads since its tenure began;
//! - *foreign*: what was pending when its tenure began.
//!
//! At the end of a tenure, its transfer is classified: it is false sharing (`needless`) if the tenure
//! accessed no byte that is foreign and written, and wrote no byte that is foreign and accessed.
//!
//! Everything except the fast path happens under a lock in the line's state word. The lock is held for some
//! dozens of instructions, which do not block. Emulated signals are delivered between instructions, so no
//! thread can exit while it holds the lock.

use crate::shadow::{
    counts::{Count, Counts, key},
    marks::{Bits, Marks, bits, meet},
    region::{Region, Slot},
    sys, windows,
};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Most seats of a line; seats of threads that have exited are reused.
pub const MOST_SEATS: u32 = 64;
/// Most blocks of [`Counts`] of one thread at one line.
const MOST_COUNTS: u32 = 64;
/// A followed line.
#[repr(C, align(64))]
pub struct Line {
    /// Owner and lock of the line; see `State`.
    pub state: AtomicU64,
    /// Number of transfers.
    pub hand_overs: AtomicU64,
    /// Number of transfers that were classified as false sharing.
    pub needless: AtomicU64,
    /// Address of its first byte.
    pub address: AtomicU64,
    /// Index of the seat that was added last.
    pub seats: AtomicU32,
    /// Number of seats.
    pub seat_count: AtomicU32,
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
pub struct Seat {
    /// Index of the thread.
    pub thread: AtomicU32,
    /// Index of the seat that was added before this one.
    pub next: AtomicU32,
    /// Index of its block of counts that was added last.
    pub counts: AtomicU32,
    /// The sequence number of the line when the thread last owned it.
    seen: AtomicU32,
    fresh: Marks,
    tenure: Marks,
    pending: Marks,
    foreign: Marks,
    /// Number of transfers that its tenure was counted as and that are not classified yet.
    open: AtomicU32,
}

/// The part of an access that falls on one line.
#[derive(Clone, Copy, Debug)]
pub struct Access {
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

/// State of a line: `sequence << 32 | times << 15 | thread << 3 | how << 1 | lock`. The sequence number
/// counts changes of the writer. `times` counts how often the lock was taken, so that an unchanged state
/// means that nothing happened in between. `thread` is the thread that got the line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

const LOCK: u64 = 1;
const TIMES: u64 = 0xffff_8000;
const ONE_TIME: u64 = 0x8000;
/// Kinds of ownership of a line.
const NOBODY: u64 = 0;
const CLEAN: u64 = 1;
const DIRTY: u64 = 2;
const SHARED: u64 = 3;

impl State {
    fn new(sequence: u32, thread: u32, how: u64) -> Self {
        Self(u64::from(sequence) << 32 | u64::from(thread) << 3 | how << 1)
    }

    fn sequence(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn thread(self) -> u32 {
        (self.0 >> 3) as u32 & 0xfff
    }

    fn how(self) -> u64 {
        self.0 >> 1 & 3
    }
}

/// Access to the lines of one process.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    /// Returns the region.
    pub region: &'a Region,
    /// The slot of the process.
    pub slot: &'a Slot,
}

impl<'a> Table<'a> {
    /// Creates a followed line; the caller publishes it. Returns its index.
    pub fn line(self, address: u64, layout: u32) -> Option<u32> {
        let index = self.region.allocate::<Line>()?;
        let line = self.region.get::<Line>(index)?;
        line.address.store(address, Relaxed);
        line.layout.store(layout, Relaxed);
        Some(index)
    }

    /// Adds line `index` to the list of the process.
    pub fn publish(self, index: u32) {
        let Some(line) = self.region.get::<Line>(index) else { return };
        let mut head = self.slot.lines.load(Relaxed);
        loop {
            line.next.store(head, Relaxed);
            match self.slot.lines.compare_exchange_weak(head, index, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Returns the index of the seat of `thread` at `line`, and creates it if needed; `None` if there is no space.
    #[cold]
    pub fn seat(self, line: &Line, thread: u32) -> Option<u32> {
        let find = |wanted: &dyn Fn(&Seat) -> bool| {
            seats(self.region, line).find(|(_, seat)| wanted(seat)).map(|(index, _)| index)
        };
        if let Some(index) = find(&|seat| seat.thread.load(Relaxed) == thread) {
            return Some(index);
        }
        let state = lock(line)?;
        let ended = |seat: &Seat| self.has_ended(seat.thread.load(Relaxed));
        let reused = find(&ended);
        let full = line.seat_count.load(Relaxed) >= MOST_SEATS;
        let index = reused.or_else(|| if full { None } else { self.region.allocate::<Seat>() });
        if let Some((index, seat)) = index.and_then(|index| Some((index, self.region.get::<Seat>(index)?))) {
            self.sit(line, seat, thread, state);
            if reused.is_none() {
                seat.next.store(line.seats.load(Relaxed), Relaxed);
                line.seats.store(index, Release);
                line.seat_count.fetch_add(1, Relaxed);
            }
        }
        unlock(line, state);
        index
    }

    /// Gives `seat` to `thread`, which has never accessed `line`.
    fn sit(self, line: &Line, seat: &Seat, thread: u32, state: State) {
        judge(line, seat);
        // The last accesses of the thread that has exited have to reach the other seats.
        deliver(self.region, line);
        let (mut touched, mut written) = (seat.tenure.touched.bits(), seat.tenure.written.bits());
        for (_, other) in seats(self.region, line) {
            for (all, bits) in touched.iter_mut().zip(other.tenure.touched.bits()) {
                *all |= bits;
            }
            for (all, bits) in written.iter_mut().zip(other.tenure.written.bits()) {
                *all |= bits;
            }
        }
        seat.tenure.set([0; 2], [0; 2]);
        seat.pending.set(touched, written);
        // This number never equals the current one. A line that no thread has written has sequence 0.
        seat.seen.store(state.sequence().wrapping_sub(1), Relaxed);
        seat.thread.store(thread, Relaxed);
    }

    /// Records an access to `line` by the thread of this seat; returns the counter of the access.
    pub fn access(self, line: &Line, seat: &Seat, access: &Access) -> Option<&'a Count> {
        let mut state = State(line.state.load(Acquire));
        let has = seat.seen.load(Relaxed) == state.sequence() && state.how() != NOBODY;
        let alone = state.thread() == access.thread && state.how() == DIRTY;
        if !has || access.writes && !alone {
            let weight = windows::weight(line.hand_overs.load(Relaxed));
            if weight > 0 || state.how() == NOBODY {
                state = self.hand_over(line, seat, access, weight);
            }
        }
        let touched = bits(access.offset, access.bytes);
        let written = if access.writes { touched } else { [0; 2] };
        seat.tenure.add(touched, written);
        seat.fresh.add(touched, written);
        let count = self.count(seat, access);
        let Some(count) = count else {
            line.uncounted.fetch_add(1, Relaxed);
            return None;
        };
        count.count(access.reads, access.writes);
        count.known[usize::from(access.writes)].store(state.0 & !LOCK, Relaxed);
        Some(count)
    }

    /// Transfers `line` to the thread of `seat`, which counts as `weight` transfers.
    #[cold]
    fn hand_over(self, line: &Line, seat: &Seat, access: &Access, weight: u32) -> State {
        let Some(state) = lock(line) else { return State(LOCK) };
        let (sequence, how, thread) = (state.sequence(), state.how(), access.thread);
        let has = seat.seen.load(Relaxed) == sequence && how != NOBODY;
        let alone = state.thread() == thread && matches!(how, CLEAN | DIRTY);
        deliver(self.region, line);
        let (next, seen) = match (access.writes, how) {
            // The line was reset, or the thread owned it all the time.
            (true, DIRTY) if alone => (state, sequence),
            (true, _) => (State::new(sequence.wrapping_add(1), thread, DIRTY), sequence.wrapping_add(1)),
            (false, NOBODY) => (State::new(sequence, thread, CLEAN), sequence),
            (false, _) if has => (state, sequence),
            (false, _) => (State::new(sequence, thread, SHARED), sequence),
        };
        if !(has && (alone || !access.writes)) {
            // A transfer is counted if other threads owned the line, and the new owner writes it or finds
            // data that they wrote.
            let taken =
                how != NOBODY && (access.writes || sequence != 0) && self.loses(line, sequence, thread);
            let continues = has && state.thread() == thread;
            if !continues {
                judge(line, seat);
                seat.foreign.set([0; 2], [0; 2]);
                seat.tenure.set([0; 2], [0; 2]);
            }
            seat.foreign.add(seat.pending.touched.take(), seat.pending.written.take());
            if taken && !(continues && seat.open.load(Relaxed) != 0) {
                let hand_overs = line.hand_overs.load(Relaxed) + u64::from(weight);
                line.hand_overs.store(hand_overs, Relaxed);
                seat.open.store(weight, Relaxed);
                if hand_overs == windows::MANY {
                    self.slot.sampled.store(1, Relaxed);
                }
            }
        }
        seat.seen.store(seen, Relaxed);
        unlock(line, State(next.0 & !TIMES | state.0 & TIMES))
    }

    /// Returns whether a running thread other than `thread` owns `line`. A thread that has exited will not
    /// access it again.
    fn loses(self, line: &Line, sequence: u32, thread: u32) -> bool {
        seats(self.region, line).any(|(_, seat)| {
            let other = seat.thread.load(Relaxed);
            other != thread && seat.seen.load(Relaxed) == sequence && !self.has_ended(other)
        })
    }

    fn has_ended(self, thread: u32) -> bool {
        self.slot.thread.get(thread as usize).is_some_and(|thread| thread.ended.load(Relaxed) != 0)
    }

    /// Returns the counter for accesses of this kind; `None` if there is no space.
    fn count(self, seat: &Seat, access: &Access) -> Option<&'a Count> {
        let key = key(access);
        let mut index = seat.counts.load(Relaxed);
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
        if blocks >= MOST_COUNTS {
            return None;
        }
        let index = self.region.allocate::<Counts>()?;
        let counts = self.region.get::<Counts>(index)?;
        counts.thread.store(access.thread, Relaxed);
        counts.kinds[0].key.store(key, Relaxed);
        counts.next.store(seat.counts.load(Relaxed), Relaxed);
        seat.counts.store(index, Release);
        Some(&counts.kinds[0])
    }

    /// Records that bytes of `line` are reused for other data: no thread owns the line, and earlier accesses
    /// to them do not count.
    pub fn renew(self, line: &Line, renewed: Bits) {
        let Some(state) = lock(line) else { return };
        deliver(self.region, line);
        for (_, seat) in seats(self.region, line) {
            judge(line, seat);
            seat.tenure.set([0; 2], [0; 2]);
            for marks in [&seat.pending, &seat.foreign] {
                marks.remove(renewed);
            }
        }
        let next = State::new(state.sequence().wrapping_add(1), 0, NOBODY);
        unlock(line, State(next.0 | state.0 & TIMES));
    }
}

/// Takes the lock of `line`. Returns `None` if a thread never releases it, which should not happen.
fn lock(line: &Line) -> Option<State> {
    for round in 0..1_000_000_u32 {
        let seen = line.state.load(Relaxed);
        if seen & LOCK == 0 && line.state.compare_exchange_weak(seen, seen | LOCK, Acquire, Relaxed).is_ok() {
            return Some(State(seen));
        }
        if round % 64 == 63 { sys::yield_now() } else { std::hint::spin_loop() }
    }
    None
}

/// Releases the lock and stores `state` with an increased lock count; returns that state.
fn unlock(line: &Line, state: State) -> State {
    let next = state.0 & !TIMES | state.0.wrapping_add(ONE_TIME) & TIMES;
    line.state.store(next, Release);
    State(next)
}

/// Returns the seats of a line with their indexes.
pub fn seats<'a>(region: &'a Region, line: &Line) -> impl Iterator<Item = (u32, &'a Seat)> + use<'a> {
    let mut index = line.seats.load(Acquire);
    let mut left = MOST_SEATS;
    std::iter::from_fn(move || {
        let seat = region.get::<Seat>(index).filter(|_| left > 0)?;
        let this = index;
        index = seat.next.load(Relaxed);
        left -= 1;
        Some((this, seat))
    })
}

/// Passes the fresh accesses of each seat to all other seats.
fn deliver(region: &Region, line: &Line) {
    for (from, seat) in seats(region, line) {
        let (touched, written) = (seat.fresh.touched.take(), seat.fresh.written.take());
        if touched != [0; 2] {
            let others = seats(region, line).filter(|(to, _)| *to != from);
            others.for_each(|(_, other)| other.pending.add(touched, written));
        }
    }
}

/// Classifies the transfer of the tenure of `seat`, if it is not classified yet.
fn judge(line: &Line, seat: &Seat) {
    let hand_overs = u64::from(seat.open.load(Relaxed));
    if hand_overs == 0 {
        return;
    }
    seat.open.store(0, Relaxed);
    if is_needless(seat) {
        line.needless.store(line.needless.load(Relaxed) + hand_overs, Relaxed);
    }
}

/// Returns whether the tenure of `seat` is false sharing so far.
fn is_needless(seat: &Seat) -> bool {
    !meet(seat.tenure.touched.bits(), seat.foreign.written.bits())
        && !meet(seat.tenure.written.bits(), seat.foreign.touched.bits())
}

/// Returns the number of false-sharing transfers of a line that is not accessed any more, including those of
/// tenures that have not ended.
pub fn needless(region: &Region, line: &Line) -> u64 {
    let open = seats(region, line).filter(|(_, seat)| is_needless(seat));
    let open = open.map(|(_, seat)| u64::from(seat.open.load(Relaxed))).sum();
    line.needless.load(Relaxed).saturating_add(open)
}

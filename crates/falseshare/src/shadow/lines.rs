//! Lines that threads share: who has the line, how often it changed hands, and whether it needed to.
//!
//! A line is *had* as in a coherent cache: by one thread that wrote it, or by all that read it since. A thread has
//! it for a **tenure**: from the hand-over that brought it until another's write takes it away. A write right
//! after its own read brought the line (`lock add`, `counter += 1`) belongs to the same tenure.
//!
//! Each thread has a **seat** at the line. It keeps three pairs of masks, a bit for a byte, one for touched and one
//! for written:
//! - its *tenure's*, and what of it is *fresh*: not yet told to the others;
//! - *pending*: what others did since its tenure began;
//! - *foreign*: what was pending when its tenure began.
//!
//! When a tenure ends it is judged: it was needless where it touched no foreign written byte and wrote no foreign
//! touched one.
//!
//! All but hits happens under a lock in the line's state word. It is held for some dozens of instructions that
//! wait for nothing, and emulated signals are delivered between instructions, so no thread ends within.

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

/// Most seats at a line; threads that ended make room for others.
pub const MOST_SEATS: u32 = 64;
/// Most blocks of [`Counts`] of one thread at one line.
const MOST_COUNTS: u32 = 64;
/// A line that is followed.
#[repr(C, align(64))]
pub struct Line {
    /// Who has it: see `State`.
    pub state: AtomicU64,
    /// Times that it changed hands.
    pub hand_overs: AtomicU64,
    /// Those of them that were judged needless.
    pub needless: AtomicU64,
    /// First address.
    pub address: AtomicU64,
    /// The seat that was made last.
    pub seats: AtomicU32,
    /// Seats.
    pub seat_count: AtomicU32,
    /// The block of the allocator that was told last.
    pub blocks: AtomicU32,
    /// Which layout.
    pub layout: AtomicU32,
    /// The line that was followed before.
    pub next: AtomicU32,
    /// Accesses that are not in any [`Counts`], for want of room.
    pub uncounted: AtomicU32,
}

/// One thread at a line.
#[repr(C, align(64))]
pub struct Seat {
    /// The thread.
    pub thread: AtomicU32,
    /// The seat that was made before.
    pub next: AtomicU32,
    /// Its block of counts that was made last.
    pub counts: AtomicU32,
    /// The sequence number of the line when it had it last.
    seen: AtomicU32,
    fresh: Marks,
    tenure: Marks,
    pending: Marks,
    foreign: Marks,
    /// How many hand-overs its tenure was counted as, and is not judged yet.
    open: AtomicU32,
}

/// An access, as far as one line is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The thread.
    pub thread: u32,
    /// Address of the instruction.
    pub code: u64,
    /// First byte of the line.
    pub offset: u32,
    /// Bytes within the line.
    pub bytes: u32,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes.
    pub writes: bool,
}

/// A line's state: `sequence << 32 | times << 15 | thread << 3 | how << 1 | lock`. The sequence number counts writers,
/// `times` how often the lock was taken, so that a state that is the same says that nothing was done meanwhile; the
/// thread is the one that got the line last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

const LOCK: u64 = 1;
const TIMES: u64 = 0xffff_8000;
const ONE_TIME: u64 = 0x8000;
/// How a line is had.
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

/// A line of the region and the process that it belongs to.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    /// The region.
    pub region: &'a Region,
    /// The process.
    pub slot: &'a Slot,
}

impl<'a> Table<'a> {
    /// Makes a line that is followed; the caller publishes it.
    pub fn line(self, address: u64, layout: u32) -> Option<u32> {
        let index = self.region.allocate::<Line>()?;
        let line = self.region.get::<Line>(index)?;
        line.address.store(address, Relaxed);
        line.layout.store(layout, Relaxed);
        Some(index)
    }

    /// Puts line `index` into the list of the process.
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

    /// The seat of `thread` at `line`, made where it has none; `None` where there is no room.
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

    /// Has `thread`, which was never at `line`, take `seat`.
    fn sit(self, line: &Line, seat: &Seat, thread: u32, state: State) {
        judge(line, seat);
        // What an ended thread did last, the others are told.
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
        // Never equal to the present one; a line that nobody wrote has sequence 0.
        seat.seen.store(state.sequence().wrapping_sub(1), Relaxed);
        seat.thread.store(thread, Relaxed);
    }

    /// Takes note of an access to `line` by the thread whose seat this is; returns where it was counted.
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

    /// Gives `line` to the thread of `seat`, which stands for `weight` hand-overs.
    #[cold]
    fn hand_over(self, line: &Line, seat: &Seat, access: &Access, weight: u32) -> State {
        let Some(state) = lock(line) else { return State(LOCK) };
        let (sequence, how, thread) = (state.sequence(), state.how(), access.thread);
        let has = seat.seen.load(Relaxed) == sequence && how != NOBODY;
        let alone = state.thread() == thread && matches!(how, CLEAN | DIRTY);
        deliver(self.region, line);
        let (next, seen) = match (access.writes, how) {
            // It came back by a reset, or was its own all the time.
            (true, DIRTY) if alone => (state, sequence),
            (true, _) => (State::new(sequence.wrapping_add(1), thread, DIRTY), sequence.wrapping_add(1)),
            (false, NOBODY) => (State::new(sequence, thread, CLEAN), sequence),
            (false, _) if has => (state, sequence),
            (false, _) => (State::new(sequence, thread, SHARED), sequence),
        };
        if !(has && (alone || !access.writes)) {
            // Others had it, and who takes it writes or finds what they wrote.
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

    /// Whether a thread other than `thread` has `line` and lives: who has ended wants it back no more.
    fn loses(self, line: &Line, sequence: u32, thread: u32) -> bool {
        seats(self.region, line).any(|(_, seat)| {
            let other = seat.thread.load(Relaxed);
            other != thread && seat.seen.load(Relaxed) == sequence && !self.has_ended(other)
        })
    }

    fn has_ended(self, thread: u32) -> bool {
        self.slot.thread.get(thread as usize).is_some_and(|thread| thread.ended.load(Relaxed) != 0)
    }

    /// Where accesses of this kind are counted; `None` where there is no room.
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

    /// Takes note that bytes of `line` begin a new life: nobody has it, and what was done with them is forgotten.
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

/// Takes the lock of `line`; `None` where somebody holds it for ever, which does not happen.
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

/// Gives the lock back and leaves `state`, counted on; returns that.
fn unlock(line: &Line, state: State) -> State {
    let next = state.0 & !TIMES | state.0.wrapping_add(ONE_TIME) & TIMES;
    line.state.store(next, Release);
    State(next)
}

/// The seats of a line, with their places.
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

/// Tells all seats what each did since it was told last.
fn deliver(region: &Region, line: &Line) {
    for (from, seat) in seats(region, line) {
        let (touched, written) = (seat.fresh.touched.take(), seat.fresh.written.take());
        if touched != [0; 2] {
            let others = seats(region, line).filter(|(to, _)| *to != from);
            others.for_each(|(_, other)| other.pending.add(touched, written));
        }
    }
}

/// Judges the tenure of `seat`, where one is open.
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

/// Whether the tenure of `seat` was needless so far.
fn is_needless(seat: &Seat) -> bool {
    !meet(seat.tenure.touched.bits(), seat.foreign.written.bits())
        && !meet(seat.tenure.written.bits(), seat.foreign.touched.bits())
}

/// The needless hand-overs of a line that nobody touches any more, those counted in that are not over.
pub fn needless(region: &Region, line: &Line) -> u64 {
    let open = seats(region, line).filter(|(_, seat)| is_needless(seat));
    let open = open.map(|(_, seat)| u64::from(seat.open.load(Relaxed))).sum();
    line.needless.load(Relaxed).saturating_add(open)
}

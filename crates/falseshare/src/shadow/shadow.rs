//! The state of one process: grids, lines, threads, blocks, mappings.

use crate::shadow::{
    grid::{Grid, Step},
    heap::{self, Heap},
    lane::{Lane, PAUSE, RECENT, Recent, is_turn},
    lines::{Access, Line, Seat, Table},
    lock::{Guard, Lock},
    maps::{self, Mapped, Maps},
    marks,
    region::{self, Region, Slot, THREADS, Thread},
    sys::Memory,
    windows,
};
use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::atomic::{
        AtomicU32, AtomicUsize,
        Ordering::{Relaxed, Release},
    },
    time::Duration,
};

/// Largest mapping in bytes that is taken for a thread's stack.
const MOST_STACK: u64 = 1 << 30;
/// How long a young thread waits so that others can run.
const TURN: Duration = Duration::from_micros(50);

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads and writes in one instruction.
    Update,
}

/// The state of one process.
#[derive(Debug)]
pub struct Shadow {
    region: Region,
    slot: AtomicUsize,
    grids: Vec<Grid>,
    recent: Memory,
    books: Lock<Books>,
}

/// Data that changes seldom and is protected by a lock.
#[derive(Debug, Default)]
struct Books {
    heap: Heap,
    maps: Maps,
}

impl Shadow {
    /// Creates the state of this process in a slot of `region`; returns `None` if all slots are in use.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(region: Region) -> io::Result<Option<Self>> {
        let chunks = region.chunks_of_layout();
        let grids =
            region.layouts().iter().map(|layout| Grid::new(*layout, chunks)).collect::<io::Result<_>>()?;
        let recent = Memory::private(THREADS * RECENT * size_of::<Recent>())?;
        let Some(slot) = region.take_slot() else { return Ok(None) };
        let shadow = Self { region, slot: AtomicUsize::new(slot), grids, recent, books: Lock::default() };
        shadow.slot().pid.store(std::process::id() as i32, Relaxed);
        Ok(Some(shadow))
    }

    /// Returns the region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns this process's slot.
    pub fn slot(&self) -> &Slot {
        self.region.slot(self.slot.load(Relaxed))
    }

    fn table(&self) -> Table<'_> {
        Table { region: &self.region, slot: self.slot() }
    }

    fn books(&self) -> Guard<'_, Books> {
        self.books.lock()
    }

    /// Prepares a fork: takes the lock, so that nothing changes until [`Shadow::after_fork`].
    pub fn before_fork(&self) {
        self.books.hold();
    }

    /// Releases the lock after a fork, in the parent.
    pub fn after_fork(&self) {
        self.books.release();
    }

    /// Resets the state after a fork, in the child: it keeps only the mappings and blocks that it inherits,
    /// in a slot of its own, and the stack of thread `caller`. Returns whether a slot was available.
    pub fn in_child(&self, caller: Option<u32>) -> bool {
        self.books.release();
        let from = self.slot();
        let Some(slot) = self.region.take_slot() else { return false };
        self.slot.store(slot, Relaxed);
        let to = self.region.slot_address(slot);
        // SAFETY: the slot belongs to this process alone.
        unsafe { maps::inherit(from, to) };
        let child = self.slot();
        child.pid.store(std::process::id() as i32, Relaxed);
        for (to, from) in child.heap.iter().zip(&from.heap) {
            to.store(from.load(Relaxed), Relaxed);
        }
        if let Some(record) = caller.and_then(|caller| from.thread.get(caller as usize)) {
            for (to, from) in child.thread[0].stack.iter().zip(&record.stack) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
        true
    }

    /// Registers a thread and returns its index; `None` if there are too many. `near` is an address on its
    /// stack, as far as known. Earlier accesses to its stack do not count.
    pub fn register(&self, tid: i32, near: u64) -> Option<u32> {
        let slot = self.slot();
        let index = slot.threads.fetch_add(1, Relaxed);
        let thread = slot.thread.get(index as usize)?;
        thread.tid.store(tid, Relaxed);
        if thread.stack[0].load(Relaxed) != 0 {
            return Some(index);
        }
        let stack = maps::around(slot, near).filter(|(start, end)| end - start <= MOST_STACK);
        if let Some((start, end)) = stack {
            let inside = |other: &Thread| {
                other.ended.load(Relaxed) == 0
                    && other.stack[0].load(Relaxed) == start
                    && other.tid.load(Relaxed) != 0
            };
            if !slot.thread[..index as usize].iter().any(inside) {
                thread.stack[0].store(start, Relaxed);
                thread.stack[1].store(end, Relaxed);
                self.renew(start, end);
            }
        }
        Some(index)
    }

    /// Returns the record of thread `index`.
    pub fn thread(&self, index: u32) -> Option<&Thread> {
        self.slot().thread.get(index as usize)
    }

    /// Records the name of a thread, up to 15 bytes.
    pub fn name(&self, index: u32, name: &[u8]) {
        let Some(thread) = self.thread(index) else { return };
        let mut bytes = [0; 16];
        let count = name.len().min(15);
        bytes[..count].copy_from_slice(&name[..count]);
        let all = u128::from_le_bytes(bytes);
        thread.name[0].store(all as u64, Relaxed);
        thread.name[1].store((all >> 64) as u64, Relaxed);
    }

    /// Records the path of the program.
    pub fn set_program(&self, path: &[u8]) {
        let slot = self.region.slot_address(self.slot.load(Relaxed));
        // SAFETY: the slot belongs to this process, and only its first thread does this.
        unsafe { region::write_text(&raw mut (*slot).program, path) };
    }

    /// Returns the path of the program that process `pid` runs, if it is observed.
    pub fn program_of(&self, pid: i32) -> Option<PathBuf> {
        let taken = (self.region.header().taken.load(Relaxed) as usize).min(region::SLOTS);
        // If it executed several programs, the last one counts.
        let slot = (0..taken)
            .rev()
            .map(|index| self.region.slot(index))
            .find(|slot| slot.pid.load(Relaxed) == pid)?;
        let end = slot.program.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
        Some(PathBuf::from(OsStr::from_bytes(&slot.program[..end])))
    }

    /// Records that the process executes a program that runs unobserved.
    pub fn escapes(&self, path: &[u8]) {
        let slot = self.region.slot_address(self.slot.load(Relaxed));
        // SAFETY: the slot belongs to this process, and is only read after the process has ended.
        unsafe { region::write_text(&raw mut (*slot).escape, path) };
        self.slot().escaped.store(1, Release);
    }

    /// Records an access of `bytes` bytes at `address` by the instruction at `code`.
    #[inline]
    pub fn access(&self, thread: u32, code: u64, address: u64, bytes: u32, kind: Kind) {
        if let Some(record) = self.thread(thread) {
            // Only this thread writes this counter.
            let count = record.accesses.load(Relaxed) + 1;
            record.accesses.store(count, Relaxed);
            if count.is_multiple_of(PAUSE) {
                self.pause(thread, count);
            }
        }
        for (layout, grid) in self.grids.iter().enumerate() {
            let size = u64::from(grid.layout.line_bytes);
            let mut offset = address.wrapping_sub(u64::from(grid.layout.shift_bytes)) & (size - 1);
            let (mut address, mut left) = (address, bytes);
            while left > 0 {
                let piece = u64::from(left).min(size - offset) as u32;
                let access = Access {
                    thread,
                    code,
                    offset: offset as u32,
                    bytes: piece,
                    reads: kind != Kind::Write,
                    writes: kind != Kind::Read,
                };
                self.touch(layout, grid, address, &access);
                address = address.wrapping_add(u64::from(piece));
                left -= piece;
                offset = 0;
            }
        }
    }

    /// Does the periodic work of a thread, at its access number `count`.
    #[cold]
    fn pause(&self, thread: u32, count: u64) {
        let slot = self.slot();
        if is_turn(count) && slot.threads.load(Relaxed) > 1 {
            std::thread::sleep(TURN);
        }
        // Outside of sampling windows, lines do not change their owner, so cached accesses may be of lines
        // that were lost.
        if slot.sampled.load(Relaxed) != 0
            && windows::is_now()
            && let Some(lane) = self.lane(thread)
        {
            lane.forget();
        }
    }

    #[inline]
    fn touch(&self, layout: usize, grid: &Grid, address: u64, access: &Access) {
        match grid.touch(access.thread, address, access.writes) {
            Step::Done => {}
            Step::Followed(line) => self.shared(line, access),
            Step::Follow => self.follow(layout, grid, address, access),
            Step::Full => {
                self.slot().not_followed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Records an access to a followed line.
    fn shared(&self, index: u32, access: &Access) {
        let Some(line) = self.region.get::<Line>(index) else { return };
        let seat = self.table().seat(line, access.thread).and_then(|seat| self.region.get::<Seat>(seat));
        let Some(seat) = seat else {
            line.uncounted.fetch_add(1, Relaxed);
            return;
        };
        let Some(count) = self.table().access(line, seat, access) else { return };
        if let Some(lane) = self.lane(access.thread) {
            lane.remember(index, line, access, count);
        }
    }

    /// Returns the fast path of thread `index`; valid as long as `self` exists, until a fork.
    pub fn lane(&self, index: u32) -> Option<Lane> {
        let record = self.thread(index)?;
        let grid = self.grids.first().filter(|_| self.grids.len() == 1);
        // SAFETY: the table has that many entries for each thread below THREADS.
        let recent = unsafe { self.recent.first::<Recent>().add(index as usize * RECENT) };
        Some(Lane::new(record, grid.map(|grid| grid.own(index)), recent))
    }

    /// Starts to follow the line of `address`.
    #[cold]
    fn follow(&self, layout: usize, grid: &Grid, address: u64, access: &Access) {
        let Some(word) = grid.word(address) else { return };
        let start = grid.line_start(address);
        let Some(index) = self.table().line(start, layout as u32) else {
            self.slot().not_followed.fetch_add(1, Relaxed);
            return;
        };
        let index = match follow(word, index) {
            Ok(()) => {
                if let Some(line) = self.region.get::<Line>(index) {
                    self.books().heap.note(&self.region, line, u64::from(grid.layout.line_bytes));
                }
                self.table().publish(index);
                index
            }
            Err(theirs) => theirs,
        };
        self.shared(index, access);
    }

    /// Records that memory is reused for other data: earlier accesses to it do not count.
    pub fn renew(&self, start: u64, end: u64) {
        for grid in &self.grids {
            grid.renew(start, end, &mut |index| self.renew_line(grid, index, start, end));
        }
    }

    fn renew_line(&self, grid: &Grid, index: u32, start: u64, end: u64) {
        let Some(line) = self.region.get::<Line>(index) else { return };
        let first = line.address.load(Relaxed);
        let from = start.max(first) - first;
        let to = end.min(first + u64::from(grid.layout.line_bytes)).saturating_sub(first);
        self.table().renew(line, marks::bits(from as u32, to.saturating_sub(from) as u32));
    }

    /// Records a block that the allocator returned.
    pub fn allocated(&self, start: u64, bytes: u64, callers: &[u64]) {
        let end = start.saturating_add(bytes.max(1));
        let mut books = self.books();
        books.heap.allocated(&self.region, self.slot(), start, bytes, callers);
        for grid in &self.grids {
            grid.renew(start, end, &mut |index| {
                self.renew_line(grid, index, start, end);
                if let Some(line) = self.region.get::<Line>(index) {
                    books.heap.note(&self.region, line, u64::from(grid.layout.line_bytes));
                }
            });
        }
    }

    /// Records a block that was freed.
    pub fn freed(&self, start: u64) {
        let Some(bytes) = self.books().heap.freed(start) else { return };
        for grid in &self.grids {
            grid.followed(start, start.saturating_add(bytes.max(1)), &mut |index| {
                if let Some(line) = self.region.get::<Line>(index) {
                    heap::forget(&self.region, line, start);
                }
            });
        }
    }

    /// Records a mapping; earlier accesses to its addresses do not count.
    pub fn mapped(&self, mapped: &Mapped) {
        self.unmapped(mapped.start, mapped.end);
        let slot = self.region.slot_address(self.slot.load(Relaxed));
        // SAFETY: the slot belongs to this process, and the lock is held.
        unsafe { self.books().maps.mapped(slot, mapped) };
    }

    /// Records that memory was unmapped.
    pub fn unmapped(&self, start: u64, end: u64) {
        self.books().maps.unmapped(self.slot(), start, end);
        self.renew(start, end);
    }
}

/// Stores in `word` that the line is followed at `index`. Returns the index of another thread if that was faster.
fn follow(word: &AtomicU32, index: u32) -> Result<(), u32> {
    use crate::shadow::grid::FOLLOWED;
    let mut seen = word.load(Relaxed);
    loop {
        if seen & FOLLOWED != 0 {
            return Err(seen & !FOLLOWED);
        }
        match word.compare_exchange_weak(seen, FOLLOWED | index, Relaxed, Relaxed) {
            Ok(_) => return Ok(()),
            Err(now) => seen = now,
        }
    }
}

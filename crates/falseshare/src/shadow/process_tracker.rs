//! The state of one process: owner tables, lines, threads, blocks, mappings.

use crate::shadow::{
    fast_path::{CachedAccess, RECENT, SLOW_PATH_INTERVAL, ThreadFastPath, should_wait},
    heap::{self, Heap},
    lines::{LinePart, LineTable, LineThread, TrackedLine},
    lock::{Lock, LockGuard},
    maps::{self, Mapped, Maps},
    marks,
    owner_table::{AccessResult, OwnerTable},
    region::{self, Region, Slot, THREADS, Thread},
    sampling_windows,
    sys::Memory,
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
const MAX_STACK_BYTES: u64 = 1 << 30;
/// How long a young thread waits so that others can run.
const YOUNG_THREAD_DELAY: Duration = Duration::from_micros(50);

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It reads and writes in one instruction.
    Update,
}

/// The state of one process.
#[derive(Debug)]
pub struct ProcessTracker {
    region: Region,
    slot: AtomicUsize,
    owner_tables: Vec<OwnerTable>,
    recent: Memory,
    locked_state: Lock<LockedState>,
}

/// Data that changes seldom and is protected by a lock.
#[derive(Debug, Default)]
struct LockedState {
    heap: Heap,
    maps: Maps,
}

impl ProcessTracker {
    /// Creates the state of this process in a slot of `region`; returns `None` if all slots are in use.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(region: Region) -> io::Result<Option<Self>> {
        let chunks = region.chunks_of_layout();
        let owner_tables = region
            .layouts()
            .iter()
            .map(|layout| OwnerTable::new(*layout, chunks))
            .collect::<io::Result<_>>()?;
        let recent = Memory::private(THREADS * RECENT * size_of::<CachedAccess>())?;
        let Some(slot) = region.take_slot() else { return Ok(None) };
        let tracker = Self {
            region,
            slot: AtomicUsize::new(slot),
            owner_tables,
            recent,
            locked_state: Lock::default(),
        };
        tracker.slot().pid.store(std::process::id() as i32, Relaxed);
        Ok(Some(tracker))
    }

    /// Returns the region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Returns this process's slot.
    pub fn slot(&self) -> &Slot {
        self.region.slot(self.slot.load(Relaxed))
    }

    fn table(&self) -> LineTable<'_> {
        LineTable { region: &self.region, slot: self.slot() }
    }

    fn locked_state(&self) -> LockGuard<'_, LockedState> {
        self.locked_state.lock()
    }

    /// Prepares a fork: takes the lock, so that nothing changes until [`ProcessTracker::after_fork`].
    pub fn before_fork(&self) {
        self.locked_state.lock_raw();
    }

    /// Releases the lock after a fork, in the parent.
    pub fn after_fork(&self) {
        self.locked_state.unlock_raw();
    }

    /// Resets the state after a fork, in the child: it keeps only the mappings and blocks that it inherits,
    /// in a slot of its own, and the stack of thread `caller`. Returns whether a slot was available.
    pub fn in_child(&self, caller: Option<u32>) -> bool {
        self.locked_state.unlock_raw();
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
        let stack = maps::mapping_at(slot, near).filter(|(start, end)| end - start <= MAX_STACK_BYTES);
        if let Some((start, end)) = stack {
            let inside = |other: &Thread| {
                other.ended.load(Relaxed) == 0
                    && other.stack[0].load(Relaxed) == start
                    && other.tid.load(Relaxed) != 0
            };
            if !slot.thread[..index as usize].iter().any(inside) {
                thread.stack[0].store(start, Relaxed);
                thread.stack[1].store(end, Relaxed);
                self.reset_reused(start, end);
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
    pub fn record_unobserved(&self, path: &[u8]) {
        let slot = self.region.slot_address(self.slot.load(Relaxed));
        // SAFETY: the slot belongs to this process, and is only read after the process has ended.
        unsafe { region::write_text(&raw mut (*slot).escape, path) };
        self.slot().escaped.store(1, Release);
    }

    /// Records an access of `bytes` bytes at `address` by the instruction at `code`.
    #[inline]
    pub fn access(&self, thread: u32, code: u64, address: u64, bytes: u32, kind: AccessKind) {
        if let Some(record) = self.thread(thread) {
            // Only this thread writes this counter.
            let count = record.accesses.load(Relaxed) + 1;
            record.accesses.store(count, Relaxed);
            if count.is_multiple_of(SLOW_PATH_INTERVAL) {
                self.pause(thread, count);
            }
        }
        for (layout, owner_table) in self.owner_tables.iter().enumerate() {
            let size = u64::from(owner_table.layout.line_bytes);
            let mut offset = address.wrapping_sub(u64::from(owner_table.layout.shift_bytes)) & (size - 1);
            let (mut address, mut left) = (address, bytes);
            while left > 0 {
                let piece = u64::from(left).min(size - offset) as u32;
                let access = LinePart {
                    thread,
                    code,
                    offset: offset as u32,
                    bytes: piece,
                    reads: kind != AccessKind::Write,
                    writes: kind != AccessKind::Read,
                };
                self.touch(layout, owner_table, address, &access);
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
        if should_wait(count) && slot.threads.load(Relaxed) > 1 {
            std::thread::sleep(YOUNG_THREAD_DELAY);
        }
        // Outside of sampling windows, lines do not change their owner, so cached accesses may be of lines
        // that were lost.
        if slot.sampled.load(Relaxed) != 0
            && sampling_windows::is_sampling()
            && let Some(fast_path) = self.fast_path(thread)
        {
            fast_path.clear_cache();
        }
    }

    #[inline]
    fn touch(&self, layout: usize, owner_table: &OwnerTable, address: u64, access: &LinePart) {
        match owner_table.touch(access.thread, address, access.writes) {
            AccessResult::Done => {}
            AccessResult::Followed(line) => self.shared(line, access),
            AccessResult::Follow => self.follow(layout, owner_table, address, access),
            AccessResult::Full => {
                self.slot().unfollowed_accesses.fetch_add(1, Relaxed);
            }
        }
    }

    /// Records an access to a followed line.
    fn shared(&self, index: u32, access: &LinePart) {
        let Some(line) = self.region.get::<TrackedLine>(index) else { return };
        let record = self
            .table()
            .line_thread(line, access.thread)
            .and_then(|record| self.region.get::<LineThread>(record));
        let Some(record) = record else {
            line.uncounted.fetch_add(1, Relaxed);
            return;
        };
        let Some(count) = self.table().access(line, record, access) else { return };
        if let Some(fast_path) = self.fast_path(access.thread) {
            fast_path.cache_access(index, line, access, count);
        }
    }

    /// Returns the fast path of thread `index`; valid as long as `self` exists, until a fork.
    pub fn fast_path(&self, index: u32) -> Option<ThreadFastPath> {
        let record = self.thread(index)?;
        let owner_table = self.owner_tables.first().filter(|_| self.owner_tables.len() == 1);
        // SAFETY: the table has that many entries for each thread below THREADS.
        let recent = unsafe { self.recent.first::<CachedAccess>().add(index as usize * RECENT) };
        Some(ThreadFastPath::new(record, owner_table.map(|owner_table| owner_table.fast_path(index)), recent))
    }

    /// Starts to follow the line of `address`.
    #[cold]
    fn follow(&self, layout: usize, owner_table: &OwnerTable, address: u64, access: &LinePart) {
        let Some(word) = owner_table.word(address) else { return };
        let start = owner_table.line_start(address);
        let Some(index) = self.table().line(start, layout as u32) else {
            self.slot().unfollowed_accesses.fetch_add(1, Relaxed);
            return;
        };
        let index = match follow(word, index) {
            Ok(()) => {
                if let Some(line) = self.region.get::<TrackedLine>(index) {
                    self.locked_state().heap.note(
                        &self.region,
                        line,
                        u64::from(owner_table.layout.line_bytes),
                    );
                }
                self.table().publish(index);
                index
            }
            Err(theirs) => theirs,
        };
        self.shared(index, access);
    }

    /// Records that memory is reused for other data: earlier accesses to it do not count.
    pub fn reset_reused(&self, start: u64, end: u64) {
        for owner_table in &self.owner_tables {
            owner_table
                .reset_reused(start, end, &mut |index| self.renew_line(owner_table, index, start, end));
        }
    }

    fn renew_line(&self, owner_table: &OwnerTable, index: u32, start: u64, end: u64) {
        let Some(line) = self.region.get::<TrackedLine>(index) else { return };
        let first = line.address.load(Relaxed);
        let from = start.max(first) - first;
        let to = end.min(first + u64::from(owner_table.layout.line_bytes)).saturating_sub(first);
        self.table().reset_reused(line, marks::bits(from as u32, to.saturating_sub(from) as u32));
    }

    /// Records a block that the allocator returned.
    pub fn allocated(&self, start: u64, bytes: u64, callers: &[u64]) {
        let end = start.saturating_add(bytes.max(1));
        let mut books = self.locked_state();
        books.heap.allocated(&self.region, self.slot(), start, bytes, callers);
        for owner_table in &self.owner_tables {
            owner_table.reset_reused(start, end, &mut |index| {
                self.renew_line(owner_table, index, start, end);
                if let Some(line) = self.region.get::<TrackedLine>(index) {
                    books.heap.note(&self.region, line, u64::from(owner_table.layout.line_bytes));
                }
            });
        }
    }

    /// Records a block that was freed.
    pub fn freed(&self, start: u64) {
        let Some(bytes) = self.locked_state().heap.freed(start) else { return };
        for owner_table in &self.owner_tables {
            owner_table.followed(start, start.saturating_add(bytes.max(1)), &mut |index| {
                if let Some(line) = self.region.get::<TrackedLine>(index) {
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
        unsafe { self.locked_state().maps.mapped(slot, mapped) };
    }

    /// Records that memory was unmapped.
    pub fn unmapped(&self, start: u64, end: u64) {
        self.locked_state().maps.unmapped(self.slot(), start, end);
        self.reset_reused(start, end);
    }
}

/// Stores in `word` that the line is followed at `index`. Returns the index of another thread if that was faster.
fn follow(word: &AtomicU32, index: u32) -> Result<(), u32> {
    use crate::shadow::owner_table::FOLLOWED;
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

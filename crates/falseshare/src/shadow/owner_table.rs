//! One word for each line of memory that a process accesses, with the threads that accessed it so far.
//!
//! Nearly all accesses end here, because the line belongs to the accessing thread. A line that changes its
//! owner once or twice is not yet shared: `main` may prepare data that a worker then uses and returns. A line
//! is **followed from its third change of owner** on, if any thread wrote to it since the first change;
//! earlier accesses do not count. Lines that are only read after they changed their owner are never followed.

use crate::shadow::{region::LineLayout, sys::Memory};
use std::{
    io,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Number of lines in one chunk of words.
pub const CHUNK: usize = 4096;
/// Size in bytes of one chunk of words.
pub const CHUNK_BYTES: usize = CHUNK * 4;
/// Number of address bits that are supported.
const ADDRESS_BITS: u32 = 48;
/// Number of the chunk of zeros that stands for all chunks for which there was no space.
const FULL: u32 = 1;

/// Flag in a word: the line is followed, and the other bits are its index in the arena.
pub const FOLLOWED: u32 = 1 << 31;
/// Many threads read the line, and none wrote since its owner changed.
const READ: u32 = 1 << 20;
/// One change of the line's owner; at most two are counted.
const MOVED: u32 = 1 << 17;
const MOVES: u32 = 3 << 17;
/// A thread wrote since the line's owner first changed, or the only thread so far wrote.
const WROTE: u32 = 1 << 16;
/// Index plus one of the thread that owns the line.
const OWNER: u32 = 0xffff;

/// The words of one layout.
#[derive(Debug)]
pub struct OwnerTable {
    /// The layout.
    pub layout: LineLayout,
    shift: u32,
    directory: Memory,
    pool: Memory,
    chunks: u32,
    used: Memory,
}

/// Largest access in bytes that the fast path handles.
const MAX_ACCESS_BYTES: u64 = 16;

/// The data of the fast path, which recognizes a thread's own lines; valid as long as its [`OwnerTable`].
#[derive(Clone, Copy, Debug)]
pub struct FastPath {
    directory: *const AtomicU32,
    pool: *const AtomicU32,
    owner: u32,
    shift: u32,
    shift_bytes: u64,
    last_byte: u64,
}

/// Result of the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastResult {
    /// The line belongs to the thread, and nothing has to be done.
    Own,
    /// The line is followed and has this index in the arena; the access is at this offset.
    Followed(u32, u32),
    /// The access needs the slow path.
    Other,
}

impl FastPath {
    /// Looks up the line of `address`.
    ///
    /// # Safety
    /// The owner table must still exist.
    #[inline]
    pub unsafe fn lookup(&self, address: u64, write: bool) -> FastResult {
        let address = address.wrapping_sub(self.shift_bytes);
        let line = address >> self.shift;
        let offset = address & ((1 << self.shift) - 1);
        if address >> ADDRESS_BITS != 0 || offset > self.last_byte {
            return FastResult::Other;
        }
        // SAFETY: the directory has an entry for each address, and its entries are indexes of chunks in the
        // pool. Absent chunks, and those without space, refer to chunks of zeros, which no thread owns.
        let word = unsafe {
            let chunk = (*self.directory.add((line / CHUNK as u64) as usize)).load(Relaxed) as usize;
            (*self.pool.add(chunk * CHUNK + line as usize % CHUNK)).load(Relaxed)
        };
        let kept = if write { FOLLOWED | OWNER | WROTE } else { FOLLOWED | OWNER };
        if word & kept == self.owner | (kept & WROTE) {
            FastResult::Own
        } else if word & FOLLOWED != 0 {
            FastResult::Followed(word & !FOLLOWED, offset as u32)
        } else {
            FastResult::Other
        }
    }
}

/// Result of recording an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessResult {
    /// Nothing to do.
    Done,
    /// The line is followed and has this index in the arena.
    Followed(u32),
    /// The line should be followed from now on.
    Follow,
    /// There was no space for the word.
    Full,
}

impl OwnerTable {
    /// Creates words for `layout`, at most `chunks` times [`CHUNK`] of them.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(layout: LineLayout, chunks: u64) -> io::Result<Self> {
        let shift = layout.line_bytes.trailing_zeros();
        let entries = 1_usize << (ADDRESS_BITS - shift - CHUNK.trailing_zeros());
        let chunks = chunks.clamp(4, 1 << 22) as u32;
        Ok(Self {
            layout,
            shift,
            directory: Memory::private(entries * 4)?,
            pool: Memory::private(chunks as usize * CHUNK_BYTES)?,
            chunks,
            used: Memory::private(4096)?,
        })
    }

    /// Returns the data for the fast path of `thread`.
    pub fn fast_path(&self, thread: u32) -> FastPath {
        FastPath {
            directory: self.directory.first(),
            pool: self.pool.first(),
            owner: thread + 1,
            shift: self.shift,
            shift_bytes: u64::from(self.layout.shift_bytes),
            last_byte: u64::from(self.layout.line_bytes) - MAX_ACCESS_BYTES,
        }
    }

    /// Returns the first address of the line that contains `address`.
    pub fn line_start(&self, address: u64) -> u64 {
        let shift = u64::from(self.layout.shift_bytes);
        ((address.wrapping_sub(shift) >> self.shift) << self.shift).wrapping_add(shift)
    }

    /// Returns the directory entry of line number `line`.
    #[inline]
    fn entry(&self, line: u64) -> Option<&AtomicU32> {
        let index = line >> CHUNK.trailing_zeros();
        // SAFETY: the directory has an entry for each line number of that many bits.
        (line >> (ADDRESS_BITS - self.shift) == 0)
            .then(|| unsafe { &*self.directory.first::<AtomicU32>().add(index as usize) })
    }

    /// Returns word `line % CHUNK` of a chunk.
    #[inline]
    fn word_in(&self, chunk: u32, line: u64) -> &AtomicU32 {
        let index = chunk as usize * CHUNK + line as usize % CHUNK;
        // SAFETY: the chunks in the directory are inside the pool.
        unsafe { &*self.pool.first::<AtomicU32>().add(index) }
    }

    #[inline]
    fn line_number(&self, address: u64) -> u64 {
        address.wrapping_sub(u64::from(self.layout.shift_bytes)) >> self.shift
    }

    /// Returns the word of the line that contains `address`; creates it if there is space.
    #[inline]
    pub fn word(&self, address: u64) -> Option<&AtomicU32> {
        let line = self.line_number(address);
        let entry = self.entry(line)?;
        let chunk = entry.load(Relaxed);
        if chunk == 0 || chunk == FULL {
            return self.allocate_chunk(entry).map(|chunk| self.word_in(chunk, line));
        }
        Some(self.word_in(chunk, line))
    }

    #[cold]
    fn allocate_chunk(&self, entry: &AtomicU32) -> Option<u32> {
        if entry.load(Relaxed) == FULL {
            return None;
        }
        // SAFETY: the memory is a page of zeros, or of valid counts.
        let used = unsafe { &*self.used.first::<AtomicU32>() };
        let first = FULL + 1;
        let room = used.load(Relaxed) + first < self.chunks;
        let chunk = if room { used.fetch_add(1, Relaxed) + first } else { FULL };
        let chunk = if chunk < self.chunks { chunk } else { FULL };
        // If two threads create it at the same time, one chunk remains unused.
        let chunk = match entry.compare_exchange(0, chunk, Relaxed, Relaxed) {
            Ok(_) => chunk,
            Err(theirs) => theirs,
        };
        (chunk != FULL).then_some(chunk)
    }

    /// Records an access of `thread` to the line of `address`.
    #[inline]
    pub fn touch(&self, thread: u32, address: u64, write: bool) -> AccessResult {
        let Some(word) = self.word(address) else { return AccessResult::Full };
        let seen = word.load(Relaxed);
        if seen & FOLLOWED != 0 {
            return AccessResult::Followed(seen & !FOLLOWED);
        }
        if seen & OWNER == thread + 1 && (!write || seen & WROTE != 0) {
            return AccessResult::Done;
        }
        change_owner(word, seen, thread, write)
    }

    /// Resets the lines that overlap `start..end`, and calls `followed` with those that are followed.
    pub fn reset_reused(&self, start: u64, end: u64, followed: &mut dyn FnMut(u32)) {
        self.for_each_word(start, end, &mut |word| match word.load(Relaxed) {
            0 => {}
            seen if seen & FOLLOWED != 0 => followed(seen & !FOLLOWED),
            _ => word.store(0, Relaxed),
        });
    }

    /// Calls `followed` with the followed lines that overlap `start..end`.
    pub fn followed(&self, start: u64, end: u64, followed: &mut dyn FnMut(u32)) {
        self.for_each_word(start, end, &mut |word| {
            let seen = word.load(Relaxed);
            if seen & FOLLOWED != 0 {
                followed(seen & !FOLLOWED);
            }
        });
    }

    /// Calls `visit` with the existing words of lines that overlap `start..end`.
    fn for_each_word(&self, start: u64, end: u64, visit: &mut dyn FnMut(&AtomicU32)) {
        if start >= end {
            return;
        }
        let (mut line, last) = (self.line_number(start), self.line_number(end - 1));
        while line <= last {
            let next = (line / CHUNK as u64 + 1) * CHUNK as u64;
            let Some(entry) = self.entry(line) else { return };
            let chunk = entry.load(Relaxed);
            if chunk != 0 && chunk != FULL {
                for line in line..next.min(last + 1) {
                    visit(self.word_in(chunk, line));
                }
            }
            line = next;
        }
    }
}

/// Updates the word of a line that belongs to another thread than `thread`, or that `thread` writes for the first time.
#[cold]
fn change_owner(word: &AtomicU32, mut seen: u32, thread: u32, write: bool) -> AccessResult {
    loop {
        if seen & FOLLOWED != 0 {
            return AccessResult::Followed(seen & !FOLLOWED);
        }
        let writes = if write { WROTE } else { 0 };
        let next = if seen == 0 {
            (thread + 1) | writes
        } else if seen & READ != 0 {
            if write {
                return AccessResult::Follow;
            }
            return AccessResult::Done;
        } else if seen & OWNER == thread + 1 {
            seen | writes
        } else if seen & MOVES == 0 {
            // Accesses of the first thread do not count.
            (thread + 1) | MOVED | writes
        } else if seen & MOVES == MOVED {
            (thread + 1) | (2 * MOVED) | (seen & WROTE) | writes
        } else if (seen | writes) & WROTE != 0 {
            return AccessResult::Follow;
        } else {
            READ
        };
        if next == seen {
            return AccessResult::Done;
        }
        match word.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return AccessResult::Done,
            Err(now) => seen = now,
        }
    }
}

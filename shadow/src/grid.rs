//! One word for each line of memory that a process touches: who touched it so far.
//!
//! Nearly all accesses end here: the line belongs to the thread that touches it. A line that is passed on is not
//! yet shared: what `main` prepares and a worker then uses, and what comes back once, changes hands twice. It is
//! **followed from the third change of hands** on, where anybody wrote since the first; what was before counts for
//! nothing. Lines that are only read after they were passed on are never followed.

use crate::{region::Layout, sys::Memory};
use std::{
    io,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Lines of one chunk of words.
pub const CHUNK: usize = 4096;
/// Bytes of one chunk of words.
pub const CHUNK_BYTES: usize = CHUNK * 4;
/// Bits of an address that are followed.
const ADDRESS_BITS: u32 = 48;
/// The word of a chunk for which there was no room.
const FULL: u32 = u32::MAX;

/// In a word: the line is followed, and the other bits are its place in the arena.
pub const FOLLOWED: u32 = 1 << 31;
/// Many threads read the line, and nobody wrote since it was passed on.
const READ: u32 = 1 << 20;
/// The line changed hands so often, at most twice.
const MOVED: u32 = 1 << 17;
const MOVES: u32 = 3 << 17;
/// Somebody wrote since the line changed hands first, or its only thread did.
const WROTE: u32 = 1 << 16;
/// The thread that has it, plus one.
const OWNER: u32 = 0xffff;

/// The words of one layout.
#[derive(Debug)]
pub struct Grid {
    /// The layout.
    pub layout: Layout,
    shift: u32,
    directory: Memory,
    pool: Memory,
    chunks: u32,
    used: Memory,
}

/// What an access to a line comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do.
    Done,
    /// The line is followed, at this place of the arena.
    Followed(u32),
    /// The line should be followed from now on.
    Follow,
    /// There was no room for the word.
    Full,
}

impl Grid {
    /// Words for `layout`, at most `chunks` times [`CHUNK`] of them.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(layout: Layout, chunks: u64) -> io::Result<Self> {
        let shift = layout.line_bytes.trailing_zeros();
        let entries = 1_usize << (ADDRESS_BITS - shift - CHUNK.trailing_zeros());
        let chunks = chunks.clamp(2, 1 << 22) as u32;
        Ok(Self {
            layout,
            shift,
            directory: Memory::private(entries * 4)?,
            pool: Memory::private(chunks as usize * CHUNK_BYTES)?,
            chunks,
            used: Memory::private(4096)?,
        })
    }

    /// First address of the line that `address` is in.
    pub fn line_start(&self, address: u64) -> u64 {
        let shift = u64::from(self.layout.shift_bytes);
        ((address.wrapping_sub(shift) >> self.shift) << self.shift).wrapping_add(shift)
    }

    /// The entry of the directory for line number `line`.
    #[inline]
    fn entry(&self, line: u64) -> Option<&AtomicU32> {
        let index = line >> CHUNK.trailing_zeros();
        // SAFETY: the directory has an entry for each line number of so many bits.
        (line >> (ADDRESS_BITS - self.shift) == 0)
            .then(|| unsafe { &*self.directory.base().cast::<AtomicU32>().add(index as usize) })
    }

    /// Word `line % CHUNK` of a chunk.
    #[inline]
    fn word_in(&self, chunk: u32, line: u64) -> &AtomicU32 {
        let index = chunk as usize * CHUNK + line as usize % CHUNK;
        // SAFETY: chunks of the directory are inside the pool.
        unsafe { &*self.pool.base().cast::<AtomicU32>().add(index) }
    }

    #[inline]
    fn line_number(&self, address: u64) -> u64 {
        address.wrapping_sub(u64::from(self.layout.shift_bytes)) >> self.shift
    }

    /// The word of the line that holds `address`; made where it is absent and there is room.
    #[inline]
    pub fn word(&self, address: u64) -> Option<&AtomicU32> {
        let line = self.line_number(address);
        let entry = self.entry(line)?;
        let chunk = entry.load(Relaxed);
        if chunk == 0 || chunk == FULL {
            return self.make(entry).map(|chunk| self.word_in(chunk, line));
        }
        Some(self.word_in(chunk, line))
    }

    #[cold]
    fn make(&self, entry: &AtomicU32) -> Option<u32> {
        if entry.load(Relaxed) == FULL {
            return None;
        }
        // SAFETY: a page of zeros.
        let used = unsafe { &*self.used.base().cast::<AtomicU32>() };
        let chunk = if used.load(Relaxed) + 1 < self.chunks { used.fetch_add(1, Relaxed) + 1 } else { FULL };
        let chunk = if chunk < self.chunks { chunk } else { FULL };
        // Where two threads make it at once, one chunk stays unused.
        let chunk = match entry.compare_exchange(0, chunk, Relaxed, Relaxed) {
            Ok(_) => chunk,
            Err(theirs) => theirs,
        };
        (chunk != FULL).then_some(chunk)
    }

    /// Takes note of an access of `thread` to the line of `address`.
    #[inline]
    pub fn touch(&self, thread: u32, address: u64, write: bool) -> Step {
        let Some(word) = self.word(address) else { return Step::Full };
        let seen = word.load(Relaxed);
        if seen & FOLLOWED != 0 {
            return Step::Followed(seen & !FOLLOWED);
        }
        if seen & OWNER == thread + 1 && (!write || seen & WROTE != 0) {
            return Step::Done;
        }
        pass_on(word, seen, thread, write)
    }

    /// Forgets who touched the lines that `start..end` overlaps, and calls `followed` with those that are followed.
    pub fn renew(&self, start: u64, end: u64, followed: &mut dyn FnMut(u32)) {
        self.each(start, end, &mut |word| match word.load(Relaxed) {
            0 => {}
            seen if seen & FOLLOWED != 0 => followed(seen & !FOLLOWED),
            _ => word.store(0, Relaxed),
        });
    }

    /// Calls `followed` with the lines that are followed and that `start..end` overlaps.
    pub fn followed(&self, start: u64, end: u64, followed: &mut dyn FnMut(u32)) {
        self.each(start, end, &mut |word| {
            let seen = word.load(Relaxed);
            if seen & FOLLOWED != 0 {
                followed(seen & !FOLLOWED);
            }
        });
    }

    /// Calls `visit` with the words of lines that `start..end` overlaps, where there are any.
    fn each(&self, start: u64, end: u64, visit: &mut dyn FnMut(&AtomicU32)) {
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

/// The word of a line that `thread` touches and that was not its own, or that it writes first.
#[cold]
fn pass_on(word: &AtomicU32, mut seen: u32, thread: u32, write: bool) -> Step {
    loop {
        if seen & FOLLOWED != 0 {
            return Step::Followed(seen & !FOLLOWED);
        }
        let wrote = if write { WROTE } else { 0 };
        let next = if seen == 0 {
            (thread + 1) | wrote
        } else if seen & READ != 0 {
            if write {
                return Step::Follow;
            }
            return Step::Done;
        } else if seen & OWNER == thread + 1 {
            seen | wrote
        } else if seen & MOVES == 0 {
            // What the first thread did is forgotten.
            (thread + 1) | MOVED | wrote
        } else if seen & MOVES == MOVED {
            (thread + 1) | (2 * MOVED) | (seen & WROTE) | wrote
        } else if (seen | wrote) & WROTE != 0 {
            return Step::Follow;
        } else {
            READ
        };
        if next == seen {
            return Step::Done;
        }
        match word.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return Step::Done,
            Err(now) => seen = now,
        }
    }
}

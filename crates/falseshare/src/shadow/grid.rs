//! One word for each line of memory that a process touches: who touched it so far.
//!
//! Nearly all accesses end here: the line belongs to the thread that touches it. A line that is passed on is not
//! yet shared: what `main` prepares and a worker then uses, and what comes back once, changes hands twice. It is
//! **followed from the third change of hands** on, where anybody wrote since the first; what was before counts for
//! nothing. Lines that are only read after they were passed on are never followed.

use crate::shadow::{region::Layout, sys::Memory};
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
/// Number of the chunk of zeros that stands for all chunks for which there was no room.
const FULL: u32 = 1;

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

/// Most bytes of an access that is answered at once.
const MOST_BYTES: u64 = 16;

/// What is needed to see that a line is a thread's own; valid as long as its [`Grid`].
#[derive(Clone, Copy, Debug)]
pub struct Own {
    directory: *const AtomicU32,
    pool: *const AtomicU32,
    owner: u32,
    shift: u32,
    shift_bytes: u64,
    last_byte: u64,
}

/// What is seen at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glance {
    /// The access is to the thread's own line, and nothing is to be done.
    Own,
    /// The line is followed, at this place of the arena; the access is at this offset of it.
    Followed(u32, u32),
    /// It takes a longer look.
    Other,
}

impl Own {
    /// Looks at the line of `address`.
    ///
    /// # Safety
    /// The grid is there.
    #[inline]
    pub unsafe fn glance(&self, address: u64, write: bool) -> Glance {
        let address = address.wrapping_sub(self.shift_bytes);
        let line = address >> self.shift;
        let offset = address & ((1 << self.shift) - 1);
        if address >> ADDRESS_BITS != 0 || offset > self.last_byte {
            return Glance::Other;
        }
        // SAFETY: the directory has an entry for each address, and the pool all chunks that it tells; those that are
        // absent or had no room are chunks of zeros, which are nobody's.
        let word = unsafe {
            let chunk = (*self.directory.add((line / CHUNK as u64) as usize)).load(Relaxed) as usize;
            (*self.pool.add(chunk * CHUNK + line as usize % CHUNK)).load(Relaxed)
        };
        let kept = if write { FOLLOWED | OWNER | WROTE } else { FOLLOWED | OWNER };
        if word & kept == self.owner | (kept & WROTE) {
            Glance::Own
        } else if word & FOLLOWED != 0 {
            Glance::Followed(word & !FOLLOWED, offset as u32)
        } else {
            Glance::Other
        }
    }
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

    /// A way to answer most accesses of `thread` at once.
    pub fn own(&self, thread: u32) -> Own {
        Own {
            directory: self.directory.first(),
            pool: self.pool.first(),
            owner: thread + 1,
            shift: self.shift,
            shift_bytes: u64::from(self.layout.shift_bytes),
            last_byte: u64::from(self.layout.line_bytes) - MOST_BYTES,
        }
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
            .then(|| unsafe { &*self.directory.first::<AtomicU32>().add(index as usize) })
    }

    /// Word `line % CHUNK` of a chunk.
    #[inline]
    fn word_in(&self, chunk: u32, line: u64) -> &AtomicU32 {
        let index = chunk as usize * CHUNK + line as usize % CHUNK;
        // SAFETY: chunks of the directory are inside the pool.
        unsafe { &*self.pool.first::<AtomicU32>().add(index) }
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
        let used = unsafe { &*self.used.first::<AtomicU32>() };
        let first = FULL + 1;
        let room = used.load(Relaxed) + first < self.chunks;
        let chunk = if room { used.fetch_add(1, Relaxed) + first } else { FULL };
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
        let writes = if write { WROTE } else { 0 };
        let next = if seen == 0 {
            (thread + 1) | writes
        } else if seen & READ != 0 {
            if write {
                return Step::Follow;
            }
            return Step::Done;
        } else if seen & OWNER == thread + 1 {
            seen | writes
        } else if seen & MOVES == 0 {
            // What the first thread did is forgotten.
            (thread + 1) | MOVED | writes
        } else if seen & MOVES == MOVED {
            (thread + 1) | (2 * MOVED) | (seen & WROTE) | writes
        } else if (seen | writes) & WROTE != 0 {
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

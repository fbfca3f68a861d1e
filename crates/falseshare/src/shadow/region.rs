//! Memory that the emulator's plugin writes and the observer reads: one file without a name, mapped by both.
//!
//! ```text
//! Header | Slot, one for each process | arena: lines, seats, counts, blocks, stacks, in granules of 64 bytes
//! ```
//!
//! The file is as long as it can ever become and takes memory only where it was written. Indices into the arena
//! are numbers of granules; 0 is nobody.

use crate::shadow::sys::{self, Memory};
use std::{
    io,
    os::fd::AsRawFd,
    ptr,
    sync::atomic::{
        AtomicI32, AtomicU32, AtomicU64,
        Ordering::{AcqRel, Relaxed},
    },
};

/// Bytes of a granule of the arena.
pub const GRANULE: usize = 64;
/// Most processes that are told apart.
pub const SLOTS: usize = 1024;
/// Most threads of a process that are told apart, counted over its whole life.
pub const THREADS: usize = 4096;
/// Most mappings of a process that are remembered at a time.
pub const MAPS: usize = 8192;
/// Bytes for the paths of mapped files of a process.
pub const TEXT: usize = 1 << 20;
/// Most layouts at a time.
pub const LAYOUTS: usize = 8;
/// A process runs, or ended without saying so.
pub const RUNS: u32 = 0;
/// A process said that it ends.
pub const ENDED: u32 = 1;
/// A process tries to become another program.
pub const BECOMES: u32 = 2;
/// The first word of a region: what wrote it and how.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mcshad01");

/// How addresses are divided into lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Layout {
    /// Bytes of a line: 32, 64 or 128.
    pub line_bytes: u32,
    /// Bytes by which lines start after a multiple of their size.
    pub shift_bytes: u32,
}

/// The start of a region.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// Granules of the arena.
    pub granules: u64,
    /// Lines of [`crate::shadow::grid::CHUNK`] that one process may have.
    pub chunks: u64,
    /// Layouts in use.
    pub layout_count: u32,
    /// Slots that have been asked for: may exceed [`SLOTS`].
    pub taken: AtomicU32,
    /// Times that a slot was given again.
    pub reused: AtomicU32,
    /// The layouts.
    pub layouts: [Layout; LAYOUTS],
    /// Granules that have been asked for: may exceed `granules`.
    pub used: AtomicU64,
}

/// What one process tells.
#[repr(C, align(64))]
pub struct Slot {
    /// Its id; 0 where the slot was never used.
    pub pid: AtomicI32,
    /// [`RUNS`], [`BECOMES`] or [`ENDED`].
    pub ended: AtomicU32,
    /// Whether [`Slot::escape`] was executed.
    pub escaped: AtomicU32,
    /// Threads that registered: may exceed [`THREADS`].
    pub threads: AtomicU32,
    /// Records in `maps`.
    pub maps: AtomicU32,
    /// Bytes of `text` in use.
    pub text_used: AtomicU32,
    /// The line that was tracked last.
    pub lines: AtomicU32,
    /// Where the program's own heap (`brk`) begins and ends.
    pub heap: [AtomicU64; 2],
    /// Accesses in memory for which no room was left to follow it.
    pub not_followed: AtomicU64,
    /// Accesses of threads beyond [`THREADS`].
    pub strangers: AtomicU64,
    /// Mappings that found no room.
    pub lost_maps: AtomicU64,
    /// Blocks of the allocator that found no room.
    pub lost_blocks: AtomicU64,
    /// Whether a line changes hands so often that it is looked at some of the time: see [`crate::shadow::windows`].
    pub sampled: AtomicU32,
    /// The program, ended by a zero.
    pub program: [u8; 1024],
    /// A program that it became and that runs unobserved, ended by a zero; then why, as far as known, ended by a zero.
    pub escape: [u8; 1024],
    /// The threads.
    pub thread: [Thread; THREADS],
    /// The mappings.
    pub map: [Map; MAPS],
    /// Paths, each ended by a zero; the first byte is never used.
    pub text: [u8; TEXT],
}

impl Slot {
    /// Makes it as new.
    fn clear(&self) {
        let thread = &self.thread[0];
        for word in [&thread.accesses, &thread.stack[0], &thread.stack[1], &thread.name[0], &thread.name[1]] {
            word.store(0, Relaxed);
        }
        thread.ended.store(0, Relaxed);
        for word in [&self.heap[0], &self.heap[1], &self.strangers, &self.lost_maps, &self.lost_blocks] {
            word.store(0, Relaxed);
        }
        for word in [&self.threads, &self.maps, &self.text_used, &self.sampled] {
            word.store(0, Relaxed);
        }
    }
}

/// One thread; a line of its own, for it counts its accesses there.
#[repr(C, align(64))]
pub struct Thread {
    /// Its id.
    pub tid: AtomicI32,
    /// Whether it has ended.
    pub ended: AtomicU32,
    /// Accesses that it made.
    pub accesses: AtomicU64,
    /// Where its stack begins and ends.
    pub stack: [AtomicU64; 2],
    /// Its name, as two words of the 16 bytes of `/proc/PID/task/TID/comm`.
    pub name: [AtomicU64; 2],
}

/// One mapping.
#[repr(C)]
pub struct Map {
    /// First address.
    pub start: AtomicU64,
    /// Address behind the last.
    pub end: AtomicU64,
    /// Where in the file it begins.
    pub offset: AtomicU64,
    /// Where in `text` the path of the file is; 0 for memory without a file.
    pub path: AtomicU32,
    /// Whether it is there now.
    pub live: AtomicU32,
}

/// The mapped region.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    /// What the header said when it was mapped: a program could write there.
    granules: u64,
    chunks: u64,
    layouts: Vec<Layout>,
}

const SLOTS_AT: usize = 4096;
const ARENA_AT: usize = SLOTS_AT + SLOTS * size_of::<Slot>();

impl Region {
    /// Makes a region for lines of these layouts and returns it with its file. Half of `limit` bytes is for lines
    /// that are shared, of all processes; half in each process for the words that tell whether they are, in all
    /// layouts, and for blocks of its allocator. Beside it a process takes some pages of its slot, and 16 KiB for
    /// each thread.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `ftruncate(2)`, `mmap(2)`; `InvalidInput` where there is no layout, too many, or
    /// one that cannot be followed.
    pub fn create(layouts: &[Layout], limit: u64) -> io::Result<(Self, std::fs::File)> {
        let possible = |layout: &Layout| {
            matches!(layout.line_bytes, 32 | 64 | 128) && layout.shift_bytes < layout.line_bytes
        };
        if layouts.is_empty() || layouts.len() > LAYOUTS || !layouts.iter().all(possible) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let granules = (limit / 2 / GRANULE as u64).clamp(64, (1 << 31) - 1);
        let file = sys::memory_file(c"manycore-shadow")?;
        file.set_len(ARENA_AT as u64 + granules * GRANULE as u64)?;
        // Half of what a process may have is for blocks of its allocator.
        let chunks = (limit / 4 / crate::shadow::grid::CHUNK_BYTES as u64).max(4);
        let memory = Memory::shared(ARENA_AT + granules as usize * GRANULE, file.as_raw_fd())?;
        let region = Self { memory, granules, chunks, layouts: layouts.to_vec() };
        let mut kept = [Layout { line_bytes: 0, shift_bytes: 0 }; LAYOUTS];
        kept[..layouts.len()].copy_from_slice(layouts);
        let header = Header {
            magic: MAGIC,
            granules,
            chunks,
            layout_count: layouts.len() as u32,
            taken: AtomicU32::new(0),
            reused: AtomicU32::new(0),
            layouts: kept,
            used: AtomicU64::new(1),
        };
        // SAFETY: the memory is new, large enough and aligned to a page.
        unsafe { ptr::write(region.memory.base().cast(), header) };
        Ok((region, file))
    }

    /// Maps a region that another process made.
    ///
    /// # Errors
    /// Those of opening and mapping; `InvalidData` where the file is no region of this version.
    pub fn open(path: &str) -> io::Result<Self> {
        let file = std::fs::File::options().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len() as usize;
        if bytes < ARENA_AT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = Memory::shared(bytes, file.as_raw_fd())?;
        let mut region = Self { memory, granules: 0, chunks: 0, layouts: Vec::new() };
        let header = region.header();
        let (granules, chunks, count) = (header.granules, header.chunks, header.layout_count as usize);
        let is_whole = (bytes - ARENA_AT) as u64 / GRANULE as u64 == granules;
        if header.magic != MAGIC || !is_whole || !(1..=LAYOUTS).contains(&count) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        region.layouts = header.layouts[..count].to_vec();
        (region.granules, region.chunks) = (granules, chunks);
        Ok(region)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the memory is mapped as long as we live; all that changes later is atomic.
        unsafe { &*self.memory.base().cast() }
    }

    /// The layouts.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// Chunks that a process may have for each layout.
    pub fn chunks_of_layout(&self) -> u64 {
        (self.chunks / self.layouts.len() as u64).max(4)
    }

    /// Most live blocks of the allocator that a process may know: 48 bytes each are reckoned, of a quarter of the
    /// limit.
    pub fn most_blocks(&self) -> usize {
        (self.granules * GRANULE as u64 / 2 / 48) as usize
    }

    /// Slot `index`.
    ///
    /// # Panics
    /// Where there is none: it is not below [`SLOTS`].
    pub fn slot(&self, index: usize) -> &Slot {
        assert!(index < SLOTS);
        // SAFETY: as above; the texts are written before they are told.
        unsafe { &*self.memory.base().add(SLOTS_AT + index * size_of::<Slot>()).cast() }
    }

    /// Where slot `index` is, for those who write its texts.
    pub fn slot_address(&self, index: usize) -> *mut Slot {
        ptr::from_ref(self.slot(index)).cast_mut()
    }

    /// Takes a slot for the calling process: a new one, or that of a process of one thread that has ended, of which
    /// there is nothing to tell. `None` where all are in use.
    pub fn take_slot(&self) -> Option<usize> {
        let header = self.header();
        let pid = std::process::id() as i32;
        let index = header.taken.fetch_add(1, Relaxed) as usize;
        let used = index.min(SLOTS);
        // What this process was before it became another program has ended now.
        for slot in (0..used).map(|index| self.slot(index)).filter(|slot| slot.pid.load(Relaxed) == pid) {
            let _ = slot.ended.compare_exchange(BECOMES, ENDED, AcqRel, Relaxed);
        }
        if index < SLOTS {
            return Some(index);
        }
        // The command's own slot stays the first.
        let index = (1..SLOTS).find(|index| {
            let slot = self.slot(*index);
            slot.threads.load(Relaxed) <= 1
                && slot.lines.load(Relaxed) == 0
                && slot.escaped.load(Relaxed) == 0
                && slot.not_followed.load(Relaxed) == 0
                && slot.ended.compare_exchange(ENDED, RUNS, AcqRel, Relaxed).is_ok()
        })?;
        header.reused.fetch_add(1, Relaxed);
        self.slot(index).clear();
        Some(index)
    }

    /// Takes room for a `T` of zeros in the arena; `None` where it is full.
    pub fn allocate<T>(&self) -> Option<u32> {
        let granules = size_of::<T>().div_ceil(GRANULE) as u64;
        let header = self.header();
        // Looked at first, so that a full arena does not count on for ever.
        if header.used.load(Relaxed).saturating_add(granules) > self.granules {
            return None;
        }
        let index = header.used.fetch_add(granules, Relaxed);
        (index.saturating_add(granules) <= self.granules).then_some(index as u32)
    }

    /// What is at granule `index`; `None` for 0 and for what is not inside the arena.
    pub fn get<T>(&self, index: u32) -> Option<&T> {
        let granules = size_of::<T>().div_ceil(GRANULE) as u64;
        let inside = index != 0 && u64::from(index) + granules <= self.granules;
        // SAFETY: the place is inside the memory and aligned; our types are made of atomics and any bits are valid.
        inside.then(|| unsafe { &*self.memory.base().add(ARENA_AT + index as usize * GRANULE).cast() })
    }
}

/// Writes a text and a zero behind it; what does not fit is left out.
///
/// # Safety
/// Nobody else reads or writes there meanwhile.
pub unsafe fn write_text<const N: usize>(to: *mut [u8; N], text: &[u8]) {
    let count = text.len().min(N - 1);
    // SAFETY: the caller says so, and it fits.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), count);
        to.cast::<u8>().add(count).write(0);
    }
}

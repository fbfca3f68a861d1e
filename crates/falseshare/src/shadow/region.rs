//! Shared memory that the plugin in the emulator writes and the observer reads: an anonymous file that both map.
//!
//! ```text
//! Header | Slot, one for each process | arena: lines, thread records, counts, blocks, stacks, in granules of 64 bytes
//! ```
//!
//! The file has its final size from the start, but memory is only allocated where it is written. Indexes into
//! the arena are numbers of granules; 0 means none.

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

/// Size of a granule of the arena in bytes.
pub const GRANULE: usize = 64;
/// Maximum number of processes that are observed.
pub const SLOTS: usize = 1024;
/// Maximum number of threads of a process, including those that have exited.
pub const THREADS: usize = 4096;
/// Maximum number of mappings of a process that are recorded at a time.
pub const MAPS: usize = 8192;
/// Size in bytes of the buffer for paths of a process's mapped files.
pub const TEXT: usize = 1 << 20;
/// Maximum number of layouts at a time.
pub const LAYOUTS: usize = 8;
/// The process runs, or exited without a report.
pub const RUNS: u32 = 0;
/// The process reported its exit.
pub const ENDED: u32 = 1;
/// The process tries to execute another program.
pub const EXECUTES: u32 = 2;
/// The first word of a region: its format and version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mcshad01");

/// How addresses are divided into cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LineLayout {
    /// Size of a line in bytes: 32, 64 or 128.
    pub line_bytes: u32,
    /// Offset in bytes of the start of a line from a multiple of its size.
    pub shift_bytes: u32,
}

/// The header of a region.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// Number of granules in the arena.
    pub granules: u64,
    /// Number of chunks of [`crate::shadow::owner_table::CHUNK`] lines that one process may use.
    pub chunks: u64,
    /// Number of layouts in use.
    pub layout_count: u32,
    /// Number of requested slots; may exceed [`SLOTS`].
    pub taken: AtomicU32,
    /// Number of times that a slot was reused.
    pub reused: AtomicU32,
    /// The layouts.
    pub layouts: [LineLayout; LAYOUTS],
    /// Number of requested granules; may exceed `granules`.
    pub used: AtomicU64,
}

/// The data of one process.
#[repr(C, align(64))]
pub struct Slot {
    /// Its process id; 0 if the slot was never used.
    pub pid: AtomicI32,
    /// [`RUNS`], [`EXECUTES`] or [`ENDED`].
    pub ended: AtomicU32,
    /// Whether [`Slot::escape`] was executed.
    pub escaped: AtomicU32,
    /// Number of registered threads; may exceed [`THREADS`].
    pub threads: AtomicU32,
    /// Number of records in `maps`.
    pub maps: AtomicU32,
    /// Number of bytes of `text` in use.
    pub text_used: AtomicU32,
    /// Index of the line that was added last.
    pub lines: AtomicU32,
    /// Start and end of the program's own heap (`brk`).
    pub heap: [AtomicU64; 2],
    /// Number of accesses that were not followed because there was no space.
    pub unfollowed_accesses: AtomicU64,
    /// Number of accesses of threads beyond [`THREADS`].
    pub overflow_accesses: AtomicU64,
    /// Number of mappings for which there was no space.
    pub lost_maps: AtomicU64,
    /// Number of heap blocks for which there was no space.
    pub lost_blocks: AtomicU64,
    /// Whether a line had so many transfers that it is only sampled: see [`crate::shadow::sampling_windows`].
    pub sampled: AtomicU32,
    /// Path of the program, zero-terminated.
    pub program: [u8; 1024],
    /// Path of a program that it executed and that runs unobserved, zero-terminated; then the reason if
    /// known, zero-terminated.
    pub escape: [u8; 1024],
    /// The threads.
    pub thread: [Thread; THREADS],
    /// The mappings.
    pub map: [Map; MAPS],
    /// Paths, each zero-terminated. The first byte is unused.
    pub text: [u8; TEXT],
}

impl Slot {
    /// Resets the slot to its initial state.
    fn clear(&self) {
        let thread = &self.thread[0];
        for word in [&thread.accesses, &thread.stack[0], &thread.stack[1], &thread.name[0], &thread.name[1]] {
            word.store(0, Relaxed);
        }
        thread.ended.store(0, Relaxed);
        for word in
            [&self.heap[0], &self.heap[1], &self.overflow_accesses, &self.lost_maps, &self.lost_blocks]
        {
            word.store(0, Relaxed);
        }
        for word in [&self.threads, &self.maps, &self.text_used, &self.sampled] {
            word.store(0, Relaxed);
        }
    }
}

/// One thread. It has a cache line of its own, because the thread counts its accesses there.
#[repr(C, align(64))]
pub struct Thread {
    /// Its kernel thread id.
    pub tid: AtomicI32,
    /// Whether it has exited.
    pub ended: AtomicU32,
    /// Number of its accesses.
    pub accesses: AtomicU64,
    /// Start and end of its stack.
    pub stack: [AtomicU64; 2],
    /// Its name, as two words with the 16 bytes of `/proc/PID/task/TID/comm`.
    pub name: [AtomicU64; 2],
}

/// One mapping.
#[repr(C)]
pub struct Map {
    /// First address.
    pub start: AtomicU64,
    /// End address, exclusive.
    pub end: AtomicU64,
    /// Offset in the file, in bytes.
    pub offset: AtomicU64,
    /// Offset of the file's path in `text`; 0 for memory without a file.
    pub path: AtomicU32,
    /// Whether it exists now.
    pub live: AtomicU32,
}

/// The mapped region.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    /// Values of the header when it was mapped, because a program could overwrite the header.
    granules: u64,
    chunks: u64,
    layouts: Vec<LineLayout>,
}

const SLOTS_AT: usize = 4096;
const ARENA_AT: usize = SLOTS_AT + SLOTS * size_of::<Slot>();

impl Region {
    /// Creates a region for these line layouts and returns it with its file. Half of `limit` bytes holds the
    /// shared lines of all processes. The other half is a limit for each process, for the words that show
    /// which lines are shared, in all layouts, and for heap blocks. In addition, a process uses some pages of
    /// its slot, and 16 KiB for each thread.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `ftruncate(2)`, `mmap(2)`; `InvalidInput` if there is no layout, too many,
    /// or an unsupported one.
    pub fn create(layouts: &[LineLayout], limit: u64) -> io::Result<(Self, std::fs::File)> {
        let possible = |layout: &LineLayout| {
            matches!(layout.line_bytes, 32 | 64 | 128) && layout.shift_bytes < layout.line_bytes
        };
        if layouts.is_empty() || layouts.len() > LAYOUTS || !layouts.iter().all(possible) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let granules = (limit / 2 / GRANULE as u64).clamp(64, (1 << 31) - 1);
        let file = sys::memory_file(c"manycore-shadow")?;
        file.set_len(ARENA_AT as u64 + granules * GRANULE as u64)?;
        sys::seal_size(&file)?;
        // Half of a process's limit is for heap blocks.
        let chunks = (limit / 4 / crate::shadow::owner_table::CHUNK_BYTES as u64).max(4);
        let memory = Memory::shared(ARENA_AT + granules as usize * GRANULE, file.as_raw_fd())?;
        let region = Self { memory, granules, chunks, layouts: layouts.to_vec() };
        let mut kept = [LineLayout { line_bytes: 0, shift_bytes: 0 }; LAYOUTS];
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
        // SAFETY: the memory is new, large enough and page-aligned.
        unsafe { ptr::write(region.memory.base().cast(), header) };
        Ok((region, file))
    }

    /// Maps a region that another process created.
    ///
    /// # Errors
    /// Those of opening and mapping; `InvalidData` if the file is not a region of this version.
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

    /// Returns the header.
    pub fn header(&self) -> &Header {
        // SAFETY: the memory is mapped while `self` exists, and all fields that change later are atomic.
        unsafe { &*self.memory.base().cast() }
    }

    /// Returns the layouts.
    pub fn layouts(&self) -> &[LineLayout] {
        &self.layouts
    }

    /// Returns the number of chunks that a process may use for each layout.
    pub fn chunks_of_layout(&self) -> u64 {
        (self.chunks / self.layouts.len() as u64).max(4)
    }

    /// Returns the most allocated heap blocks that a process may record: a quarter of the limit, at 48 bytes per block.
    pub fn max_blocks(&self) -> usize {
        (self.granules * GRANULE as u64 / 2 / 48) as usize
    }

    /// Returns slot `index`.
    ///
    /// # Panics
    /// If `index` is not below [`SLOTS`].
    pub fn slot(&self, index: usize) -> &Slot {
        assert!(index < SLOTS);
        // SAFETY: as above; texts are written before they are published.
        unsafe { &*self.memory.base().add(SLOTS_AT + index * size_of::<Slot>()).cast() }
    }

    /// Returns the address of slot `index`, for writing its texts.
    pub fn slot_address(&self, index: usize) -> *mut Slot {
        ptr::from_ref(self.slot(index)).cast_mut()
    }

    /// Takes a slot for the calling process: a new one, or that of a single-threaded process that has exited
    /// and has nothing to report. Returns `None` if all are in use.
    pub fn take_slot(&self) -> Option<usize> {
        let header = self.header();
        let pid = std::process::id() as i32;
        let index = header.taken.fetch_add(1, Relaxed) as usize;
        let used = index.min(SLOTS);
        // The program that this process ran before it executed another one has ended now.
        for slot in (0..used).map(|index| self.slot(index)).filter(|slot| slot.pid.load(Relaxed) == pid) {
            let _ = slot.ended.compare_exchange(EXECUTES, ENDED, AcqRel, Relaxed);
        }
        if index < SLOTS {
            return Some(index);
        }
        // The slot of the command itself remains the first.
        let index = (1..SLOTS).find(|index| {
            let slot = self.slot(*index);
            slot.threads.load(Relaxed) <= 1
                && slot.lines.load(Relaxed) == 0
                && slot.escaped.load(Relaxed) == 0
                && slot.unfollowed_accesses.load(Relaxed) == 0
                && slot.ended.compare_exchange(ENDED, RUNS, AcqRel, Relaxed).is_ok()
        })?;
        header.reused.fetch_add(1, Relaxed);
        self.slot(index).clear();
        Some(index)
    }

    /// Allocates a zeroed `T` in the arena; returns `None` if it is full.
    pub fn allocate<T>(&self) -> Option<u32> {
        let granules = size_of::<T>().div_ceil(GRANULE) as u64;
        let header = self.header();
        // Checked first, so that the count does not grow without limit when the arena is full.
        if header.used.load(Relaxed).saturating_add(granules) > self.granules {
            return None;
        }
        let index = header.used.fetch_add(granules, Relaxed);
        (index.saturating_add(granules) <= self.granules).then_some(index as u32)
    }

    /// Returns the object at granule `index`; `None` for 0 and for indexes outside of the arena.
    pub fn get<T>(&self, index: u32) -> Option<&T> {
        let granules = size_of::<T>().div_ceil(GRANULE) as u64;
        let inside = index != 0 && u64::from(index) + granules <= self.granules;
        // SAFETY: the address is inside the memory and aligned; our types consist of atomics, for which any
        // bits are valid.
        inside.then(|| unsafe { &*self.memory.base().add(ARENA_AT + index as usize * GRANULE).cast() })
    }
}

/// Writes a text and a terminating zero; text that does not fit is cut off.
///
/// # Safety
/// No other thread may read or write there during the call.
pub unsafe fn write_text<const N: usize>(to: *mut [u8; N], text: &[u8]) {
    let count = text.len().min(N - 1);
    // SAFETY: required of the caller, and the text fits.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), count);
        to.cast::<u8>().add(count).write(0);
    }
}

//! Blocks of the program's heap: their addresses, sizes, and the callers that allocated them.

use crate::shadow::{
    lines::TrackedLine,
    region::{Region, Slot},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, Release},
    },
};

/// Maximum number of return addresses that are stored for an allocation.
pub const CALLERS: usize = 16;
/// Maximum number of blocks that are stored for a line.
const MAX_LINE_BLOCKS: usize = 32;

/// The return addresses of the calls that led to an allocation.
#[repr(C, align(64))]
pub struct Callers {
    /// Number of addresses.
    pub count: AtomicU32,
    /// Return addresses, innermost first.
    pub addresses: [AtomicU64; CALLERS],
}

/// A block that overlaps a followed line.
#[repr(C, align(64))]
pub struct Block {
    /// First address.
    pub start: AtomicU64,
    /// Requested size in bytes.
    pub bytes: AtomicU64,
    /// Number of transfers of the line when the block was allocated, or when the line was first followed.
    pub from: AtomicU64,
    /// Number of transfers of the line when the block was freed; `u64::MAX` while it is allocated.
    pub until: AtomicU64,
    /// Index of its [`Callers`].
    pub callers: AtomicU32,
    /// Index of the block that was added before this one.
    pub next: AtomicU32,
}

/// The allocated blocks of a process.
#[derive(Debug, Default)]
pub struct Heap {
    live: BTreeMap<u64, (u64, u32)>,
    stacks: HashMap<Vec<u64>, u32>,
}

impl Heap {
    /// Adds a new block.
    pub fn allocated(&mut self, region: &Region, slot: &Slot, start: u64, bytes: u64, callers: &[u64]) {
        if self.live.len() >= region.max_blocks() {
            slot.lost_blocks.fetch_add(1, Relaxed);
            return;
        }
        let callers = self.callers(region, callers);
        self.live.insert(start, (bytes, callers));
    }

    fn callers(&mut self, region: &Region, callers: &[u64]) -> u32 {
        if callers.is_empty() {
            return 0;
        }
        if let Some(known) = self.stacks.get(callers) {
            return *known;
        }
        let index = region.allocate::<Callers>();
        let Some((index, kept)) = index.and_then(|index| Some((index, region.get::<Callers>(index)?))) else {
            return 0;
        };
        for (kept, address) in kept.addresses.iter().zip(callers) {
            kept.store(*address, Relaxed);
        }
        kept.count.store(callers.len().min(CALLERS) as u32, Release);
        self.stacks.insert(callers.to_vec(), index);
        index
    }

    /// Removes the block at `start`; returns its size in bytes.
    pub fn freed(&mut self, start: u64) -> Option<u64> {
        self.live.remove(&start).map(|(bytes, _)| bytes)
    }

    /// Adds to `line` the allocated blocks that overlap it.
    pub fn note(&self, region: &Region, line: &TrackedLine, line_bytes: u64) {
        let start = line.address.load(Relaxed);
        let before = self.live.range(..start).next_back();
        let inside = self.live.range(start..start.saturating_add(line_bytes));
        for (block, (bytes, callers)) in before.into_iter().chain(inside) {
            if block.saturating_add(*bytes) > start {
                remember(region, line, *block, *bytes, *callers);
            }
        }
    }
}

/// Returns the blocks of a line.
pub fn blocks_of_line<'a>(
    region: &'a Region,
    line: &TrackedLine,
) -> impl Iterator<Item = &'a Block> + use<'a> {
    let mut index = line.blocks.load(Relaxed);
    let mut left = 4 * MAX_LINE_BLOCKS;
    std::iter::from_fn(move || {
        let block = region.get::<Block>(index).filter(|_| left > 0)?;
        index = block.next.load(Relaxed);
        left -= 1;
        Some(block)
    })
}

fn remember(region: &Region, line: &TrackedLine, start: u64, bytes: u64, callers: u32) {
    let transfers = line.transfers.load(Relaxed);
    let same = |block: &&Block| {
        block.start.load(Relaxed) == start
            && block.bytes.load(Relaxed) == bytes
            && block.until.load(Relaxed) == u64::MAX
    };
    if blocks_of_line(region, line).any(|block| same(&block)) {
        return;
    }
    // Blocks without transfers during their life can be dropped.
    let idle = |block: &&Block| block.until.load(Relaxed) == block.from.load(Relaxed);
    let known = blocks_of_line(region, line).find(idle);
    let block = match known {
        Some(block) => block,
        None if blocks_of_line(region, line).count() >= MAX_LINE_BLOCKS => return,
        None => {
            let index = region.allocate::<Block>();
            let Some((index, block)) = index.and_then(|index| Some((index, region.get::<Block>(index)?)))
            else {
                return;
            };
            block.next.store(line.blocks.load(Relaxed), Relaxed);
            line.blocks.store(index, Release);
            block
        }
    };
    block.start.store(start, Relaxed);
    block.bytes.store(bytes, Relaxed);
    block.callers.store(callers, Relaxed);
    block.from.store(transfers, Relaxed);
    block.until.store(u64::MAX, Relaxed);
}

/// Records at `line` that the block at `start` was freed.
pub fn forget(region: &Region, line: &TrackedLine, start: u64) {
    let transfers = line.transfers.load(Relaxed);
    for block in blocks_of_line(region, line) {
        if block.start.load(Relaxed) == start && block.until.load(Relaxed) == u64::MAX {
            block.until.store(transfers, Relaxed);
        }
    }
}

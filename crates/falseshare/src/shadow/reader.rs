//! Reads a region after its processes have ended.
//!
//! The emulated program may have written into the region by mistake, so no index and no chain is trusted.

use crate::shadow::{
    counts::{Counts, unpack_key},
    heap::{self, Callers},
    lines::{self, TrackedLine},
    region::{EXECUTES, RUNS, Region, SLOTS, Slot, THREADS},
    report_protocol::OF_LOCK,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::atomic::Ordering::{Acquire, Relaxed},
};

/// Upper limit for counts. It is more than an emulator counts in a day, and sums of such counts do not overflow.
const MAX_COUNT: u64 = 1 << 40;

/// The data of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSeen {
    /// Its process id.
    pub pid: i32,
    /// Path of its program.
    pub program: String,
    /// Its threads.
    pub threads: Vec<ThreadSeen>,
    /// Its mappings.
    pub maps: Vec<MapSeen>,
    /// Its own heap (`brk`), as start and end.
    pub heap: (u64, u64),
    /// The lines with transfers.
    pub lines: Vec<LineSeen>,
    /// A program that it executed and that ran unobserved, and the reason; empty if unknown.
    pub escape: Option<(String, String)>,
    /// Whether it reported its exit.
    pub ended: bool,
    /// Whether it tried to execute another program in the emulator, which did not start.
    pub exec_failed_silently: bool,
    /// Number of accesses that were not followed because there was no space.
    pub unfollowed_accesses: u64,
    /// Number of accesses of threads beyond the limit.
    pub overflow_accesses: u64,
    /// Number of mappings for which there was no space.
    pub lost_maps: u64,
    /// Number of heap blocks for which there was no space.
    pub lost_blocks: u64,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSeen {
    /// Its kernel thread id.
    pub tid: i32,
    /// Its name; empty if it was not set.
    pub name: String,
    /// Number of its accesses.
    pub accesses: u64,
    /// Its stack, as start and end.
    pub stack: (u64, u64),
    /// Whether it has exited.
    pub ended: bool,
}

/// A mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapSeen {
    /// First address.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Path of the file; empty without one.
    pub path: String,
    /// Whether it existed at the end.
    pub live: bool,
}

/// A line with transfers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSeen {
    /// Address of its first byte.
    pub address: u64,
    /// Index of the layout.
    pub layout: usize,
    /// Number of transfers.
    pub transfers: u64,
    /// Number of those due to false sharing.
    pub false_transfers: u64,
    /// Number of accesses that are missing from `accesses` because there was no space.
    pub uncounted: u64,
    /// The accesses, by thread, code and bytes.
    pub accesses: Vec<AccessSeen>,
    /// Heap blocks that overlap it.
    pub blocks: Vec<BlockSeen>,
}

/// Accesses of a thread by one instruction to the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessSeen {
    /// Index of the thread.
    pub thread: usize,
    /// Address of the instruction, or of the call of the lock function that it is part of.
    pub code: u64,
    /// Whether `code` is such a call.
    pub of_lock: bool,
    /// Offset of the first byte.
    pub offset: u32,
    /// Number of bytes.
    pub bytes: u32,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// A heap block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSeen {
    /// First address.
    pub start: u64,
    /// Requested size in bytes.
    pub bytes: u64,
    /// Return addresses, innermost first.
    pub callers: Vec<u64>,
    /// Number of transfers of the line while the block was allocated.
    pub transfers: u64,
}

/// Processes that are not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreportedProcesses {
    /// Number of single-threaded processes that exited and whose slots were reused.
    pub ended: u32,
    /// Number of processes that got no slot and were not observed.
    pub without_slot: u32,
}

/// Returns the processes of a region, ordered by slot: in the order of their start, unless slots were reused.
pub fn read(region: &Region) -> (Vec<ProcessSeen>, UnreportedProcesses) {
    let taken = region.header().taken.load(Acquire);
    let processes =
        (0..(taken as usize).min(SLOTS)).map(|index| process(region, region.slot(index))).collect();
    let ended = region.header().reused.load(Relaxed);
    (
        processes,
        UnreportedProcesses { ended, without_slot: taken.saturating_sub(SLOTS as u32).saturating_sub(ended) },
    )
}

fn process(region: &Region, slot: &Slot) -> ProcessSeen {
    let count = slot.threads.load(Acquire) as usize;
    ProcessSeen {
        pid: slot.pid.load(Relaxed),
        program: text(&slot.program),
        threads: slot.thread[..count.min(THREADS)].iter().map(thread).collect(),
        maps: maps(slot),
        heap: (slot.heap[0].load(Relaxed), slot.heap[1].load(Relaxed)),
        lines: every_line(region, slot),
        escape: (slot.escaped.load(Acquire) != 0).then(|| two_texts(&slot.escape)),
        ended: slot.ended.load(Relaxed) != RUNS,
        exec_failed_silently: slot.ended.load(Relaxed) == EXECUTES && slot.escaped.load(Acquire) == 0,
        unfollowed_accesses: slot.unfollowed_accesses.load(Relaxed),
        overflow_accesses: slot.overflow_accesses.load(Relaxed),
        lost_maps: slot.lost_maps.load(Relaxed),
        lost_blocks: slot.lost_blocks.load(Relaxed),
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn two_texts(bytes: &[u8]) -> (String, String) {
    let mut texts = bytes.split(|byte| *byte == 0).map(text);
    (texts.next().unwrap_or_default(), texts.next().unwrap_or_default())
}

fn thread(thread: &crate::shadow::region::Thread) -> ThreadSeen {
    let name: Vec<u8> = thread.name.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    ThreadSeen {
        tid: thread.tid.load(Relaxed),
        name: text(&name),
        accesses: thread.accesses.load(Relaxed).min(MAX_COUNT),
        stack: (thread.stack[0].load(Relaxed), thread.stack[1].load(Relaxed)),
        ended: thread.ended.load(Relaxed) != 0,
    }
}

fn maps(slot: &Slot) -> Vec<MapSeen> {
    let count = (slot.maps.load(Acquire) as usize).min(slot.map.len());
    let seen = |map: &crate::shadow::region::Map| MapSeen {
        start: map.start.load(Relaxed),
        end: map.end.load(Relaxed).max(map.start.load(Relaxed)),
        offset: map.offset.load(Relaxed),
        path: match map.path.load(Relaxed) {
            0 => String::new(),
            at => slot.text.get(at as usize..).map(text).unwrap_or_default(),
        },
        live: map.live.load(Relaxed) != 0,
    };
    slot.map[..count].iter().map(seen).collect()
}

fn every_line(region: &Region, slot: &Slot) -> Vec<LineSeen> {
    let mut seen = Vec::new();
    let mut index = slot.lines.load(Acquire);
    // Each piece is reported once, even if several chains contain it.
    let mut reported = HashSet::new();
    while let Some(line) = region.get::<TrackedLine>(index).filter(|_| reported.insert(index)) {
        index = line.next.load(Relaxed);
        if line.transfers.load(Relaxed) > 0 {
            seen.push(one_line(region, slot, line, &mut reported));
        }
    }
    let possible = |line: &LineSeen| {
        line.layout < region.layouts().len() && line.address.checked_add(u64::from(u16::MAX)).is_some()
    };
    seen.retain(possible);
    seen.sort_by_key(|line| (line.layout, line.address));
    seen
}

fn one_line(region: &Region, slot: &Slot, line: &TrackedLine, reported: &mut HashSet<u32>) -> LineSeen {
    let transfers = line.transfers.load(Relaxed).min(MAX_COUNT);
    LineSeen {
        address: line.address.load(Relaxed),
        layout: line.layout.load(Relaxed) as usize,
        transfers,
        false_transfers: lines::false_transfers(region, line).min(transfers),
        uncounted: u64::from(line.uncounted.load(Relaxed)),
        accesses: accesses(region, slot, line, reported),
        blocks: blocks(region, line, transfers),
    }
}

fn accesses(
    region: &Region,
    slot: &Slot,
    line: &TrackedLine,
    reported: &mut HashSet<u32>,
) -> Vec<AccessSeen> {
    let threads = (slot.threads.load(Relaxed) as usize).min(THREADS);
    let mut seen = BTreeMap::new();
    for (_, record) in lines::line_threads(region, line) {
        let mut index = record.counts.load(Acquire);
        while let Some(counts) = region.get::<Counts>(index).filter(|_| reported.insert(index)) {
            index = counts.next.load(Relaxed);
            let thread = counts.thread.load(Relaxed) as usize;
            for count in &counts.kinds {
                let key = count.key.load(Relaxed);
                if key == 0 || thread >= threads {
                    continue;
                }
                let (code, offset, bytes) = unpack_key(key);
                let (of_lock, at) = (code & OF_LOCK != 0, code & !OF_LOCK);
                let entry = AccessSeen { thread, code: at, of_lock, offset, bytes, reads: 0, writes: 0 };
                let entry = seen.entry((thread, code, offset, bytes)).or_insert(entry);
                let add = |sum: u64, times: usize| {
                    sum.saturating_add(count.times[times].load(Relaxed)).min(MAX_COUNT)
                };
                (entry.reads, entry.writes) = (add(entry.reads, 0), add(entry.writes, 1));
            }
        }
    }
    seen.into_values().collect()
}

/// Returns the blocks of a line without overlaps. Of overlapping blocks, the one during whose life the line
/// had most transfers is returned.
fn blocks(region: &Region, line: &TrackedLine, transfers: u64) -> Vec<BlockSeen> {
    let mut all: Vec<BlockSeen> = heap::blocks_of_line(region, line)
        .map(|block| {
            let callers = region.get::<Callers>(block.callers.load(Relaxed)).map(|callers| {
                let count = (callers.count.load(Acquire) as usize).min(callers.addresses.len());
                callers.addresses[..count].iter().map(|address| address.load(Relaxed)).collect()
            });
            let start = block.start.load(Relaxed);
            BlockSeen {
                start,
                bytes: block.bytes.load(Relaxed).min(u64::MAX - start),
                callers: callers.unwrap_or_default(),
                transfers: block.until.load(Relaxed).min(transfers).saturating_sub(block.from.load(Relaxed)),
            }
        })
        .collect();
    all.sort_by_key(|block| std::cmp::Reverse(block.transfers));
    let mut kept: Vec<BlockSeen> = Vec::new();
    for block in all {
        let apart = |other: &BlockSeen| {
            block.start >= other.start.saturating_add(other.bytes)
                || other.start >= block.start.saturating_add(block.bytes)
        };
        if kept.iter().all(apart) {
            kept.push(block);
        }
    }
    kept.sort_by_key(|block| block.start);
    kept
}

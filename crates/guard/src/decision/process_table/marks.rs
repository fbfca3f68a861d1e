//! Moments at which the memory of all processes was recorded, and growth since then.

use super::{GrowthWindow, MARKS, Mark, ProcessEntry, ProcessReading, ProcessTable, WATCHES};
use crate::decision::assessment::MemoryReading;

/// A mark older than this, in nanoseconds, is discarded first.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl ProcessTable {
    /// Records this moment as one from which growth can be measured. The least useful mark is discarded for
    /// it: the one whose neighbours are nearest in proportion to its age.
    ///
    /// `readings` has one reading for each watch, in their order.
    pub fn mark(&mut self, at_ns: u64, readings: &[MemoryReading]) {
        if self.last_mark_ns().is_some_and(|last| at_ns <= last) {
            return;
        }
        let slot = if self.marked < MARKS { self.marked } else { self.discard_mark(at_ns) };
        let mut mark = Mark { at_ns, slot, ..Mark::default() };
        for (at, reading) in readings.iter().take(WATCHES).enumerate() {
            (mark.available[at], mark.shmem[at]) = (reading.available_with_swap(), reading.shmem_bytes);
        }
        self.marks[self.marked.min(MARKS - 1)] = mark;
        self.marked = (self.marked + 1).min(MARKS);
        for process in &mut self.processes {
            process.marked_kib[slot] = marked(&process.reading);
        }
    }

    /// Removes the least useful mark and returns its slot.
    fn discard_mark(&mut self, now_ns: u64) -> usize {
        let worth = |at: usize| {
            let gap = self.marks[at + 1].at_ns - self.marks[at - 1].at_ns;
            gap as f64 / now_ns.saturating_sub(self.marks[at].at_ns).max(1) as f64
        };
        // The oldest mark is discarded after an hour, so that the distant past does not count for ever.
        let least = if now_ns.saturating_sub(self.marks[0].at_ns) > LONGEST_NS {
            0
        } else {
            (1..MARKS - 1).min_by(|&a, &b| worth(a).total_cmp(&worth(b))).unwrap_or(1)
        };
        let slot = self.marks[least].slot;
        self.marks.copy_within(least + 1..MARKS, least);
        slot
    }

    /// Discards all marks: the time since then is unknown (the machine was suspended).
    pub fn discard_marks(&mut self) {
        self.marked = 0;
    }

    /// Returns the time of the last mark.
    pub fn last_mark_ns(&self) -> Option<u64> {
        self.marked.checked_sub(1).map(|last| self.marks[last].at_ns)
    }

    /// Returns the shortest window over which the available memory of a watch has fallen by `least` bytes. If
    /// it has not fallen that much, returns the whole decrease.
    pub fn recent_window(&self, watch: usize, now: &MemoryReading, least: u64) -> Option<GrowthWindow> {
        let enough =
            |mark: &&Mark| mark.available[watch].saturating_sub(now.available_with_swap()) >= least.max(1);
        let mark = self.marks[..self.marked].iter().rev().find(enough);
        mark.map(|mark| window(mark, watch, now)).or_else(|| self.whole_window(watch, now))
    }

    /// Returns the window since the available memory of a watch was largest.
    pub fn whole_window(&self, watch: usize, now: &MemoryReading) -> Option<GrowthWindow> {
        // Among equal marks this finds the latest.
        let mark = self.marks[..self.marked].iter().max_by_key(|mark| mark.available[watch])?;
        Some(window(mark, watch, now)).filter(|window| window.decrease > 0)
    }

    /// Whether a process did not exist when a window began.
    pub fn is_young(process: &ProcessEntry, window: &GrowthWindow) -> bool {
        process.marked_kib[window.slot] == 0
    }

    /// Returns the growth of a process in a window, in bytes: of its own pages, and of the other memory that
    /// it was found to hold, up to the growth of that memory in total. Shared memory that a process only maps
    /// may belong to any process.
    pub fn growth(process: &ProcessEntry, window: &GrowthWindow) -> u64 {
        let own = process.reading.kib.saturating_sub(process.marked_kib[window.slot]);
        let most = if process.held.kind.is_shmem() { window.shmem } else { window.decrease };
        (u64::from(own) << 10) + (u64::from(process.held.growth_kib) << 10).min(most)
    }

    /// Returns the bytes of a decrease that the growth of the processes of the watch does not explain.
    pub fn unexplained(&self, watch: usize, window: &GrowthWindow) -> u64 {
        let members = self.processes.iter().filter(|process| process.watches >> watch & 1 == 1);
        let explained = members.map(|process| Self::growth(process, window)).sum();
        window.decrease.saturating_sub(explained)
    }
}

/// Returns what is stored at a mark: the KiB of a process's own pages, at least 1 if it has any memory.
pub(super) fn marked(reading: &ProcessReading) -> u32 {
    reading.kib.max(u32::from(reading.shmem_kib > 0))
}

fn window(mark: &Mark, watch: usize, now: &MemoryReading) -> GrowthWindow {
    GrowthWindow {
        slot: mark.slot,
        start_ns: mark.at_ns,
        decrease: mark.available[watch].saturating_sub(now.available_with_swap()),
        shmem: now.shmem_bytes.saturating_sub(mark.shmem[watch]),
    }
}

//! What is common to all processes, and whose turn it is.

use super::task_files::TaskFiles;
use crate::task_list::MOST_OF_BLOCK;
use manycore_topology::CpuSet;
use std::{collections::BTreeSet, sync::Arc};

/// Threads of a process with ids of one group have their turn together, so that few blocks
/// change.
const GROUP: u32 = MOST_OF_BLOCK as u32;
/// Most threads that have their turn in one sample, in the mean of all samples.
const MOST_DUE: u32 = 100;
/// A thread is read completely in one of this many of its turns. In each one its affinity is compared, in a single system call.
const COMPLETE: u32 = 8;

/// What is common to all processes.
#[derive(Debug)]
pub(super) struct Context {
    pub files: TaskFiles,
    pub switches: bool,
    pub tick_ns: u64,
    pub page_kib: u64,
    /// Sets of allowed CPUs, each once.
    pub sets: BTreeSet<Arc<CpuSet>>,
    /// The online CPUs.
    pub online: CpuSet,
    pub tids: Vec<u32>,
    /// Each thread has its turn once in this many samples. 1 reads all of them completely each time, as of a `/proc` that is not live.
    pub refresh: u32,
    /// Factor of `refresh`, a power of two: greater than 1 where there are many threads.
    pub stretch: u32,
    /// Number of the sample.
    pub turn: u32,
    /// Whether the kernel can keep sums of CPU times.
    pub can_keep_sums: bool,
    /// When the sample begins in nanoseconds, and for how long the one before was the last one.
    pub at_ns: u64,
    pub elapsed_ns: u64,
}

impl Context {
    /// Returns whether it is the turn of a thread in this sample. Turns are spread, so that a process with many threads does not
    /// make one sample slow.
    pub fn is_due(&self, tid: u32) -> bool {
        let samples = self.refresh * self.stretch;
        tid / GROUP % samples == self.turn % samples
    }

    /// Returns whether a thread whose turn it is is to be read completely. The first one of a process always is.
    pub fn is_due_completely(&self, pid: u32, tid: u32) -> bool {
        let turns = self.turn / (self.refresh * self.stretch);
        pid == tid || (tid / GROUP).wrapping_add(turns).is_multiple_of(COMPLETE)
    }

    /// Begins a sample at a moment in nanoseconds. The one before had this number of threads.
    pub fn begin(&mut self, at_ns: u64, threads: usize) {
        self.elapsed_ns = at_ns.saturating_sub(self.at_ns);
        self.at_ns = at_ns;
        self.turn = self.turn.wrapping_add(1);
        let due = (threads as u32).div_ceil(self.refresh);
        self.stretch = if self.refresh > 1 { due.div_ceil(MOST_DUE).max(1).next_power_of_two() } else { 1 };
    }
}

//! Snapshots from `/proc`, without privileges.
//!
//! A snapshot reads the state of each watched thread once, one after the other, so it is not of a single moment
//! (`examples/cost.rs` measures how long it takes). Threads in state `R` are *runnable*: they run or wait. A CPU
//! runs one of them at a time. So of several runnable threads on one CPU, one counts as running, each of them in turn:
//! which one the scheduler has chosen is not visible, and they take turns there as well. A thread that the sampling
//! thread itself has displaced for a moment counts as running.
//!
//! A CPU without a runnable watched thread is idle, unless other tasks used at least half of its time in the quarter of
//! a second before the last reading of `/proc/stat`. Shorter work of others is not seen. Threads that live for less than
//! the time between two snapshots are mostly not seen either.

use crate::{
    other_work::OtherWork,
    processes::{WatchedRoots, WatchedThreads},
    snapshot::{CpuUse, RunningTask, Snapshot, Source},
};
use manycore_linux::task_state::{TaskState, TaskStateFile};
use manycore_topology::CpuId;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

/// Files that stay open between snapshots. Those of other threads are opened for each snapshot: a process may open
/// 1,024 files unless its limit was raised.
const MOST_OPEN: usize = 400;

/// Reads the states of the threads of watched processes.
#[derive(Debug)]
pub struct ProcfsSource {
    watched: WatchedThreads,
    threads: BTreeMap<(u32, u32), Option<TaskStateFile>>,
    /// Number of files in `threads`.
    open: usize,
    other: OtherWork,
    /// The runnable threads of the snapshot at hand, and their CPUs.
    runnable: Vec<(CpuId, RunningTask)>,
    turn: usize,
}

impl ProcfsSource {
    /// Prepares to watch `roots` and their descendants.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn new(roots: WatchedRoots) -> io::Result<Self> {
        Ok(Self {
            watched: WatchedThreads::new(roots)?,
            threads: BTreeMap::new(),
            open: 0,
            other: OtherWork::new(),
            runnable: Vec::new(),
            turn: 0,
        })
    }

    /// Forgets threads that do not exist any more, and adds new ones.
    fn update(&mut self, now: &BTreeSet<(u32, u32)>) {
        self.threads.retain(|thread, _| now.contains(thread));
        self.open = self.threads.values().flatten().count();
        for &(pid, tid) in now {
            if !self.threads.contains_key(&(pid, tid)) {
                let file = if self.open < MOST_OPEN { TaskStateFile::open(pid, tid).ok() } else { None };
                self.open += usize::from(file.is_some());
                self.threads.insert((pid, tid), file);
            }
        }
    }

    /// Reads the state of all threads; those that have ended are left out from now on.
    fn read(&mut self) {
        let Self { threads, runnable, .. } = self;
        runnable.clear();
        threads.retain(|&(pid, tid), file| {
            let state = match file {
                Some(file) => file.read(),
                None => TaskStateFile::open(pid, tid).ok().and_then(|file| file.read()),
            };
            if let Some(TaskState { is_runnable: true, cpu }) = state {
                runnable.push((cpu, RunningTask { pid, tid }));
            }
            state.is_some()
        });
        runnable.sort_unstable();
    }
}

impl Source for ProcfsSource {
    fn name(&self) -> &'static str {
        "procfs"
    }

    fn snapshot(&mut self, into: &mut Snapshot) -> io::Result<bool> {
        if let Some(now) = self.watched.changed() {
            self.update(&now);
        }
        self.read();
        into.clear();
        let of_cpu = |(cpu, _): &(CpuId, RunningTask)| *cpu;
        let busy =
            self.other.update(self.runnable.chunk_by(|a, b| a.0 == b.0).map(|group| of_cpu(&group[0])));
        let is_known = busy.is_some();
        for &cpu in busy.into_iter().flatten() {
            into.set(cpu, CpuUse::Other);
        }
        for group in self.runnable.chunk_by(|a, b| a.0 == b.0) {
            let (cpu, task) = group[self.turn % group.len()];
            into.set(cpu, CpuUse::Watched(task));
        }
        self.turn = self.turn.wrapping_add(1);
        Ok(is_known)
    }
}

//! The threads of one process, and when their files are read.

use super::{
    task_files::{TaskFiles, thread_count},
    thread::{Reading, Thread},
    waiting::Part,
};
use crate::sample::TaskSample;
use manycore_linux::clock;
use manycore_topology::CpuSet;
use std::{collections::BTreeSet, os::fd::OwnedFd, sync::Arc};

/// Up to this number of threads, all are read whenever one may have run.
const FEW: usize = 8;
/// How many times active threads are read until none of them runs meanwhile.
const TRIES: usize = 3;

/// What is common to all processes.
#[derive(Debug)]
pub(super) struct Context {
    pub files: TaskFiles,
    pub switches: bool,
    /// How many files may be kept open in addition.
    pub open_left: usize,
    /// The part of them that is kept for active threads.
    pub reserved: usize,
    pub tick_ns: u64,
    pub page_kib: u64,
    /// Sets of allowed CPUs, each once.
    pub sets: BTreeSet<Arc<CpuSet>>,
    pub tids: Vec<u32>,
    /// Each thread is read completely once in this many samples; 1 reads all of them each time.
    pub refresh: u32,
    /// Number of the sample.
    pub turn: u32,
}

impl Context {
    /// Returns whether a thread is to be read completely in this sample. They are spread, so that a process with many
    /// threads does not make one sample slow.
    pub fn is_due(&self, tid: u32) -> bool {
        tid % self.refresh == self.turn % self.refresh
    }
}

/// A process at its last reading.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Its CPU clock in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// What its CPU clock counts beside the time of its threads: the time of threads that have ended, modulo 2^64. Absent
    /// unless it is known exactly.
    ended_ns: Option<u64>,
    threads: Vec<Thread>,
}

/// Adds numbers modulo 2^64.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

impl Process {
    /// Returns the number of threads that were runnable.
    pub fn runnable(&self) -> usize {
        self.threads.iter().filter(|thread| thread.sample.state == 'R').count()
    }

    /// Returns the threads, ascending.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = &TaskSample> {
        self.threads.iter().map(|thread| &thread.sample)
    }

    /// Returns the number of threads whose times were not read in this sample.
    #[cfg(test)]
    pub fn unread(&self) -> usize {
        self.threads.iter().filter(|thread| thread.reading == Reading::None).count()
    }

    /// Closes the files.
    pub fn close(&mut self, context: &mut Context) {
        self.threads.iter_mut().for_each(|thread| thread.close(context));
        self.threads.clear();
        self.ended_ns = None;
    }

    /// Reads completely the threads of a process that has not run, as far as it is their turn. A thread that does not exist
    /// any more has run to its end, which the CPU clock of the process shows next time.
    pub fn read_due(&mut self, pid: u32, context: &mut Context) {
        if !self.threads.iter().any(|thread| context.is_due(thread.sample.id.tid)) {
            return;
        }
        let Some(folder) = context.files.threads_of(pid) else { return };
        for thread in &mut self.threads {
            if context.is_due(thread.sample.id.tid) {
                thread.read_all(&folder, context);
            }
        }
    }

    /// Reads the states of threads that were not active.
    pub fn read_states(&mut self, pid: u32, context: &mut Context, part: Part) {
        let is_in = |thread: &&mut Thread| {
            !thread.is_active() && part.has(thread.sample.id.tid, thread.was_active_lately())
        };
        let mut threads = self.threads.iter_mut().filter(is_in).peekable();
        if threads.peek().is_some()
            && let Some(folder) = context.files.threads_of(pid)
        {
            threads.for_each(|thread| {
                thread.read_stat(&folder, context);
            });
        }
    }

    /// Reads the threads again, as far as they can have changed or it is their turn. Returns whether the process exists.
    pub fn read(&mut self, pid: u32, context: &mut Context) -> bool {
        let Some(folder) = context.files.threads_of(pid) else { return false };
        self.threads.iter_mut().for_each(Thread::begin);
        let active = self.threads.iter().filter(|thread| thread.is_active()).count();
        // Only then is it worth the effort to prove that others have not run.
        let is_proof = self.cpu_ns.is_some() && active + FEW < self.threads.len() && context.refresh > 1;
        let balance = if is_proof { self.read_active(pid, &folder, context) } else { None };
        if balance.is_none() || balance != self.ended_ns || !self.is_complete(&folder, context) {
            let is_accounted = self.read_others(&folder, balance, context);
            let is_new = self.drop_ended(context) | self.add_new(pid, &folder, context);
            if !is_accounted || is_new {
                self.learn_ended(pid, &folder, balance.filter(|_| !is_new), context);
            }
        }
        self.threads.retain_mut(|thread| thread.end(&folder, context));
        !self.threads.is_empty()
    }

    /// Reads the times of active threads. Returns the balance of the CPU clock and the times of all threads, as they are
    /// known, at a moment within: `None` if active threads ran all the time.
    ///
    /// The clock is the sum of `sum_exec_runtime` over the threads and of those that have ended
    /// (`thread_group_cputime` in `kernel/sched/cputime.c`), which is also the first number of `schedstat`. None of
    /// them decreases. So a balance that is that of ended threads proves that all times are known: no other thread has
    /// run.
    fn read_active(&mut self, pid: u32, folder: &OwnedFd, context: &mut Context) -> Option<u64> {
        let mut before = self.cpu_ns?;
        for _ in 0..TRIES {
            for thread in self.threads.iter_mut().filter(|thread| thread.is_active()) {
                thread.read_times(folder, context);
            }
            let after = clock::process_cpu_ns(pid)?;
            let known = sum(self.threads.iter().map(|thread| thread.sample.run_ns));
            let balance = after.wrapping_sub(known);
            if before == after || Some(balance) == self.ended_ns {
                return Some(balance);
            }
            before = after;
        }
        None
    }

    /// Reads the times of threads that are not active, those that were so last first, until all of the clock is
    /// accounted for. Returns whether it is.
    fn read_others(&mut self, folder: &OwnedFd, balance: Option<u64>, context: &mut Context) -> bool {
        let mut missing = balance.zip(self.ended_ns).map(|(balance, ended)| balance.wrapping_sub(ended));
        let may_stop = missing.is_some() && self.is_complete(folder, context);
        for are_recent in [true, false] {
            for thread in &mut self.threads {
                if thread.reading != Reading::None || thread.was_active_lately() != are_recent {
                    continue;
                }
                let before = thread.sample.run_ns;
                thread.read_times(folder, context);
                missing =
                    missing.map(|missing| missing.wrapping_sub(thread.sample.run_ns.wrapping_sub(before)));
                if may_stop && missing == Some(0) {
                    return true;
                }
            }
        }
        false
    }

    /// Finds out the time of ended threads after all threads were read. `balance` is that of before, if all threads that
    /// were running then are known.
    fn learn_ended(&mut self, pid: u32, folder: &OwnedFd, balance: Option<u64>, context: &mut Context) {
        let is_changed = |thread: &Thread| !thread.was_active && thread.reading == Reading::Changed;
        self.ended_ns = if !self.threads.iter().any(is_changed) {
            // Others did not run until they were read, which was after the balance.
            balance
        } else if balance.is_some() && self.ended_ns.is_some() {
            self.read_active(pid, folder, context).filter(|&balance| Some(balance) == self.ended_ns)
        } else {
            None
        };
    }

    fn is_complete(&self, folder: &OwnedFd, context: &Context) -> bool {
        context.files.is_procfs && thread_count(folder) == Some(self.threads.len())
    }

    /// Removes threads that have ended; returns whether there were any.
    fn drop_ended(&mut self, context: &mut Context) -> bool {
        let before = self.threads.len();
        self.threads.retain_mut(|thread| {
            let exists = thread.reading != Reading::Ended;
            if !exists {
                thread.close(context);
            }
            exists
        });
        self.threads.len() < before
    }

    /// Adds threads that are not known; returns whether there were any.
    fn add_new(&mut self, pid: u32, folder: &OwnedFd, context: &mut Context) -> bool {
        if self.is_complete(folder, context) {
            return false;
        }
        let known = self.threads.len();
        let mut tids = std::mem::take(&mut context.tids);
        if context.files.list(folder, &mut tids) {
            for &tid in &tids {
                if self.threads[..known].binary_search_by_key(&tid, |thread| thread.sample.id.tid).is_err() {
                    self.threads.push(Thread::first_reading(pid, tid, folder, context));
                }
            }
            self.threads.sort_unstable_by_key(|thread| thread.sample.id.tid);
        }
        context.tids = tids;
        self.threads.len() > known
    }
}

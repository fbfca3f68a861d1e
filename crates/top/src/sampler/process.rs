//! The threads of one process, and when their files are read.

use super::{
    block::Block,
    context::Context,
    sum::{Activity, ProcessSum},
    task_files::thread_count,
    thread::{Reading, Thread},
    waiting::Part,
};
use crate::{
    sample::TaskSample,
    task_list::{MOST_OF_BLOCK, TaskBlock},
};
use manycore_linux::clock;
use std::{mem::take, os::fd::OwnedFd};

/// Up to this number of threads, all are read whenever one may have run.
const FEW: usize = 8;
/// How many times active threads are read until none of them runs meanwhile.
const TRIES: usize = 3;

/// A process at its last reading.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// Its CPU clock in nanoseconds, as read last.
    pub cpu_ns: Option<u64>,
    /// The CPU clock when all times were those of the threads, or before they were read. If it has not changed since, no
    /// thread has run. Absent if it is not known.
    pub settled_ns: Option<u64>,
    /// What its CPU clock counts beside the time of its threads: the time of threads that have ended, modulo 2^64. Absent
    /// unless it is known exactly.
    ended_ns: Option<u64>,
    /// Whether the kernel keeps the sum of its CPU time.
    sum: ProcessSum,
    /// How many times its active threads were put on a CPU between the last two readings.
    slices: u64,
    /// The directory of its threads, as long as it is active.
    folder: Option<OwnedFd>,
    /// Its threads, ascending.
    blocks: Vec<Block>,
    /// How many threads were active after the last reading.
    active: usize,
    /// How many were runnable.
    runnable: usize,
}

/// The place of a thread: its block, and its place there.
type Place = (usize, usize);

impl Process {
    /// Returns the number of threads that were runnable.
    pub fn runnable(&self) -> usize {
        self.runnable
    }

    /// Returns the number of threads.
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|block| block.threads.len()).sum()
    }

    /// Returns the samples of the threads, ascending.
    pub fn samples(&self) -> impl Iterator<Item = &TaskBlock> {
        self.blocks.iter().map(Block::samples)
    }

    /// Returns the sample of a thread, otherwise that of the one with the lowest id.
    pub fn first(&self, tid: u32) -> Option<&TaskSample> {
        let (block, at) = self.place_of(tid).unwrap_or_default();
        self.blocks.get(block)?.samples().get(at)
    }

    fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.blocks.iter().flat_map(|block| &block.threads)
    }

    fn place_of(&self, tid: u32) -> Option<Place> {
        let after = self.blocks.partition_point(|block| block.threads[0].tid <= tid);
        let block = after.checked_sub(1)?;
        let at = self.blocks[block].threads.binary_search_by_key(&tid, |thread| thread.tid);
        Some((block, at.ok()?))
    }

    /// Returns the places of some threads.
    fn places(&self, is_one: impl Fn(&Thread) -> bool) -> Vec<Place> {
        let blocks = self.blocks.iter().enumerate();
        let places = blocks.flat_map(|(number, block)| {
            let is_one = &is_one;
            let threads = block.threads.iter().enumerate();
            threads.filter(move |(_, thread)| is_one(thread)).map(move |(at, _)| (number, at))
        });
        places.collect()
    }

    /// Returns the number of threads whose times were not read in this sample.
    #[cfg(test)]
    pub fn unread(&self) -> usize {
        self.threads().filter(|thread| thread.reading == Reading::None).count()
    }

    /// Returns the number of open files.
    #[cfg(test)]
    pub fn open_files(&self) -> usize {
        let of = |thread: &Thread| [&thread.schedstat, &thread.stat, &thread.status].map(Option::is_some);
        let threads = self.threads().flat_map(of).filter(|&is_open| is_open).count();
        threads + usize::from(self.folder.is_some())
    }

    /// Closes the files.
    pub fn close(&mut self, context: &mut Context) {
        self.blocks
            .iter_mut()
            .flat_map(|block| &mut block.threads)
            .for_each(|thread| thread.close(&mut context.files));
        context.files.close(&mut self.folder);
        *self = Self::default();
    }

    /// Reads the threads of a process that has not run, as far as it is their turn. A thread that does not exist any more has
    /// run to its end, which the CPU clock of the process shows next time.
    pub fn read_due(&mut self, pid: u32, context: &mut Context) {
        if take(&mut self.active) > 0 {
            context.files.close(&mut self.folder);
            let threads = self.blocks.iter_mut().flat_map(|block| &mut block.threads);
            threads.for_each(|thread| thread.close_all_but_times(&mut context.files));
        }
        let due = self.places(|thread| context.is_due(thread.tid));
        self.read_some(pid, &due, context, |block, at, folder, context| {
            block.refresh(at, folder, context);
        });
    }

    /// Reads the states of threads that were not active.
    pub fn read_states(&mut self, pid: u32, context: &mut Context, part: Part) {
        let quiet =
            self.places(|thread| !thread.is_active() && part.has(thread.tid, thread.was_active_lately()));
        self.read_some(pid, &quiet, context, |block, at, folder, context| {
            block.read_stat(at, folder, context);
        });
    }

    fn read_some(
        &mut self,
        pid: u32,
        places: &[Place],
        context: &mut Context,
        read: impl Fn(&mut Block, usize, &OwnedFd, &mut Context),
    ) {
        if places.is_empty() {
            return;
        }
        let opened = if self.folder.is_none() { context.files.threads_of(pid) } else { None };
        let Some(folder) = self.folder.as_ref().or(opened.as_ref()) else { return };
        for &(block, at) in places {
            let block = &mut self.blocks[block];
            self.runnable -= usize::from(block.threads[at].is_runnable);
            read(block, at, folder, context);
            self.runnable += usize::from(block.threads[at].is_runnable);
        }
    }

    /// Whether threads have run lately, so that others probably run now.
    pub fn is_active(&self) -> bool {
        self.active > 0
    }

    /// Whether so many threads are not active that it is worth the effort to prove that they have not run.
    pub fn is_mostly_quiet(&self) -> bool {
        self.active + FEW < self.len()
    }

    /// Begins or ends to have the kernel keep the sum of the CPU time, by what the threads did before.
    pub fn choose_sum(&mut self, pid: u32, context: &mut Context) {
        let activity = Activity { threads: self.len(), active: self.active, slices: take(&mut self.slices) };
        if self.sum.choose(pid, activity, context) {
            (self.ended_ns, self.settled_ns) = (None, None);
        }
    }

    /// Reads the threads again, as far as they can have changed or it is their turn. `proves` says whether it is to be proved
    /// that quiet threads have not run, by the CPU clock. Returns whether the process exists.
    pub fn read(&mut self, pid: u32, context: &mut Context, proves: bool) -> bool {
        let kept = context.files.take(&mut self.folder);
        let Some(folder) = kept.or_else(|| context.files.threads_of(pid)) else { return false };
        self.blocks.iter_mut().flat_map(|block| &mut block.threads).for_each(Thread::begin);
        let balance = if proves { self.read_active(pid, &folder, context) } else { None };
        if balance.is_none() || balance != self.ended_ns || !self.is_complete(&folder, context) {
            let is_accounted = self.read_others(&folder, balance, context);
            let is_new = self.drop_ended(context) | self.add_new(pid, &folder, context);
            if !is_accounted || is_new {
                self.learn_ended(pid, &folder, balance.filter(|_| !is_new), context);
            }
        }
        self.end(&folder, context);
        if self.is_active() {
            self.folder = context.files.keep(folder);
        }
        !self.blocks.is_empty()
    }

    /// Ends a sample.
    fn end(&mut self, folder: &OwnedFd, context: &mut Context) {
        (self.active, self.runnable) = (0, 0);
        let mut resident_kib = None;
        // Where the kernel keeps the sum, quiet threads are seldom read.
        let keeps_quiet = !self.sum.is_kept();
        for block in &mut self.blocks {
            for at in 0..block.threads.len() {
                let has_run = block.threads[at].has_run();
                let exists = block.end(at, folder, context, keeps_quiet);
                if !exists {
                    block.threads[at].reading = Reading::Ended;
                    continue;
                }
                if has_run {
                    resident_kib = Some(block.samples()[at].resident_kib);
                }
                let thread = &block.threads[at];
                self.active += usize::from(thread.is_active());
                self.runnable += usize::from(thread.is_runnable);
            }
        }
        self.drop_ended(context);
        if let Some((first, kib)) = self.blocks.first_mut().zip(resident_kib) {
            first.set_resident(kib);
        }
    }

    /// Reads the times of active threads. Returns the balance of the CPU clock and the times of all threads, as they are
    /// known, at a moment within: `None` if active threads ran all the time.
    ///
    /// The kernel may add up the times of all threads for each reading of the clock, which takes milliseconds for ten thousand
    /// threads. So it is read after the active threads, and not before, too: once, if none of them ran meanwhile.
    ///
    /// The clock is the sum of `sum_exec_runtime` over the threads and of those that have ended
    /// (`thread_group_cputime` in `kernel/sched/cputime.c`), which is also the first number of `schedstat`. None of
    /// them decreases. So a balance that is that of ended threads proves that all times are known: no other thread has
    /// run. Where the kernel keeps the sum, a constant is missing in the clock, which counts as time of ended threads.
    fn read_active(&mut self, pid: u32, folder: &OwnedFd, context: &mut Context) -> Option<u64> {
        let mut before = self.settled_ns.take();
        let active = self.places(Thread::is_active);
        let slices_before = self.slices_of(&active);
        for _ in 0..TRIES {
            for &(block, at) in &active {
                self.blocks[block].read_times(at, folder, context);
            }
            self.slices = self.slices_of(&active).wrapping_sub(slices_before);
            let after = clock::process_cpu_ns(pid)?;
            self.cpu_ns = Some(after);
            let balance = self.blocks.iter().fold(after, |rest, block| rest.wrapping_sub(block.run_ns));
            let is_settled = Some(balance) == self.ended_ns;
            self.settled_ns = if is_settled { Some(after) } else { before };
            if is_settled || before == Some(after) {
                return Some(balance);
            }
            before = Some(after);
        }
        None
    }

    /// Returns how many times some threads were put on a CPU.
    fn slices_of(&self, places: &[Place]) -> u64 {
        let slices = places.iter().filter_map(|&(block, at)| self.blocks[block].samples()[at].slices);
        slices.fold(0, u64::wrapping_add)
    }

    /// Reads the times of threads that are not active, those that were so last first, until all of the clock is
    /// accounted for. Returns whether it is.
    fn read_others(&mut self, folder: &OwnedFd, balance: Option<u64>, context: &mut Context) -> bool {
        let mut missing = balance.zip(self.ended_ns).map(|(balance, ended)| balance.wrapping_sub(ended));
        let may_stop = missing.is_some() && self.is_complete(folder, context);
        for are_recent in [true, false] {
            let is_next =
                |thread: &Thread| thread.reading == Reading::None && thread.was_active_lately() == are_recent;
            for (block, at) in self.places(is_next) {
                let block = &mut self.blocks[block];
                let before = block.run_ns;
                block.read_times(at, folder, context);
                missing = missing.map(|missing| missing.wrapping_sub(block.run_ns.wrapping_sub(before)));
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
        self.ended_ns = if !self.threads().any(is_changed) {
            // Others did not run until they were read, which was after the balance.
            balance
        } else if balance.is_some() && self.ended_ns.is_some() {
            self.read_active(pid, folder, context).filter(|&balance| Some(balance) == self.ended_ns)
        } else {
            None
        };
    }

    fn is_complete(&self, folder: &OwnedFd, context: &Context) -> bool {
        context.files.is_procfs && thread_count(folder) == Some(self.len())
    }

    /// Removes threads that have ended; returns whether there were any.
    fn drop_ended(&mut self, context: &mut Context) -> bool {
        let has_ended = |thread: &Thread| thread.reading == Reading::Ended;
        if !self.threads().any(has_ended) {
            return false;
        }
        let mut blocks: Vec<Block> = Vec::with_capacity(self.blocks.len());
        for mut block in take(&mut self.blocks) {
            if !block.threads.iter().any(has_ended) {
                blocks.push(block);
                continue;
            }
            block
                .threads
                .iter_mut()
                .filter(|thread| has_ended(thread))
                .for_each(|one| one.close(&mut context.files));
            // Small blocks become one.
            let is_small = |last: &mut Block| last.threads.len() + block.threads.len() <= MOST_OF_BLOCK;
            let last = blocks.pop_if(is_small).into_iter().flat_map(Block::into_threads);
            let threads = last.chain(block.into_threads()).filter(|(thread, _)| !has_ended(thread));
            blocks.extend(Block::of(threads.collect()));
        }
        self.blocks = blocks;
        true
    }

    /// Adds threads that are not known; returns whether there were any.
    fn add_new(&mut self, pid: u32, folder: &OwnedFd, context: &mut Context) -> bool {
        if self.is_complete(folder, context) {
            return false;
        }
        let mut tids = take(&mut context.tids);
        let mut new = Vec::new();
        if context.files.list(folder, &mut tids) {
            let unknown = tids.iter().filter(|&&tid| self.place_of(tid).is_none());
            new.extend(unknown.map(|&tid| Block::first_reading(pid, tid, folder, context)));
        }
        context.tids = tids;
        let is_new = !new.is_empty();
        self.insert(new);
        is_new
    }

    /// Inserts threads, ascending, into the blocks where they belong.
    fn insert(&mut self, new: Vec<(Thread, TaskSample)>) {
        let mut new = new.into_iter().peekable();
        let mut old = take(&mut self.blocks).into_iter().peekable();
        while new.peek().is_some() || old.peek().is_some() {
            let block = old.next();
            let end = old.peek().map(|next| next.threads[0].tid);
            let mut threads = Vec::new();
            while let Some(one) = new.next_if(|(thread, _)| end.is_none_or(|end| thread.tid < end)) {
                threads.push(one);
            }
            match block {
                Some(block) if threads.is_empty() => self.blocks.push(block),
                block => {
                    threads.extend(block.into_iter().flat_map(Block::into_threads));
                    threads.sort_unstable_by_key(|(thread, _)| thread.tid);
                    self.blocks.extend(Block::of(threads));
                }
            }
        }
    }
}

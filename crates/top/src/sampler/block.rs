//! Some threads of a process, and what of their files is read.

use super::{
    context::Context,
    thread::{Reading, Thread},
};
use crate::{
    parse::{self, StatusLines},
    sample::{TaskId, TaskSample},
    task_list::{MOST_OF_BLOCK, TaskBlock},
};
use manycore_linux::affinity;
use manycore_topology::CpuSet;
use std::{collections::BTreeSet, os::fd::OwnedFd, sync::Arc};

/// Some threads of a process in a row, ascending.
#[derive(Debug)]
pub(super) struct Block {
    /// Their last samples, which those of the machine that were returned share until one changes.
    samples: TaskBlock,
    pub threads: Vec<Thread>,
    /// The sum of their CPU times, modulo 2^64.
    pub run_ns: u64,
}

impl Block {
    /// Returns blocks of threads, ascending.
    pub fn of(threads: Vec<(Thread, TaskSample)>) -> impl Iterator<Item = Self> {
        let mut threads = threads.into_iter().peekable();
        std::iter::from_fn(move || {
            threads.peek()?;
            let (threads, samples): (Vec<_>, Vec<_>) = threads.by_ref().take(MOST_OF_BLOCK).unzip();
            let run_ns = samples.iter().fold(0, |sum: u64, sample| sum.wrapping_add(sample.run_ns));
            Some(Self { samples: samples.into(), threads, run_ns })
        })
    }

    /// Returns the threads with their samples.
    pub fn into_threads(self) -> impl Iterator<Item = (Thread, TaskSample)> {
        self.threads.into_iter().zip(self.samples.to_vec())
    }

    /// Returns the samples.
    pub fn samples(&self) -> &TaskBlock {
        &self.samples
    }

    /// Returns a thread that is not known, after a reading of its times.
    pub fn first_reading(
        pid: u32,
        tid: u32,
        folder: &OwnedFd,
        context: &mut Context,
    ) -> (Thread, TaskSample) {
        let mut sample = TaskSample { id: TaskId { pid, tid, start: 0 }, ..TaskSample::default() };
        if let Some(times) = context.files.thread(folder, tid, "schedstat").and_then(parse::schedstat) {
            set_times(&mut sample, times);
        }
        (Thread::new(tid), sample)
    }

    /// Reads the times on a CPU.
    pub fn read_times(&mut self, at: usize, folder: &OwnedFd, context: &mut Context) {
        let (thread, sample) = (&mut self.threads[at], &self.samples[at]);
        let least = if thread.is_active() { 0 } else { context.files.reserved };
        let text = context.files.read(&mut thread.schedstat, folder, (thread.tid, "schedstat"), least);
        let times = text.and_then(parse::schedstat);
        if times.is_none() && (thread.schedstat.is_some() || sample.wait_ns.is_some()) {
            thread.reading = Reading::Ended;
            return;
        }
        let had = sample.wait_ns.zip(sample.slices);
        let is_same =
            times.is_some_and(|[run, wait, slices]| run == sample.run_ns && had == Some((wait, slices)));
        thread.note(is_same);
        if let Some(times) = times.filter(|_| !is_same) {
            self.change(at, |sample| set_times(sample, times));
        }
    }

    /// Ends a sample: reads what can have changed. Returns whether the thread exists. `keeps_quiet` says whether files of threads
    /// that are not active may stay open.
    pub fn end(&mut self, at: usize, folder: &OwnedFd, context: &mut Context, keeps_quiet: bool) -> bool {
        let thread = &mut self.threads[at];
        thread.count();
        let (is_due, has_run) = (context.is_due(thread.tid), thread.has_run());
        let exists = match thread.reading {
            Reading::Ended => false,
            _ if has_run => self.read_all(at, folder, context),
            _ if is_due => self.refresh(at, folder, context),
            _ => true,
        };
        let thread = &mut self.threads[at];
        let is_active = exists && thread.is_active();
        if !is_active {
            thread.close_all_but_times(&mut context.files);
        }
        if !exists || !is_active && (!keeps_quiet || context.files.open_left < context.files.reserved) {
            thread.close(&mut context.files);
        }
        exists
    }

    /// Reads `stat`, and `status` where it is wanted. Returns whether the thread exists.
    fn read_all(&mut self, at: usize, folder: &OwnedFd, context: &mut Context) -> bool {
        let exists = self.read_stat(at, folder, context);
        let thread = &mut self.threads[at];
        let least = thread.least_left();
        if exists
            && context.switches
            && let Some(text) = context.files.read(&mut thread.status, folder, (thread.tid, "status"), least)
        {
            let mut new = self.samples[at].clone();
            enter_status(&mut new, &parse::status(text), &mut context.sets);
            self.replace(at, new);
        }
        exists
    }

    /// Reads of a thread that has not run, and whose turn it is, what others can have changed. Returns whether it exists.
    pub fn refresh(&mut self, at: usize, folder: &OwnedFd, context: &mut Context) -> bool {
        let sample = &self.samples[at];
        // Without `schedstat` its times are in `stat`.
        if !context.switches || context.refresh == 1 || sample.wait_ns.is_none() {
            return self.read_all(at, folder, context);
        }
        if !context.is_due_completely(sample.id.pid, sample.id.tid) {
            let Ok(now) = affinity::of_thread(sample.id.tid) else { return false };
            // The kernel leaves out CPUs that are offline.
            let is_same = |known: &Arc<CpuSet>| known.intersection(&context.online) == now;
            if sample.allowed.as_ref().is_some_and(is_same) {
                return true;
            }
        }
        let Some(text) = context.files.thread(folder, self.threads[at].tid, "status") else { return false };
        let found = parse::status(text);
        let mut new = self.samples[at].clone();
        new.name = found.name.unwrap_or(new.name);
        new.state = found.state.unwrap_or(new.state);
        new.parent = found.parent.unwrap_or(new.parent);
        if new.id.pid == new.id.tid {
            // Kernel threads and zombies have none.
            new.resident_kib = found.resident_kib.unwrap_or(0);
        }
        enter_status(&mut new, &found, &mut context.sets);
        self.replace(at, new);
        true
    }

    /// Reads `stat`. Returns whether the thread exists.
    pub fn read_stat(&mut self, at: usize, folder: &OwnedFd, context: &mut Context) -> bool {
        let thread = &mut self.threads[at];
        let least = thread.least_left();
        let text = context.files.read(&mut thread.stat, folder, (thread.tid, "stat"), least);
        let Some(line) = text.and_then(parse::stat) else { return false };
        let mut new = self.samples[at].clone();
        new.id.start = line.start;
        (new.name, new.parent, new.is_kernel) = (line.name, line.parent, line.is_kernel);
        (new.state, new.cpu) = (line.state, line.cpu);
        new.resident_kib = line.resident_pages.saturating_mul(context.page_kib);
        if new.wait_ns.is_none() {
            new.run_ns = line.ticks.saturating_mul(context.tick_ns);
        }
        self.replace(at, new);
        true
    }

    /// Sets the resident set of the process, which that of its first thread is.
    pub fn set_resident(&mut self, kib: u64) {
        if self.samples[0].resident_kib != kib {
            self.change(0, |sample| sample.resident_kib = kib);
        }
    }

    fn replace(&mut self, at: usize, new: TaskSample) {
        self.threads[at].is_runnable = new.state == 'R';
        if self.samples[at] != new {
            self.change(at, |sample| *sample = new);
        }
    }

    /// Changes a sample, in a copy of the block if others have it.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut TaskSample)) {
        let sample = &mut Arc::make_mut(&mut self.samples)[at];
        let before = sample.run_ns;
        change(sample);
        self.run_ns = self.run_ns.wrapping_sub(before).wrapping_add(sample.run_ns);
    }
}

fn set_times(sample: &mut TaskSample, [run, wait, slices]: [u64; 3]) {
    sample.run_ns = run;
    (sample.wait_ns, sample.slices) = (Some(wait), Some(slices));
}

/// Enters what only `status` has. Equal sets of CPUs are shared.
fn enter_status(sample: &mut TaskSample, found: &StatusLines, sets: &mut BTreeSet<Arc<CpuSet>>) {
    (sample.voluntary, sample.involuntary) = (found.voluntary, found.involuntary);
    sample.uid = found.uid;
    let allowed = found.allowed.and_then(|list| std::str::from_utf8(list).ok()?.parse::<CpuSet>().ok());
    sample.allowed = allowed.map(|set| match sets.get(&set) {
        Some(known) => Arc::clone(known),
        None => {
            let new = Arc::new(set);
            sets.insert(Arc::clone(&new));
            new
        }
    });
}

//! One thread, and what of its files is read.

use super::{process::Context, task_files::open_thread};
use crate::{
    parse,
    sample::{TaskId, TaskSample},
};
use manycore_topology::CpuSet;
use std::{os::fd::OwnedFd, sync::Arc};

/// A thread is active until it has not run in this many readings of its process.
const ACTIVE: u16 = 8;
/// It was active lately until it has not run in this many.
const LATELY: u16 = 128;

/// What became of a thread in this sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reading {
    /// Its times were not read.
    #[default]
    None,
    /// Its times have not changed.
    Same,
    /// It has run, or its times are not known.
    Changed,
    /// It was not known before.
    New,
    /// It has ended.
    Ended,
}

/// A thread at its last reading.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub sample: TaskSample,
    pub reading: Reading,
    /// Whether it was active at the beginning of this sample.
    pub was_active: bool,
    /// Number of readings of its process since it ran.
    quiet: u16,
    schedstat: Option<OwnedFd>,
}

impl Thread {
    /// Reads the times of a thread that is not known.
    pub fn first_reading(pid: u32, tid: u32, folder: &OwnedFd, context: &mut Context) -> Self {
        let mut thread = Self {
            sample: TaskSample { id: TaskId { pid, tid, start: 0 }, ..TaskSample::default() },
            ..Self::default()
        };
        let times = context.files.thread(folder, tid, "schedstat").and_then(parse::schedstat);
        thread.set_times(times);
        thread.reading = Reading::New;
        thread.was_active = true;
        thread
    }

    /// Whether it has run in one of the last readings or in this one, or is runnable.
    pub fn is_active(&self) -> bool {
        self.quiet < ACTIVE || matches!(self.reading, Reading::Changed | Reading::New) || self.is_runnable()
    }

    /// Whether it was runnable when its state was read.
    pub fn is_runnable(&self) -> bool {
        self.sample.state == 'R'
    }

    /// Whether it was active not long ago.
    pub fn was_active_lately(&self) -> bool {
        self.quiet < LATELY
    }

    /// Begins a sample.
    pub fn begin(&mut self) {
        self.reading = Reading::None;
        self.was_active = self.is_active();
    }

    /// Reads the times on a CPU.
    pub fn read_times(&mut self, folder: &OwnedFd, context: &mut Context) {
        let tid = self.sample.id.tid;
        let least = if self.is_active() { 0 } else { context.reserved };
        if self.schedstat.is_none() && context.open_left > least {
            self.schedstat = open_thread(folder, tid, "schedstat");
            context.open_left -= usize::from(self.schedstat.is_some());
        }
        let text = match &self.schedstat {
            Some(file) => context.files.again(file),
            None => context.files.thread(folder, tid, "schedstat"),
        };
        let times = text.and_then(parse::schedstat);
        if times.is_none() && (self.schedstat.is_some() || self.sample.wait_ns.is_some()) {
            self.reading = Reading::Ended;
            return;
        }
        let had = self.sample.wait_ns.zip(self.sample.slices);
        let is_same =
            times.is_some_and(|[run, wait, slices]| run == self.sample.run_ns && had == Some((wait, slices)));
        self.set_times(times);
        // It may be read several times in a sample.
        if !is_same && self.reading != Reading::New {
            self.reading = Reading::Changed;
        } else if self.reading == Reading::None {
            self.reading = Reading::Same;
        }
    }

    /// Ends a sample: reads what can have changed. Returns whether the thread exists.
    pub fn end(&mut self, folder: &OwnedFd, context: &mut Context) -> bool {
        self.quiet = match self.reading {
            Reading::Changed => 0,
            Reading::New => LATELY,
            _ => self.quiet.saturating_add(1),
        };
        let is_due = context.is_due(self.sample.id.tid);
        let may_differ =
            matches!(self.reading, Reading::Changed | Reading::New) || self.is_runnable() || is_due;
        let exists = self.reading != Reading::Ended && (!may_differ || self.read_all(folder, context));
        if !exists || !self.is_active() && context.open_left < context.reserved {
            self.close(context);
        }
        exists
    }

    /// Closes its file.
    pub fn close(&mut self, context: &mut Context) {
        context.open_left += usize::from(self.schedstat.take().is_some());
    }

    fn set_times(&mut self, times: Option<[u64; 3]>) {
        if let Some([run, wait, slices]) = times {
            self.sample.run_ns = run;
            (self.sample.wait_ns, self.sample.slices) = (Some(wait), Some(slices));
        }
    }

    /// Reads `stat`, and `status` where it is wanted. Returns whether the thread exists.
    pub fn read_all(&mut self, folder: &OwnedFd, context: &mut Context) -> bool {
        let exists = self.read_stat(folder, context);
        if exists && context.switches {
            self.read_status(folder, context);
        }
        exists
    }

    /// Reads `stat`. Returns whether the thread exists.
    pub fn read_stat(&mut self, folder: &OwnedFd, context: &mut Context) -> bool {
        let sample = &mut self.sample;
        let Some(line) = context.files.thread(folder, sample.id.tid, "stat").and_then(parse::stat) else {
            return false;
        };
        sample.id.start = line.start;
        (sample.name, sample.parent, sample.is_kernel) = (line.name, line.parent, line.is_kernel);
        (sample.state, sample.cpu) = (line.state, line.cpu);
        sample.resident_kib = line.resident_pages.saturating_mul(context.page_kib);
        if sample.wait_ns.is_none() {
            sample.run_ns = line.ticks.saturating_mul(context.tick_ns);
        }
        true
    }

    fn read_status(&mut self, folder: &OwnedFd, context: &mut Context) {
        let sample = &mut self.sample;
        let Some(text) = context.files.thread(folder, sample.id.tid, "status") else { return };
        let found = parse::status(text);
        (sample.voluntary, sample.involuntary) = (found.voluntary, found.involuntary);
        sample.uid = found.uid.and_then(|uid| uid.try_into().ok());
        let allowed = found.allowed.and_then(|list| std::str::from_utf8(list).ok()?.parse::<CpuSet>().ok());
        sample.allowed = allowed.map(|set| match context.sets.get(&set) {
            Some(known) => Arc::clone(known),
            None => {
                let new = Arc::new(set);
                context.sets.insert(Arc::clone(&new));
                new
            }
        });
    }
}

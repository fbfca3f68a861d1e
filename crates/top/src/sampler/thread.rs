//! What is to know of a thread beside its sample.

use super::task_files::TaskFiles;
use std::os::fd::OwnedFd;

/// A thread is active until it has not run in this many readings of its process.
const ACTIVE: u16 = 8;
/// It was active lately until it has not run in this many.
const LATELY: u16 = 128;

/// What became of a thread in this sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Its times were not read.
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

/// A thread. It is small: all are visited in each sample in which one of the process may have run.
#[derive(Debug)]
pub(super) struct Thread {
    pub tid: u32,
    /// Its files, as far as they stay open.
    pub schedstat: Option<OwnedFd>,
    pub stat: Option<OwnedFd>,
    pub status: Option<OwnedFd>,
    /// Number of readings of its process since it ran.
    quiet: u16,
    pub reading: Reading,
    /// Whether it was active at the beginning of this sample.
    pub was_active: bool,
    /// Whether it was runnable when its state was read.
    pub is_runnable: bool,
}

impl Thread {
    /// Returns a thread that was not known.
    pub fn new(tid: u32) -> Self {
        Self {
            tid,
            schedstat: None,
            stat: None,
            status: None,
            quiet: 0,
            reading: Reading::New,
            was_active: true,
            is_runnable: false,
        }
    }

    /// Whether it has run in one of the last readings or in this one, or is runnable.
    pub fn is_active(&self) -> bool {
        self.quiet < ACTIVE || self.has_run()
    }

    /// Whether it has run in this sample, or is runnable.
    pub fn has_run(&self) -> bool {
        matches!(self.reading, Reading::Changed | Reading::New) || self.is_runnable
    }

    /// Whether it was active not long ago.
    pub fn was_active_lately(&self) -> bool {
        self.quiet < LATELY
    }

    /// Returns how many files must be left so that those stay open that are read only of a thread that has run. Most threads
    /// that are new will sleep.
    pub fn least_left(&self) -> usize {
        if self.is_active() && self.reading != Reading::New { 0 } else { usize::MAX }
    }

    /// Begins a sample.
    pub fn begin(&mut self) {
        self.reading = Reading::None;
        self.was_active = self.is_active();
    }

    /// Notes after a reading of its times whether they have changed. It may be read several times in a sample.
    pub fn note(&mut self, is_same: bool) {
        if !is_same && self.reading != Reading::New {
            self.reading = Reading::Changed;
        } else if self.reading == Reading::None {
            self.reading = Reading::Same;
        }
    }

    /// Counts this sample.
    pub fn count(&mut self) {
        self.quiet = match self.reading {
            Reading::Changed => 0,
            Reading::New => LATELY,
            _ => self.quiet.saturating_add(1),
        };
    }

    /// Closes its files.
    pub fn close(&mut self, files: &mut TaskFiles) {
        self.close_all_but_times(files);
        files.close(&mut self.schedstat);
    }

    /// Closes the files that are read only of a thread that has run.
    pub fn close_all_but_times(&mut self, files: &mut TaskFiles) {
        files.close(&mut self.stat);
        files.close(&mut self.status);
    }
}

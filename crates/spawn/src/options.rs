//! What is measured.

use manycore_experiment::spawning::{Runtime, Work};
use std::{path::PathBuf, time::Duration};

/// Typical duration of a run without its work, in seconds.
const RUN_SECONDS: f64 = 2.0;

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct SpawnOptions {
    /// Runtimes, without duplicates.
    pub runtimes: Vec<Runtime>,
    /// Whether the user named the runtimes. If not, missing runtimes are not an error.
    pub runtimes_given: bool,
    /// Number of light processes of each run, at least one.
    pub counts: Vec<u64>,
    /// Whether the user gave the counts. If not, counts that do not fit are not an error.
    pub counts_given: bool,
    /// Work of each light process.
    pub work: Work,
    /// How long they work.
    pub length: Duration,
    /// Directory below which files are created; absent for the directory for temporary files.
    pub scratch: Option<PathBuf>,
    /// Memory limit, in bytes, up to which light processes are started to find out how many fit.
    pub memory_limit: Option<u64>,
    /// Whether to start counts that will not fit, too.
    pub beyond_memory: bool,
}

impl SpawnOptions {
    /// Returns the seconds that the measurement is expected to take.
    pub fn seconds(&self) -> f64 {
        let work = if self.work == Work::Idle { 0.0 } else { self.length.as_secs_f64() };
        self.runs() as f64 * RUN_SECONDS + (self.runtimes.len() * self.counts.len()) as f64 * work
    }

    /// Returns the number of runs, with the pilot runs of a runtime counted as one.
    pub(crate) fn runs(&self) -> usize {
        self.runtimes.len() * (self.counts.len() + usize::from(self.memory_limit.is_some()) + 1)
    }

    /// Returns the largest count.
    pub(crate) fn largest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }

    /// Returns whether the memory of runs must be limited by a control group.
    pub(crate) fn needs_memory_group(&self) -> bool {
        self.beyond_memory || self.memory_limit.is_some()
    }

    /// Returns the request as text for the journal: `spawn beam,go idle`.
    pub(crate) fn journal_text(&self) -> String {
        let names: Vec<&str> = self.runtimes.iter().map(|runtime| runtime.name()).collect();
        let work = match self.work {
            Work::Idle => "idle",
            Work::Spin => "spin",
            Work::Io => "io",
        };
        format!("spawn {} {work}", names.join(","))
    }
}

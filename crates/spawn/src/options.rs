//! What is measured.

use manycore_experiment::spawning::{Runtime, Work};
use std::{path::PathBuf, time::Duration};

/// Typical duration of finding or compiling a runtime's program, in seconds.
pub(crate) const PREPARE_SECONDS: f64 = 1.0;

/// Typical duration of a run of few light processes, in seconds.
pub(crate) const RUN_SECONDS: f64 = 1.5;

/// Typical time that each light process adds to a run, in seconds.
const SECONDS_EACH: f64 = 2e-5;

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
        let runs: f64 = self.counts.iter().map(|&count| self.run_seconds(count)).sum();
        let limit = if self.memory_limit.is_some() { self.limit_seconds() } else { 0.0 };
        self.runtimes.len() as f64 * (PREPARE_SECONDS + 2.0 * RUN_SECONDS + runs + limit)
    }

    /// Returns the seconds that a run of so many light processes is expected to take.
    pub(crate) fn run_seconds(&self, count: u64) -> f64 {
        let work = if self.work == Work::Idle { 0.0 } else { self.length.as_secs_f64() };
        RUN_SECONDS + count as f64 * SECONDS_EACH + work
    }

    /// Returns the seconds that a run up to the memory limit is expected to take.
    pub(crate) fn limit_seconds(&self) -> f64 {
        RUN_SECONDS + self.largest() as f64 * SECONDS_EACH
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

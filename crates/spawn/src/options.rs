//! What is measured.

use crate::{cost::RunCost, feasibility, runtimes};
use manycore_experiment::spawning::{Runtime, Work};
use std::{path::PathBuf, time::Duration};

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
        self.runtimes.iter().map(|&runtime| self.runtime_seconds(runtime)).sum()
    }

    /// Returns the seconds that the measurement of a runtime is expected to take.
    pub(crate) fn runtime_seconds(&self, runtime: Runtime) -> f64 {
        let cost = RunCost::typical(runtime);
        let pilots = self.pilot_counts(runtime).into_iter().map(|count| cost.seconds(count));
        cost.prepare + pilots.sum::<f64>() + self.allowed_seconds(runtime, cost)
    }

    /// Returns the seconds of the runs of a runtime that are possible on this machine.
    pub(crate) fn allowed_seconds(&self, runtime: Runtime, cost: RunCost) -> f64 {
        let is_allowed = |count: &u64| feasibility::is_allowed(runtime, self.work, *count);
        let counts: Vec<u64> = self.counts.iter().copied().filter(is_allowed).collect();
        self.counts_seconds(cost, &counts)
    }

    /// Returns the seconds of runs of these counts, and of the one up to the memory limit.
    pub(crate) fn counts_seconds(&self, cost: RunCost, counts: &[u64]) -> f64 {
        let limit = if self.memory_limit.is_some() { cost.seconds(self.largest()) } else { 0.0 };
        counts.iter().map(|&count| self.run_seconds(cost, count)).sum::<f64>() + limit
    }

    /// Returns the seconds that a run of so many light processes is expected to take.
    pub(crate) fn run_seconds(&self, cost: RunCost, count: u64) -> f64 {
        let work = if self.work == Work::Idle { 0.0 } else { self.length.as_secs_f64() };
        cost.seconds(count) + work
    }

    /// Returns the counts of the small runs from which the memory of larger ones is predicted; none where all are small.
    pub(crate) fn pilot_counts(&self, runtime: Runtime) -> Vec<u64> {
        let large = runtimes::pilot_count(runtime);
        let is_needed = self.memory_limit.is_some() || self.largest() > large;
        if is_needed { vec![large / 10, large] } else { Vec::new() }
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

//! The time budget of each section.

use crate::{latency, scaling::worker_counts};

/// Budgets of one run, in seconds of wall time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Name in the record.
    pub name: &'static str,
    /// Noise floor (A/A).
    pub noise: f64,
    /// Clock of the CPUs, measured by additions.
    pub clock: f64,
    /// Prime events by number of workers.
    pub scaling: f64,
    /// Serial, threads and processes, in our own code.
    pub modes: f64,
    /// The same in Python, for both BLAS settings.
    pub python: f64,
    /// Matrix products.
    pub matrix: f64,
    /// Unpinned against pinned.
    pub affinity: f64,
    /// Core-to-core latency; reduced for few pairs, which need less.
    pub latency: f64,
    /// Memory bandwidth and latency.
    pub stream: f64,
    /// Counters, pipes and locks that workers share.
    pub contention: f64,
    /// Comparison with sysbench.
    pub sysbench: f64,
    /// One load of `bench`; not part of `eval`.
    pub bench: f64,
    /// Whether sizes and repetitions are those of openEuler's published multi-core evaluation, however long
    /// they take: 30 s of prime events for each number of workers, 50 inversions of 1000 x 1000 matrices.
    pub published: bool,
}

/// About 90 s on 2 idle CPUs.
///
/// If other work uses the CPUs, the minimum numbers of whole runs (of Python above all) take longer.
pub const QUICK: Profile = Profile {
    name: "quick",
    noise: 7.0,
    clock: 3.0,
    scaling: 13.0,
    modes: 6.0,
    python: 14.0,
    matrix: 16.0,
    affinity: 5.0,
    latency: 4.0,
    stream: 5.0,
    contention: 6.0,
    sysbench: 7.0,
    bench: 15.0,
    published: false,
};

/// Five minutes.
pub const STANDARD: Profile = Profile {
    name: "standard",
    noise: 40.0,
    clock: 10.0,
    scaling: 80.0,
    modes: 30.0,
    python: 50.0,
    matrix: 30.0,
    affinity: 20.0,
    latency: 15.0,
    stream: 25.0,
    contention: 25.0,
    sysbench: 25.0,
    bench: 60.0,
    published: false,
};

/// The published parameters. Takes tens of minutes.
pub const FULL: Profile = Profile {
    name: "full",
    noise: 120.0,
    clock: 30.0,
    scaling: 240.0,
    modes: 240.0,
    python: 600.0,
    matrix: 120.0,
    affinity: 60.0,
    latency: 60.0,
    stream: 60.0,
    contention: 60.0,
    sysbench: 120.0,
    bench: 240.0,
    published: true,
};

impl Profile {
    /// Returns the profile with all times multiplied by `factor`.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            noise: self.noise * factor,
            clock: self.clock * factor,
            scaling: self.scaling * factor,
            modes: self.modes * factor,
            python: self.python * factor,
            matrix: self.matrix * factor,
            affinity: self.affinity * factor,
            latency: self.latency * factor,
            stream: self.stream * factor,
            contention: self.contention * factor,
            sysbench: self.sysbench * factor,
            bench: self.bench * factor,
            ..self
        }
    }

    /// Returns the profile for `cpus` CPUs: with the time that the published parameters need, and no more
    /// time for pairs of CPUs than is useful.
    pub fn for_cpus(mut self, cpus: usize) -> Self {
        self.latency = self.latency.min(latency::enough_seconds(cpus));
        if !self.published {
            return self;
        }
        let counts = worker_counts(cpus).len() as f64;
        // Besides the measured slices, settling and the reading of counters take time.
        Self { scaling: self.scaling.max(counts * PUBLISHED_SECONDS * 1.3), ..self }
    }
}

/// Seconds of prime events for each number of workers in the published evaluation.
pub(crate) const PUBLISHED_SECONDS: f64 = 30.0;

/// Seconds of UnixBench's ten passes.
pub(crate) const UNIXBENCH_SECONDS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_parameters_take_longer_on_more_cpus() {
        assert_eq!(QUICK.for_cpus(320), QUICK);
        assert!(QUICK.for_cpus(2).latency < 1.0 && QUICK.for_cpus(16) == QUICK);
        assert!(FULL.for_cpus(320).scaling >= 11.0 * PUBLISHED_SECONDS);
    }
}

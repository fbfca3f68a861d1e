//! How long runs of a runtime take, for the time that is left.

use manycore_experiment::spawning::Runtime;

/// Light processes that take longer than this are threads or processes of the system.
const THREAD_SECONDS: f64 = 1e-4;

/// The seconds that a runtime takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RunCost {
    /// Finding or compiling its program.
    pub prepare: f64,
    /// Starting and ending it, without light processes.
    pub start: f64,
    /// Each light process.
    pub each: f64,
    /// Each light process, for each other one: the JVM takes longer for a platform thread the more there are.
    pub pair: f64,
}

impl RunCost {
    /// Returns what a runtime costs typically, with its program compiled earlier.
    pub(crate) fn typical(runtime: Runtime) -> Self {
        let (prepare, start, each, pair) = match runtime {
            Runtime::Beam => (0.3, 0.5, 5e-6, 0.0),
            Runtime::Go => (0.3, 0.1, 5e-6, 0.0),
            Runtime::Jvm => (0.6, 0.4, 15e-5, 95e-9),
            Runtime::Tokio => (0.0, 0.1, 3e-6, 0.0),
            Runtime::Threads => (0.0, 0.1, 8e-5, 0.0),
            Runtime::Processes => (0.0, 0.1, 55e-5, 0.0),
        };
        Self { prepare, start, each, pair }
    }

    /// Returns the expected seconds of a run of so many light processes.
    pub(crate) fn seconds(self, count: u64) -> f64 {
        let count = count as f64;
        self.start + self.each * count + self.pair * count * count
    }

    /// Returns the costs that runs showed: each with its count and its seconds, the smaller count first.
    pub(crate) fn of_runs(self, runs: &[(u64, f64)]) -> Self {
        let [.., (few, short), (many, long)] = *runs else { return self };
        if many <= few {
            return self;
        }
        let seen = ((long - short) / (many - few) as f64).max(0.0);
        let start = (short - seen * few as f64).max(0.0);
        if seen <= THREAD_SECONDS {
            return Self { start, each: seen, pair: 0.0, ..self };
        }
        // Few threads of the system do not show what many of them take.
        Self { start, each: (seen - self.pair * (few + many) as f64).max(self.each), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_from_two_runs() {
        let typical = RunCost::typical(Runtime::Jvm);
        assert_eq!(typical.of_runs(&[]), typical);
        assert_eq!(typical.of_runs(&[(100, 1.0)]), typical);
        let seen = typical.of_runs(&[(1000, 1.0), (10_000, 1.9)]);
        assert!((seen.seconds(100_000) - 10.9).abs() < 1e-9, "{seen:?}");
        // Threads of the system: many cost more each than the few that were seen.
        let seen = typical.of_runs(&[(100, 0.5), (1000, 0.7)]);
        assert_eq!((seen.each, seen.pair), (typical.each, typical.pair));
        // 10,000 platform threads of OpenJDK 17 took 11 to 14 s on 2 CPUs, 3,000 took 1.5 s.
        assert!((11.0..14.0).contains(&seen.seconds(10_000)), "{seen:?}");
        assert!((1.3..2.0).contains(&seen.seconds(3_000)), "{seen:?}");
        // The second run was faster by chance.
        let seen = typical.of_runs(&[(100, 1.0), (1000, 0.9)]);
        assert_eq!((seen.each, seen.start), (0.0, 1.0));
    }
}

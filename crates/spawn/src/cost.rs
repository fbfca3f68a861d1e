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
}

impl RunCost {
    /// Returns what a runtime costs typically, with its program compiled earlier.
    pub(crate) fn typical(runtime: Runtime) -> Self {
        let (prepare, start, each) = match runtime {
            Runtime::Beam => (0.3, 0.5, 5e-6),
            Runtime::Go => (0.3, 0.1, 5e-6),
            Runtime::Jvm => (0.6, 0.7, 14e-4),
            Runtime::Tokio => (0.0, 0.1, 3e-6),
            Runtime::Threads => (0.0, 0.1, 8e-5),
            Runtime::Processes => (0.0, 0.1, 6e-4),
        };
        Self { prepare, start, each }
    }

    /// Returns the expected seconds of a run of so many light processes.
    pub(crate) fn seconds(self, count: u64) -> f64 {
        self.start + self.each * count as f64
    }

    /// Returns the costs that runs showed: each with its count and its seconds, the smaller count first.
    pub(crate) fn of_runs(self, runs: &[(u64, f64)]) -> Self {
        let [.., (few, short), (many, long)] = *runs else { return self };
        if many <= few {
            return self;
        }
        let seen = ((long - short) / (many - few) as f64).max(0.0);
        // Each thread of the system takes longer the more there are: few of them show the least.
        let each = if seen > THREAD_SECONDS { seen.max(self.each) } else { seen };
        Self { start: (short - seen * few as f64).max(0.0), each, ..self }
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
        // Threads of the system: fewer of them than later cost less each.
        let seen = typical.of_runs(&[(100, 0.8), (1000, 1.2)]);
        assert_eq!(seen.each, typical.each);
        // The second run was faster by chance.
        let seen = typical.of_runs(&[(100, 1.0), (1000, 0.9)]);
        assert_eq!((seen.each, seen.start), (0.0, 1.0));
    }
}

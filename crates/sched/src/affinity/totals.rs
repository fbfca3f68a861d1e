//! What a session did, per interval and in total.

use super::decision::{Action, AffinityStep, Decision};
use std::time::Duration;

/// What was seen and done in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IntervalReport {
    /// Time since the session began.
    pub at: Duration,
    /// Number of threads of the work.
    pub threads: usize,
    /// Number of those that are busy.
    pub busy: usize,
    /// Number of units in which busy threads ran.
    pub used_units: usize,
    /// Number of all units.
    pub units: usize,
    /// Number of busy threads that another unit would have suited better.
    pub misplaced: usize,
    /// The changes that were made.
    pub steps: Vec<AffinityStep>,
    /// CPU time that this process used for it.
    pub cost: Duration,
}

/// The sums of all intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AffinityTotals {
    /// Time that the session took.
    pub elapsed: Duration,
    /// CPU time that this process used since the session began.
    pub cost: Duration,
    /// Number of intervals.
    pub intervals: usize,
    /// Number of intervals with at least one busy thread.
    pub busy_intervals: usize,
    /// Number of those in which another unit would have suited a busy thread better.
    pub misplaced_intervals: usize,
    /// Number of moves to another unit.
    pub moves: usize,
    /// Number of threads that were confined to the unit in which they were.
    pub holds: usize,
    /// Number of times that a thread got its own CPUs back before the end.
    pub releases: usize,
    /// Number of threads whose affinity was changed.
    pub changed_threads: usize,
}

impl IntervalReport {
    pub(super) fn new(decision: &Decision, threads: usize, units: usize) -> Self {
        Self {
            threads,
            units,
            busy: decision.busy,
            used_units: decision.used_units,
            misplaced: decision.misplaced,
            ..Self::default()
        }
    }

    /// Returns the number of steps of this kind.
    pub fn count(&self, action: Action) -> usize {
        self.steps.iter().filter(|step| step.action == action).count()
    }
}

impl AffinityTotals {
    pub(super) fn add(&mut self, report: &IntervalReport) {
        self.intervals += 1;
        self.busy_intervals += usize::from(report.busy > 0);
        self.misplaced_intervals += usize::from(report.misplaced > 0);
        self.moves += report.count(Action::Move);
        self.holds += report.count(Action::Hold);
        self.releases += report.count(Action::Release);
    }
}

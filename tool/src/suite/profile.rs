//! How much time each section gets.

use crate::experiment::live::Pace;
use std::time::Duration;

/// Budgets of one run, in seconds of wall time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Name in the record.
    pub name: &'static str,
    /// A/A.
    pub noise: f64,
    /// Clock of the CPUs.
    pub clock: f64,
    /// Prime events by workers.
    pub scaling: f64,
    /// Serial, threads, processes in our own code.
    pub modes: f64,
    /// The same in Python, both BLAS settings together.
    pub python: f64,
    /// Matrix products.
    pub matrix: f64,
    /// Free against bound.
    pub affinity: f64,
    /// Beside sysbench.
    pub sysbench: f64,
    /// Whether sizes and repetitions are those of the published evaluations, whatever time they take:
    /// 30 s of prime events for each number of workers, 50 inverses of 1000 x 1000.
    pub published: bool,
}

/// At most 90 s on 2 CPUs.
pub const QUICK: Profile = Profile {
    name: "quick",
    noise: 8.0,
    clock: 3.0,
    scaling: 14.0,
    modes: 6.0,
    python: 16.0,
    matrix: 18.0,
    affinity: 6.0,
    sysbench: 8.0,
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
    sysbench: 25.0,
    published: false,
};

/// The published parameters; tens of minutes.
pub const FULL: Profile = Profile {
    name: "full",
    noise: 120.0,
    clock: 30.0,
    scaling: 240.0,
    modes: 240.0,
    python: 600.0,
    matrix: 120.0,
    affinity: 60.0,
    sysbench: 120.0,
    published: true,
};

/// Length of a slice: the shortest that is long beside a switch. Longer ones see more of the drift of a shared
/// machine (`make bench` measures it).
pub const SLICE: Duration = Duration::from_millis(50);

/// Time thrown away after a switch: workers wake, migrate, warm their caches.
pub const SETTLE: Duration = Duration::from_millis(10);

/// The pace of all sliced sections.
pub const SLICES: Pace = Pace::Slices { slice: SLICE, settle: SETTLE };

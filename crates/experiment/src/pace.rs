//! How samples are taken: in slices of time, or as whole pieces of work.

use crate::record::Method;
use manycore_topology::Machine;
use std::time::Duration;

/// Period of a CPU quota, unless somebody changed it (`Documentation/scheduler/sched-bwc.rst`).
const QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// Length of a slice: the shortest that is long beside a switch. Longer ones see more of the drift of a shared
/// machine (`make bench` measures it).
pub const SLICE: Duration = Duration::from_millis(50);

/// Time thrown away after a switch: workers wake, migrate, warm their caches.
const SETTLE: Duration = Duration::from_millis(10);

/// How a sample is taken.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Active for a time.
    Slices {
        /// Time counted.
        slice: Duration,
        /// Time thrown away before it.
        settle: Duration,
    },
    /// Until each worker has done its ticks.
    Whole,
}

impl Pace {
    /// How a record tells it.
    pub fn method(self) -> Method {
        match self {
            Self::Slices { slice, settle } => {
                Method::Slices { slice_ns: slice.as_nanos() as u64, settle_ns: settle.as_nanos() as u64 }
            }
            Self::Whole => Method::Whole,
        }
    }
}

/// The pace of sliced sections on `machine`.
///
/// Where a quota can hold workers back, a slice must be long beside the quota's period and may not begin in one
/// that the treatment before has used up.
pub fn slices(machine: &Machine) -> Pace {
    let slice = if under_quota(machine) { 3 * QUOTA_PERIOD } else { SLICE };
    Pace::Slices { slice, settle: settle(machine) }
}

/// Time thrown away after a switch on `machine`.
pub fn settle(machine: &Machine) -> Duration {
    if under_quota(machine) { QUOTA_PERIOD + SETTLE } else { SETTLE }
}

fn under_quota(machine: &Machine) -> bool {
    machine.allowed.quota_cpus.is_some_and(|quota| quota < machine.allowed.cpus.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_outlast_the_period_of_a_quota() {
        let mut machine = Machine::default();
        machine.allowed.cpus = "0-7".parse().unwrap();
        let length = |machine: &Machine| match slices(machine) {
            Pace::Slices { slice, settle } => (slice, settle),
            Pace::Whole => unreachable!("slices are no whole work"),
        };
        assert_eq!(length(&machine), (SLICE, SETTLE));
        machine.allowed.quota_cpus = Some(8.0);
        assert_eq!(length(&machine), (SLICE, SETTLE));
        machine.allowed.quota_cpus = Some(2.5);
        assert!(length(&machine).0 >= 2 * QUOTA_PERIOD && length(&machine).1 >= QUOTA_PERIOD);
    }
}

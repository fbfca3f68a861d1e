//! How samples are taken: in slices of time, or as whole pieces of work.

use crate::record::Method;
use manycore_topology::Machine;
use std::time::Duration;

/// Default period of a CPU quota (`Documentation/scheduler/sched-bwc.rst`).
const QUOTA_PERIOD: Duration = Duration::from_millis(100);

/// Length of a slice: the shortest that is long compared with a switch of treatments. Longer slices see more
/// of the drift of a shared machine (`make bench` measures it).
pub const SLICE: Duration = Duration::from_millis(50);

/// Time after a switch that is not measured: workers wake up, migrate and warm their caches.
const SETTLE: Duration = Duration::from_millis(10);

/// How a sample is measured.
#[derive(Clone, Copy, Debug)]
pub enum SamplingMode {
    /// Workers are active for a fixed time.
    Slices {
        /// Measured time.
        slice: Duration,
        /// Time before it, which is not measured.
        settling_time: Duration,
    },
    /// Each worker does a fixed number of ticks.
    FixedWork,
}

impl SamplingMode {
    /// Returns the method as a record stores it.
    pub fn method(self) -> Method {
        match self {
            Self::Slices { slice, settling_time } => Method::Slices {
                slice_ns: slice.as_nanos() as u64,
                settle_ns: settling_time.as_nanos() as u64,
            },
            Self::FixedWork => Method::WholeRun,
        }
    }
}

/// Returns the mode of sliced experiments on `machine`.
///
/// If a CPU quota can throttle workers, a slice must be long compared with the period of the quota. It must
/// not begin in a period whose quota the previous treatment has used up.
pub fn slices(machine: &Machine) -> SamplingMode {
    let slice = if under_quota(machine) { 3 * QUOTA_PERIOD } else { SLICE };
    SamplingMode::Slices { slice, settling_time: settling_time(machine) }
}

/// Returns the time after a switch that is not measured on `machine`.
pub fn settling_time(machine: &Machine) -> Duration {
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
            SamplingMode::Slices { slice, settling_time } => (slice, settling_time),
            SamplingMode::FixedWork => unreachable!("sections are measured in slices"),
        };
        assert_eq!(length(&machine), (SLICE, SETTLE));
        machine.allowed.quota_cpus = Some(8.0);
        assert_eq!(length(&machine), (SLICE, SETTLE));
        machine.allowed.quota_cpus = Some(2.5);
        assert!(length(&machine).0 >= 2 * QUOTA_PERIOD && length(&machine).1 >= QUOTA_PERIOD);
    }
}

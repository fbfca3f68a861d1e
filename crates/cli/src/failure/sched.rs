//! Exit codes of errors of the scheduler.

use super::Failure;
use manycore_sched as sched;

impl From<sched::Error> for Failure {
    fn from(error: sched::Error) -> Self {
        match &error {
            sched::Error::Topology(_) | sched::Error::OneCluster => Self::input(error),
            sched::Error::Removed(_) => Self::Measured(error.to_string()),
            sched::Error::NotBuilt(_)
            | sched::Error::NoSchedExt
            | sched::Error::Other(_)
            | sched::Error::Bpf(_) => Self::missing(error),
        }
    }
}

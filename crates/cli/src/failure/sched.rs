//! Exit codes of errors of the scheduler.

use super::Failure;
use manycore_sched as sched;

impl From<sched::Error> for Failure {
    fn from(error: sched::Error) -> Self {
        match &error {
            sched::Error::Topology(_) => Self::input(error),
        }
    }
}

//! Exit codes of errors of the scheduler, and the options that avoid them.

use super::Failure;
use manycore_sched as sched;

impl From<sched::Error> for Failure {
    fn from(error: sched::Error) -> Self {
        use sched::Error;
        match error {
            Error::Control(error) => error.into(),
            Error::NoProgress => Self::input(format!(
                "{error}: give --progress COMMAND, which prints a number that grows with the work done, such as the \
                 number of requests served"
            )),
            Error::NoTarget => {
                Self::input(format!("{error}: give --pid, --name, --cgroup, or a command after --"))
            }
            Error::AutoPolicy => {
                Self::input("--policy auto: affinities cannot be chosen by measurement; give spread or pack")
            }
            Error::OneUnit { ref others, .. } => Self::input(match others.first() {
                Some(level) => format!("{error} (--level {})", level.name()),
                None => error.to_string(),
            }),
            Error::Removed(_) => Self::Measured(error.to_string()),
            Error::NotPermitted { .. }
            | Error::SchedulingClass(_)
            | Error::NotBuilt(_)
            | Error::NoSchedExt
            | Error::Other(_)
            | Error::Bpf(_) => Self::missing(error),
            Error::OneCluster
            | Error::OldGroup(_)
            | Error::SeveralAuto
            | Error::Progress { .. }
            | Error::Topology(_)
            | Error::Target(_)
            | Error::NoProcessNamed { .. } => Self::input(error),
        }
    }
}

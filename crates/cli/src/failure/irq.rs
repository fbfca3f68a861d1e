//! Exit codes of errors of interrupts and of the audit, and the options that avoid them.

use super::Failure;
use manycore_audit as audit;
use manycore_irq as irq;

impl From<irq::Error> for Failure {
    fn from(error: irq::Error) -> Self {
        match &error {
            irq::Error::NoCounters(_) | irq::Error::Journal { .. } | irq::Error::NotMoved(_) => {
                Self::missing(error)
            }
            irq::Error::Cpus { requested, .. } => Self::input(format!("--cpus {requested}: {error}")),
            _ => Self::input(error),
        }
    }
}

impl From<audit::Error> for Failure {
    fn from(error: audit::Error) -> Self {
        match &error {
            audit::Error::NoProcess(absent) if !absent.is_hidden() => {
                Self::input(format!("{error}: --pid takes the id of a running process, as 'ps -e' shows it"))
            }
            audit::Error::NoProcess(_) | audit::Error::Read(_) => Self::input(error),
        }
    }
}

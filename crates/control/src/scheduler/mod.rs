//! Schedulers that are switched between the runs of an experiment.
//!
//! Every [`Scheduler`] but the kernel's own one is a program that keeps its `sched_ext` scheduler loaded while it runs.
//! When it ends, for whatever reason, the kernel schedules all tasks itself again. [`SchedulerSwitch`] starts and ends
//! these programs, and reads after each step what the kernel says (`/sys/kernel/sched_ext`): which scheduler is loaded,
//! and whether it is still the one that was loaded for a run.
//!
//! A program is in the journal before it is started. It ends with SIGTERM; if this process is killed, the kernel kills
//! the program, and the cleanup process or `undo` kills what the program has started.

mod error;
mod process;
mod switch;

pub use error::SchedulerError;
pub use switch::{SchedulerSwitch, Switched};
pub(crate) use switch::{is_kernel, words};

/// The label of the kernel's own scheduler.
pub const KERNEL: &str = "kernel";

/// Variable in the environment of the programs of schedulers, and of all that they start.
pub(crate) const MARK: &str = "MANYCORE_SCHEDULER";

/// A scheduler of all tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scheduler {
    /// What the user calls it: `kernel`, `cluster:spread`, `scx_lavd --performance`.
    pub label: String,
    /// What loads it; the kernel's own one where it is absent.
    pub loader: Option<SchedulerLoader>,
}

/// A program that keeps a scheduler loaded while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchedulerLoader {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that are added to our own environment.
    pub env: Vec<(String, String)>,
    /// How the kernel's name of the scheduler begins (`/sys/kernel/sched_ext/root/ops`), if that is known.
    pub name_prefix: Option<String>,
}

impl Scheduler {
    /// Returns the kernel's own scheduler.
    pub fn kernel() -> Self {
        Self { label: KERNEL.to_owned(), loader: None }
    }
}

#[cfg(test)]
mod tests;

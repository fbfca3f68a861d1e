//! `taskset(1)`: the CPUs of a command.

use super::{Export, comments};
use crate::Plan;
use manycore_topology::CpuSet;

impl Plan {
    /// The words to put before a command so that it may use the plan's CPUs: `taskset -c 0-3`. Which of them
    /// a worker takes is left to the scheduler.
    pub fn taskset(&self) -> String {
        words(&self.cpus())
    }
}

pub(super) fn text(export: &Export) -> String {
    let memory = export.memory_by_numactl().map(|_| {
        comments(&[format!("taskset has no word for memory ({}): --as numactl has", export.memory)])
    });
    memory.unwrap_or_default() + &export.lines(|worker| words(&worker.cpus))
}

fn words(cpus: &CpuSet) -> String {
    format!("taskset -c {cpus}")
}

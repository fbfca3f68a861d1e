//! Exports for `taskset(1)`: the CPUs of a command.

use super::{Export, comments};
use crate::PlacementPlan;
use manycore_topology::CpuSet;

impl PlacementPlan {
    /// Returns the command prefix that restricts a command to the plan's CPUs: `taskset -c 0-3`. The
    /// scheduler chooses among them for each worker.
    pub fn taskset(&self) -> String {
        words(&self.cpus())
    }
}

pub(super) fn text(export: &Export) -> String {
    let memory = export
        .memory_by_numactl()
        .map(|_| comments(&[format!("taskset cannot set a memory policy ({}); numactl can", export.memory)]));
    memory.unwrap_or_default() + &export.lines(|worker| words(&worker.cpus))
}

fn words(cpus: &CpuSet) -> String {
    format!("taskset -c {cpus}")
}

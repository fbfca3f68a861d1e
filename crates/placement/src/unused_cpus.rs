//! CPUs that a policy does not use, whatever the number of workers.

use crate::{Policy, Reserve, pool};
use manycore_topology::{CpuSet, Machine};

/// CPUs of a machine that no worker gets. The sets do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedCpus {
    /// Reserved.
    pub reserved: CpuSet,
    /// Isolated, neither named by `cpus=LIST` nor included by `+isolated`.
    pub isolated: CpuSet,
    /// Online, but not allowed for this process.
    pub denied: CpuSet,
    /// Offline.
    pub offline: CpuSet,
}

impl UnusedCpus {
    /// Returns the CPUs that `policy` does not use on this machine.
    pub fn new(policy: &Policy, machine: &Machine, reserve: &Reserve) -> Self {
        let (may, named) = (pool::allowed_cpus(machine, policy), policy.named());
        let isolated =
            machine.pinnable_cpus().intersection(&machine.isolated.difference(&policy.isolated(machine)));
        let free = may.difference(&isolated);
        Self {
            reserved: reserve.cpus(machine, &free, &named),
            denied: machine.online.difference(&may).difference(&isolated),
            isolated,
            offline: machine.offline.difference(&machine.online),
        }
    }
}

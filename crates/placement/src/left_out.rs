//! CPUs that a policy leaves out, whatever the number of workers.

use super::{Policy, Reserve, pool};
use manycore_topology::{CpuSet, Machine};

/// CPUs of a machine that no worker gets. The sets do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Kept back by the reserve.
    pub reserved: CpuSet,
    /// Isolated, and neither named by `cpus=LIST` nor meant by `+isolated`.
    pub isolated: CpuSet,
    /// Online, and not allowed for this process.
    pub denied: CpuSet,
    /// Switched off.
    pub offline: CpuSet,
}

impl LeftOut {
    /// What `policy` leaves out on this machine.
    pub fn of(policy: &Policy, machine: &Machine, reserve: &Reserve) -> Self {
        let (may, named) = (pool::permitted(machine, policy), policy.named());
        let isolated =
            machine.placeable().intersection(&machine.isolated.difference(&policy.isolated(machine)));
        let free = may.difference(&isolated);
        Self {
            reserved: reserve.cpus(machine, &free, &named),
            denied: machine.online.difference(&may).difference(&isolated),
            isolated,
            offline: machine.offline.difference(&machine.online),
        }
    }
}

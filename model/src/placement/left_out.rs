//! CPUs that a policy leaves out, whatever the number of workers.

use super::{Policy, Reserve, pool};
use crate::{CpuSet, Machine};

/// CPUs of a machine that no worker gets. The sets do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Kept back by the reserve.
    pub reserved: CpuSet,
    /// Isolated, and not named by `cpus=LIST`.
    pub isolated: CpuSet,
    /// Online, and not allowed for this process.
    pub denied: CpuSet,
    /// Switched off.
    pub offline: CpuSet,
}

impl LeftOut {
    /// What `policy` leaves out on this machine.
    pub fn of(policy: &Policy, machine: &Machine, reserve: &Reserve) -> Self {
        let (may, named) = (pool::permitted(machine), policy.named());
        let isolated = may.intersection(&machine.isolated.difference(&named));
        let free = may.difference(&isolated);
        Self {
            reserved: reserve.cpus(machine, &free, &named),
            isolated,
            denied: machine.online.difference(&may),
            offline: machine.offline.difference(&machine.online),
        }
    }
}

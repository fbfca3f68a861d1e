//! Interrupts of devices: the CPUs that may handle them, and the CPUs that did.

pub mod affinity;
pub mod counts;

use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;
use std::collections::BTreeMap;

/// One interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupt {
    /// The kernel's number (`/proc/irq/N`).
    pub irq: u32,
    /// Names of its handlers, as their drivers set them, separated by commas.
    pub name: String,
    /// PCI address of its device; absent for devices that are not on a PCI bus, such as a serial port.
    pub device: Option<String>,
    /// Names of the device: network interfaces, disks.
    pub device_names: Vec<String>,
    /// NUMA node of the device; absent if the firmware does not report it.
    pub node: Option<u32>,
    /// CPUs that may handle it (`smp_affinity_list`).
    pub allowed: Option<CpuSet>,
    /// CPUs that the kernel has chosen among them (`effective_affinity_list`, since Linux 4.13).
    pub handled_on: Option<CpuSet>,
    /// Whether the kernel reports that it cannot be moved: its affinity is managed, or it belongs to one CPU.
    /// Kernels before 6.11 without debugfs do not report it, and refuse the attempt.
    pub unmovable: bool,
    /// Number of interrupts by CPU; CPUs without any are left out.
    pub counts: BTreeMap<CpuId, u64>,
}

impl Interrupt {
    /// Returns the names of its handlers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.name.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// Whether a handler is called `name`, alone or followed by a queue: `eth0`, `eth0-TxRx-3`.
    pub fn is_named_after(&self, name: &str) -> bool {
        self.names().any(|own| {
            own.strip_prefix(name).is_some_and(|queue| queue.is_empty() || queue.starts_with(['-', '@', ':']))
        })
    }

    /// Returns the number of interrupts on all CPUs.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, counts| sum.saturating_add(*counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_counts_do_not_overflow() {
        let counts = BTreeMap::from([(0, u64::MAX), (1, 2)]);
        assert_eq!(Interrupt { counts, ..Interrupt::default() }.total(), u64::MAX);
    }
}

//! Interrupts: their devices, the CPUs that may handle them, and the CPUs that did.

pub mod affinity;
pub mod counts;

use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`Interrupts::schema`] that this version writes.
pub const INTERRUPTS_SCHEMA: &str = "manycore/interrupts/1";

/// Interrupts taken by the CPUs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interrupts {
    /// Always [`INTERRUPTS_SCHEMA`].
    pub schema: String,
    /// Length of the interval in seconds; absent if they were counted since boot.
    pub seconds: Option<f64>,
    /// Number of interrupts of devices.
    pub devices: Vec<Interrupt>,
    /// Interrupts of the architecture (timers, inter-processor interrupts), if they were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architecture: Vec<Kind>,
    /// The sums of both for each CPU.
    pub cpus: Vec<OnCpu>,
}

/// One interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    pub fixed: bool,
    /// Number of interrupts by CPU; CPUs without any are left out.
    pub taken: BTreeMap<CpuId, u64>,
}

/// One kind of architecture interrupt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    /// The kernel's abbreviation: `LOC`, `RES`.
    pub name: String,
    /// The kernel's description: `Local timer interrupts`.
    pub what: String,
    /// Number of interrupts by CPU; CPUs without any are left out.
    pub taken: BTreeMap<CpuId, u64>,
}

/// The interrupts of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnCpu {
    /// The CPU.
    pub cpu: CpuId,
    /// Number of interrupts of devices.
    pub devices: u64,
    /// Number of interrupts of the architecture.
    pub architecture: u64,
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
        self.taken.values().fold(0, |sum, taken| sum.saturating_add(*taken))
    }
}

/// The outcome for an interrupt that was to be moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    /// The kernel's number.
    pub irq: u32,
    /// Names of its handlers.
    pub name: String,
    /// The requested CPUs.
    pub asked: CpuSet,
    /// CPUs that were allowed to handle it before.
    pub before: Option<CpuSet>,
    /// CPUs that are allowed to handle it now.
    pub allowed: Option<CpuSet>,
    /// CPUs that the kernel has chosen among them.
    pub handled_on: Option<CpuSet>,
    /// Why it was not moved.
    pub refused: Option<String>,
}

/// Value of [`Moves::schema`] that this version writes.
pub const MOVES_SCHEMA: &str = "manycore/irq-moves/1";

/// The outcome for the interrupts of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moves {
    /// Always [`MOVES_SCHEMA`].
    pub schema: String,
    /// The device as it was requested.
    pub device: String,
    /// The outcome for each of its interrupts.
    pub moves: Vec<Move>,
    /// Name of the journal with which the changes can be undone; absent if nothing was changed.
    pub journal: Option<String>,
}

/// Distributes `lists` of CPUs over `count` interrupts in turn.
pub fn deal(lists: &[CpuSet], count: usize) -> Vec<CpuSet> {
    lists.iter().cycle().take(count).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_dealt_in_turns() {
        let lists = ["0", "4-5"].map(|list| list.parse().unwrap());
        let dealt: Vec<String> = deal(&lists, 3).iter().map(ToString::to_string).collect();
        assert_eq!(dealt, ["0", "4-5", "0"]);
        assert!(deal(&[], 3).is_empty());
    }

    #[test]
    fn absurd_counts_do_not_overflow() {
        let taken = BTreeMap::from([(0, u64::MAX), (1, 2)]);
        assert_eq!(Interrupt { taken, ..Interrupt::default() }.total(), u64::MAX);
    }
}

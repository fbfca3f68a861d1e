//! Interrupts: whose they are, where they may be handled and where they were.

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
    /// Over how many seconds they were counted; absent where it is since the start of the machine.
    pub seconds: Option<f64>,
    /// Interrupts of devices.
    pub devices: Vec<Interrupt>,
    /// Those of the architecture (timers, calls between CPUs), where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architecture: Vec<Kind>,
    /// What each CPU took of both.
    pub cpus: Vec<OnCpu>,
}

/// One interrupt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interrupt {
    /// The kernel's number (`/proc/irq/N`).
    pub irq: u32,
    /// Names of those who handle it, as their drivers gave them, separated by a comma.
    pub name: String,
    /// PCI address of its device; absent for one that is on no PCI bus, such as a serial port.
    pub device: Option<String>,
    /// What people call the device.
    pub device_names: Vec<String>,
    /// NUMA node of the device; absent where the firmware gives none.
    pub node: Option<u32>,
    /// CPUs that may handle it (`smp_affinity_list`).
    pub allowed: Option<CpuSet>,
    /// CPUs that the kernel has chosen among them (`effective_affinity_list`, since Linux 4.13).
    pub handled_on: Option<CpuSet>,
    /// Whether the kernel says that nobody may move it: its affinity is managed, or it belongs to a CPU.
    /// Kernels before 6.11 without debugfs say nothing, and refuse when it is tried.
    pub fixed: bool,
    /// How many each CPU took; a CPU that took none is left out.
    pub taken: BTreeMap<CpuId, u64>,
}

/// One kind of interrupts of the architecture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    /// The kernel's abbreviation: `LOC`, `RES`.
    pub name: String,
    /// What they are: `Local timer interrupts`.
    pub what: String,
    /// How many each CPU took; a CPU that took none is left out.
    pub taken: BTreeMap<CpuId, u64>,
}

/// All that one CPU took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OnCpu {
    /// Which.
    pub cpu: CpuId,
    /// Interrupts of devices.
    pub devices: u64,
    /// Interrupts of the architecture.
    pub architecture: u64,
}

impl Interrupt {
    /// The names of those who handle it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.name.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// Whether it is handled under `name` alone, or with a queue behind it: `eth0`, `eth0-TxRx-3`.
    pub fn is_named_after(&self, name: &str) -> bool {
        self.names().any(|own| {
            own.strip_prefix(name).is_some_and(|queue| queue.is_empty() || queue.starts_with(['-', '@', ':']))
        })
    }

    /// How many all CPUs took.
    pub fn total(&self) -> u64 {
        self.taken.values().fold(0, |sum, taken| sum.saturating_add(*taken))
    }
}

/// What became of an interrupt that was to be moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    /// The kernel's number.
    pub irq: u32,
    /// Names of those who handle it.
    pub name: String,
    /// CPUs that it was asked for.
    pub asked: CpuSet,
    /// CPUs that might handle it before.
    pub before: Option<CpuSet>,
    /// CPUs that may handle it now.
    pub allowed: Option<CpuSet>,
    /// CPUs that the kernel has chosen among them.
    pub handled_on: Option<CpuSet>,
    /// Why it was left where it was.
    pub refused: Option<String>,
}

/// Value of [`Moves::schema`] that this version writes.
pub const MOVES_SCHEMA: &str = "manycore/irq-moves/1";

/// What became of the interrupts of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moves {
    /// Always [`MOVES_SCHEMA`].
    pub schema: String,
    /// The device as it was asked for.
    pub device: String,
    /// Each of its interrupts.
    pub moves: Vec<Move>,
    /// Name of the journal that takes it back; absent where nothing had to be changed.
    pub journal: Option<String>,
}

/// Deals `lists` of CPUs to `count` interrupts in turns.
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

//! The results of `irq show` and `irq place`.

use manycore_linux::interrupts::Interrupt;
use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`Interrupts::schema`] that this version writes.
pub const INTERRUPTS_SCHEMA: &str = "manycore/interrupts/1";

/// Interrupts taken by the CPUs of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupts {
    /// Always [`INTERRUPTS_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = INTERRUPTS_SCHEMA)))]
    pub schema: String,
    /// Length of the interval in seconds; absent if they were counted since boot.
    pub seconds: Option<f64>,
    /// Interrupts of devices.
    pub devices: Vec<Interrupt>,
    /// Interrupts of the architecture (timers, inter-processor interrupts), if they were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub architecture: Vec<ArchitectureInterrupt>,
    /// Number of interrupts of both sorts for each CPU.
    pub cpus: Vec<CpuInterrupts>,
}

/// One kind of architecture interrupt.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArchitectureInterrupt {
    /// The kernel's abbreviation: `LOC`, `RES`.
    pub name: String,
    /// The kernel's description: `Local timer interrupts`.
    pub description: String,
    /// Number of interrupts by CPU; CPUs without any are left out.
    pub counts: BTreeMap<CpuId, u64>,
}

/// The interrupts of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuInterrupts {
    /// The CPU.
    pub cpu: CpuId,
    /// Number of interrupts of devices.
    pub devices: u64,
    /// Number of interrupts of the architecture.
    pub architecture: u64,
}

/// The outcome for an interrupt that was to be moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptMove {
    /// The kernel's number.
    pub irq: u32,
    /// Names of its handlers.
    pub name: String,
    /// The requested CPUs.
    pub requested: CpuSet,
    /// CPUs that were allowed to handle it before.
    pub before: Option<CpuSet>,
    /// CPUs that are allowed to handle it now.
    pub allowed: Option<CpuSet>,
    /// CPUs that the kernel has chosen among them.
    pub handled_on: Option<CpuSet>,
    /// Why it was not moved.
    pub refused: Option<String>,
}

/// Value of [`InterruptMoves::schema`] that this version writes.
pub const MOVES_SCHEMA: &str = "manycore/irq-moves/1";

/// The outcome for the interrupts of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptMoves {
    /// Always [`MOVES_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = MOVES_SCHEMA)))]
    pub schema: String,
    /// The device as it was requested.
    pub device: String,
    /// The outcome for each interrupt of the device.
    pub moves: Vec<InterruptMove>,
    /// Name of the journal with which the changes can be undone; absent if nothing was changed.
    pub journal: Option<String>,
}

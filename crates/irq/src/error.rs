//! Why interrupts cannot be shown or moved.

use crate::report::InterruptMoves;
use manycore_placement::PlacementError;
use manycore_topology::{CpuSet, Error as TopologyError};
use std::{collections::BTreeSet, io};

/// Why interrupts cannot be shown or moved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree cannot be opened, or one of its files cannot be parsed.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The tree has no interrupt counters.
    #[error("{0} has no readable proc/interrupts, which lists the interrupts")]
    NoCounters(String),
    /// A PCI device has no interrupts in use.
    #[error("{name} ({address}, {driver}) has no interrupts in use")]
    NoInterrupts {
        /// The requested name.
        name: String,
        /// PCI address of the device.
        address: String,
        /// Its driver.
        driver: String,
    },
    /// No device and no interrupt has the name.
    #[error(
        "no PCI device is called {name:?}, and no interrupt is named after it; {near} ('manycore topo' lists all devices)"
    )]
    NoDevice {
        /// The requested name.
        name: String,
        /// Similar names.
        near: String,
    },
    /// The placement is not possible on this machine.
    #[error(transparent)]
    Plan(#[from] PlacementError),
    /// The requested CPUs cannot handle interrupts.
    #[error("{}; online are {}", absent_cpus(.absent), .online.brief())]
    Cpus {
        /// The requested CPUs.
        requested: CpuSet,
        /// Those that are not online; empty if no CPU was requested.
        absent: CpuSet,
        /// CPUs that are online.
        online: CpuSet,
    },
    /// The journal cannot be written, so nothing was changed.
    #[error(
        "cannot write a journal in {folder}: {error}; no interrupt was moved (set {} to use another directory)",
        manycore_control::journal::FOLDER_VARIABLE
    )]
    Journal {
        /// The directory of journals.
        folder: String,
        /// Why it cannot be written.
        error: io::Error,
    },
    /// The device has only interrupts that the kernel does not move.
    #[error(
        "the kernel moves none of the {count} interrupts of {device}: it places them itself (managed interrupts)"
    )]
    NoneMovable {
        /// The requested name.
        device: String,
        /// Number of its interrupts.
        count: usize,
    },
    /// No interrupt of the device could be moved.
    #[error("no interrupt of {} ({} in all) was moved: {}", .0.device, .0.moves.len(), reasons(.0))]
    NotMoved(InterruptMoves),
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

fn absent_cpus(absent: &CpuSet) -> String {
    if absent.is_empty() { "an empty list".to_owned() } else { format!("{} not online", absent.brief()) }
}

fn reasons(moves: &InterruptMoves) -> String {
    let reasons: BTreeSet<&str> = moves.moves.iter().filter_map(|one| one.refused.as_deref()).collect();
    reasons.into_iter().collect::<Vec<_>>().join("; ")
}

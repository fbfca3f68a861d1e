//! Counts interrupts, and the CPUs that took them.

use crate::{
    device::{counts, of_device},
    error::Result,
    report::{ArchitectureInterrupt, CpuInterrupts, INTERRUPTS_SCHEMA, Interrupts},
};
use manycore_linux::{
    clock,
    interrupts::{affinity, counts::InterruptCounts},
};
use manycore_topology::{CpuId, Machine, SysTree};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Which interrupts are counted, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Root of the kernel's files: `/`, or a copy.
    pub root: PathBuf,
    /// Only the interrupts of this device.
    pub device: Option<String>,
    /// Whether interrupts of the architecture are counted one by one.
    pub architecture: bool,
    /// Time for which interrupts are counted.
    pub time: Duration,
}

/// Counts for the requested time; returns the interrupts and the machine.
///
/// # Errors
/// There is no such device, or the tree has no interrupt counters.
pub fn show(options: &Options) -> Result<(Interrupts, Machine)> {
    let tree = SysTree::open(Path::new(&options.root))?;
    let machine = manycore_topology::read(&tree)?;
    let (seconds, counts) = count_interval(&tree, options.time)?;
    let mut devices = affinity::read(&tree, &machine, &counts)?;
    match &options.device {
        Some(name) => devices = of_device(devices, &machine, name)?,
        None => {
            devices.retain(|one| one.total() > 0);
            devices.sort_by_key(|one| (Reverse(one.total()), one.irq));
        }
    }
    let interrupts = Interrupts {
        schema: INTERRUPTS_SCHEMA.to_owned(),
        seconds,
        devices,
        architecture: if options.architecture { architecture(&counts) } else { Vec::new() },
        cpus: cpu_sums(&counts),
    };
    Ok((interrupts, machine))
}

/// Returns the interrupts that occurred in the requested time. The counters of a copied tree do not change;
/// they are returned as they are.
fn count_interval(tree: &SysTree, time: Duration) -> Result<(Option<f64>, InterruptCounts)> {
    let (began, before) = (clock::now_ns(), counts(tree)?);
    if !tree.is_live() {
        return Ok((None, before));
    }
    thread::sleep(time);
    let grown = counts(tree)?.since(&before);
    Ok((Some((clock::now_ns() - began) as f64 / 1e9), grown))
}

fn cpu_sums(counts: &InterruptCounts) -> Vec<CpuInterrupts> {
    let mut found: BTreeMap<CpuId, CpuInterrupts> =
        counts.cpus.iter().map(|&cpu| (cpu, CpuInterrupts { cpu, devices: 0, architecture: 0 })).collect();
    for row in &counts.rows {
        for (cpu, count) in counts.by_cpu(row) {
            let Some(on) = found.get_mut(&cpu) else { continue };
            let sum = if row.irq().is_some() { &mut on.devices } else { &mut on.architecture };
            *sum = sum.saturating_add(count);
        }
    }
    found.into_values().collect()
}

fn architecture(counts: &InterruptCounts) -> Vec<ArchitectureInterrupt> {
    let rows = counts.rows.iter().filter(|row| row.irq().is_none());
    let kinds = rows.map(|row| ArchitectureInterrupt {
        name: row.name.clone(),
        description: row.handlers.clone(),
        counts: counts.by_cpu(row),
    });
    kinds.filter(|kind| !kind.counts.is_empty()).collect()
}

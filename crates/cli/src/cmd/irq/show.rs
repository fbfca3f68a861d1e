//! `manycore irq show`.

use super::{counts, of_device};
use crate::{
    cli::{Format, IrqShow},
    failure::{Failure, Outcome},
    output,
};
use manycore_irq::text;
use manycore_linux::interrupts::{INTERRUPTS_SCHEMA, Interrupts, Kind, OnCpu};
use manycore_linux::{
    clock,
    interrupts::{affinity, counts::Counts},
};
use manycore_topology::CpuId;
use manycore_topology::SysTree;
use std::{cmp::Reverse, collections::BTreeMap, thread};

/// Counts for the requested time, then prints the interrupts and the CPUs that took them.
///
/// # Errors
/// There is no such device, or the tree has no interrupt counters.
pub fn run(args: &IrqShow) -> Outcome {
    let tree = SysTree::open(&args.root).map_err(Failure::input)?;
    let machine = manycore_topology::read(&tree).map_err(Failure::input)?;
    let (seconds, counts) = watch(&tree, args)?;
    let mut devices = affinity::read(&tree, &machine, &counts).map_err(Failure::input)?;
    let cpus = on_cpus(&counts);
    match &args.device {
        Some(name) => devices = of_device(devices, &machine, name)?,
        None => {
            devices.retain(|one| one.total() > 0);
            devices.sort_by_key(|one| (Reverse(one.total()), one.irq));
        }
    }
    let architecture = if args.all { architecture(&counts) } else { Vec::new() };
    let schema = INTERRUPTS_SCHEMA.to_owned();
    let interrupts = Interrupts { schema, seconds, devices, architecture, cpus };
    match args.format {
        Format::Text => output::print(&text::interrupts(&interrupts, &machine, args.device.as_deref())),
        Format::Json => output::print(&output::json(&interrupts)?),
    }
}

/// Returns the interrupts that occurred in the requested time. The counters of a copied tree do not change;
/// they are returned as they are.
fn watch(tree: &SysTree, args: &IrqShow) -> Outcome<(Option<f64>, Counts)> {
    let (began, before) = (clock::now_ns(), counts(tree)?);
    if !tree.is_live() {
        return Ok((None, before));
    }
    thread::sleep(args.time);
    let grown = counts(tree)?.since(&before);
    Ok((Some((clock::now_ns() - began) as f64 / 1e9), grown))
}

fn on_cpus(counts: &Counts) -> Vec<OnCpu> {
    let mut found: BTreeMap<CpuId, OnCpu> =
        counts.cpus.iter().map(|&cpu| (cpu, OnCpu { cpu, devices: 0, architecture: 0 })).collect();
    for row in &counts.rows {
        for (cpu, taken) in counts.taken(row) {
            let Some(on) = found.get_mut(&cpu) else { continue };
            let sum = if row.irq().is_some() { &mut on.devices } else { &mut on.architecture };
            *sum = sum.saturating_add(taken);
        }
    }
    found.into_values().collect()
}

fn architecture(counts: &Counts) -> Vec<Kind> {
    let rows = counts.rows.iter().filter(|row| row.irq().is_none());
    let kinds =
        rows.map(|row| Kind { name: row.name.clone(), what: row.what.clone(), taken: counts.taken(row) });
    kinds.filter(|kind| !kind.taken.is_empty()).collect()
}

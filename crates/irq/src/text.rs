//! Interrupts for reading.

use crate::report::{ArchitectureInterrupt, CpuInterrupts, InterruptMove, InterruptMoves, Interrupts};
use manycore_linux::interrupts::Interrupt;
use manycore_render::{
    document::Document,
    table::{Align, Table},
};
use manycore_topology::{CpuId, CpuSet, Machine};
use std::{cmp::Reverse, collections::BTreeMap};

/// Number of CPUs that are listed in a row; the rest is only counted.
const MAX_LISTED_CPUS: usize = 3;

/// Returns the interrupts with the CPUs that took them: of one `device`, or of all devices with a sum per
/// CPU.
pub fn interrupts(all: &Interrupts, machine: &Machine, device: Option<&str>) -> Document {
    let span = match all.seconds {
        Some(seconds) => format!("per second, over {seconds:.1} s"),
        None => "since boot".to_owned(),
    };
    let whose = device
        .map_or_else(|| "Interrupts".to_owned(), |name| format!("Interrupts of {}", heading(machine, name)));
    let mut document = Document::new();
    document.strong(format!("{whose}, {span}"));
    document.gap();
    if all.devices.is_empty() {
        document.indented(2, "No interrupt of a device occurred.");
    } else {
        document.table(devices(all, device.is_none()));
    }
    if all.devices.iter().any(|one| one.unmovable) {
        document.gap();
        document.indented(2, "fixed: managed by the kernel, cannot be moved.");
    }
    if !all.architecture.is_empty() {
        section(
            &mut document,
            "Interrupts of the architecture",
            architecture(&all.architecture, all.seconds),
        );
    }
    if device.is_none() {
        section(&mut document, "CPUs", cpus(&all.cpus, all.seconds));
    }
    document
}

fn section(document: &mut Document, title: &str, table: Table) {
    document.gap();
    document.strong(title);
    document.gap();
    document.table(table);
}

/// `eth0 (0000:03:00.0, ixgbe, node 1)`
fn heading(machine: &Machine, name: &str) -> String {
    let Some(device) = machine.device(name) else { return name.to_owned() };
    let node = device.node.map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}"));
    let driver = device.driver.as_deref().unwrap_or("no driver");
    let names = if device.names.is_empty() { String::new() } else { format!("{} ", device.names.join(", ")) };
    format!("{names}({}, {driver}, {node})", device.address)
}

fn devices(all: &Interrupts, with_device: bool) -> Table {
    let mut columns = vec![("name", Align::Left)];
    if with_device {
        columns.extend([("device", Align::Left), ("node", Align::Right)]);
    }
    columns.extend([
        ("allowed on", Align::Left),
        ("handled on", Align::Left),
        ("taken", Align::Right),
        ("by CPU", Align::Left),
    ]);
    let row = |one: &Interrupt| {
        let mut cells = vec![one.irq.to_string(), or_none(&one.name)];
        if with_device {
            cells.push(device_name(one));
            cells.push(one.node.map_or_else(|| "-".to_owned(), |node| node.to_string()));
        }
        let fixed = if one.unmovable { ", fixed" } else { "" };
        cells.extend([
            format!("{}{fixed}", list(one.allowed.as_ref())),
            list(one.handled_on.as_ref()),
            figure(one.total(), all.seconds),
            by_cpu(&one.counts, all.seconds),
        ]);
        cells
    };
    table(("irq", Align::Right), &columns, all.devices.iter().map(row).collect())
}

fn architecture(kinds: &[ArchitectureInterrupt], seconds: Option<f64>) -> Table {
    let row = |kind: &ArchitectureInterrupt| {
        let total = kind.counts.values().fold(0_u64, |sum, taken| sum.saturating_add(*taken));
        vec![
            kind.name.clone(),
            kind.description.clone(),
            figure(total, seconds),
            by_cpu(&kind.counts, seconds),
        ]
    };
    let columns = [("what", Align::Left), ("taken", Align::Right), ("by CPU", Align::Left)];
    table(("kind", Align::Left), &columns, kinds.iter().map(row).collect())
}

fn cpus(cpus: &[CpuInterrupts], seconds: Option<f64>) -> Table {
    let row = |on: &CpuInterrupts| {
        vec![on.cpu.to_string(), figure(on.devices, seconds), figure(on.architecture, seconds)]
    };
    let columns = [("devices", Align::Right), ("architecture", Align::Right)];
    table(("CPU", Align::Right), &columns, cpus.iter().map(row).collect())
}

/// Returns the outcome for each interrupt that was to be moved.
pub fn moves(all: &InterruptMoves) -> Document {
    let row = |one: &InterruptMove| {
        let now = match &one.refused {
            Some(why) => format!("not moved: {why}"),
            None => list(one.allowed.as_ref()),
        };
        vec![one.irq.to_string(), or_none(&one.name), list(one.before.as_ref()), now, handled_on(one)]
    };
    let columns =
        [("name", Align::Left), ("before", Align::Left), ("now", Align::Left), ("handled on", Align::Left)];
    let rows = all.moves.iter().map(row).collect();
    let mut document = Document::new();
    document.strong(format!("Interrupts of {}", all.device));
    document.gap();
    document.table(table(("irq", Align::Right), &columns, rows));
    document.gap();
    document.paragraph(match &all.journal {
        Some(journal) => format!("manycore undo {journal} restores their previous CPUs."),
        None => "All interrupts were on these CPUs already: nothing was changed.".to_owned(),
    });
    document
}

/// Returns the CPUs that handle an interrupt. Some interrupt controllers move it only when it occurs next.
fn handled_on(one: &InterruptMove) -> String {
    let handled = list(one.handled_on.as_ref());
    let is_there = one.handled_on.as_ref().is_none_or(|cpus| cpus.is_subset(&one.requested));
    if is_there || one.refused.is_some() { handled } else { format!("{handled} until it occurs next") }
}

fn table(first: (&str, Align), columns: &[(&str, Align)], rows: Vec<Vec<String>>) -> Table {
    let head: Vec<(&str, Align)> = std::iter::once(&first).chain(columns).copied().collect();
    Table::new("", &head).with_rows(rows)
}

/// `eth0 0000:03:00.0`
fn device_name(one: &Interrupt) -> String {
    let names = one.device_names.iter().map(String::as_str);
    or_none(&names.chain(one.device.as_deref()).collect::<Vec<_>>().join(" "))
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn list(cpus: Option<&CpuSet>) -> String {
    cpus.filter(|cpus| !cpus.is_empty()).map_or_else(|| "-".to_owned(), CpuSet::brief)
}

/// Returns a count, or its rate per second.
fn figure(count: u64, seconds: Option<f64>) -> String {
    match seconds.map(|seconds| count as f64 / seconds) {
        None => count.to_string(),
        Some(rate) if count > 0 && rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// Returns `1: 250, 0: 3`, the busiest CPU first; a single CPU is shown without a count.
fn by_cpu(taken: &BTreeMap<CpuId, u64>, seconds: Option<f64>) -> String {
    let mut busiest: Vec<(CpuId, u64)> = taken.iter().map(|(&cpu, &taken)| (cpu, taken)).collect();
    if let [(cpu, _)] = busiest.as_slice() {
        return cpu.to_string();
    }
    busiest.sort_by_key(|&(cpu, taken)| (Reverse(taken), cpu));
    let named = busiest
        .iter()
        .take(MAX_LISTED_CPUS)
        .map(|&(cpu, taken)| format!("{cpu}: {}", figure(taken, seconds)));
    let more = busiest.len().saturating_sub(MAX_LISTED_CPUS);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;

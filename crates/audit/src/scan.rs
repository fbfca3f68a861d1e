//! Scans a machine twice, an interval apart, and finds its problems.

use crate::{
    AUDIT_SCHEMA, Audit, AuditFacts, Examined, Interrupt, Unexamined,
    error::Result,
    find, manycore_pins, pinned,
    process_scan::{ScanScope, enter_cpu_use, scan_processes, times},
};
use manycore_control::journal::Pending;
use manycore_linux::interrupts::{
    affinity,
    counts::{self, InterruptCounts},
};
use manycore_topology::{Machine, SysTree};
use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

/// Scans a tree twice, `interval` apart, and evaluates the facts. `journals` are the changes of manycore that are in
/// force. Findings are those about processes of `scope`.
///
/// # Errors
/// There is no such process, or a file of the tree cannot be parsed.
pub fn audit(tree: &SysTree, scope: &ScanScope, interval: Duration, journals: &[Pending]) -> Result<Audit> {
    let machine = manycore_topology::read(tree)?;
    let scan = scan_processes(tree, &machine, scope)?;
    let (threads, examined) = (scan.threads(), scan.processes.len());
    let in_scope: BTreeSet<u32> = scan.processes.iter().map(|process| process.pid).collect();
    let (mut processes, mut groups) = (scan.processes, scan.groups);
    processes.extend(scan.others);
    manycore_pins::enter(&mut processes, journals);
    let began = Instant::now();
    groups.read_baseline(tree);
    let before = (counts(tree)?, times(tree, &machine.online, &processes));
    thread::sleep(interval.saturating_sub(began.elapsed()));
    let seconds = began.elapsed().as_secs_f64();
    let after = (counts(tree)?, times(tree, &machine.online, &processes));
    let throttling = groups.since(tree);
    enter_cpu_use(&mut processes, &before.1, &after.1, seconds);
    let interrupts = with_devices(tree, &machine, rates(&before.0, &after.0, seconds))?;
    let examined = Examined { processes: examined, threads, seconds };
    let facts = AuditFacts {
        online: machine.online,
        offline: machine.offline,
        isolated: machine.isolated,
        nodes: machine.nodes,
        processes,
        interrupts,
        throttling,
    };
    let mut findings = find(&facts);
    let mut pinned = pinned::find(&facts, &findings);
    // A finding about a group without processes is one about the machine.
    findings.retain(|finding| finding.is_about(&in_scope));
    pinned.retain(|tenant| tenant.claim.is_about(&in_scope));
    let unexamined = scan.unexamined.into_iter().map(|(what, count)| Unexamined { what, count }).collect();
    Ok(Audit { schema: AUDIT_SCHEMA.to_owned(), findings, pinned, examined, unexamined })
}

/// Returns the interrupt counters; empty if the kernel does not show them, as in some containers.
fn counts(tree: &SysTree) -> Result<InterruptCounts> {
    Ok(counts::counts(tree)?.unwrap_or_default())
}

/// Adds the name by which `irq place` finds each interrupt, and whether the kernel manages it.
fn with_devices(tree: &SysTree, machine: &Machine, rates: Vec<Interrupt>) -> Result<Vec<Interrupt>> {
    let rows = rates.iter().map(|irq| counts::InterruptRow {
        name: irq.number.to_string(),
        counts: Vec::new(),
        handlers: irq.name.clone(),
    });
    let counts = InterruptCounts { cpus: Vec::new(), rows: rows.collect() };
    let known = affinity::read(tree, machine, &counts)?;
    let name = |irq: &Interrupt| {
        let known = known.iter().find(|known| known.irq == irq.number)?;
        // The queues of NVMe disks are managed by the kernel, even if it does not report so.
        let managed = known.unmovable || irq.name.starts_with("nvme") && !irq.name.ends_with("q0");
        let device = known.device_names.first().or(known.device.as_ref()).cloned();
        Some((device.or_else(|| known.names().next().map(str::to_owned)), managed))
    };
    let add = |irq: Interrupt| {
        let (device, managed) = name(&irq).unwrap_or_default();
        Interrupt { device, managed, ..irq }
    };
    Ok(rates.into_iter().map(add).collect())
}

/// Returns the rates of device interrupts between two readings. Timers and performance counters of Arm, which
/// have interrupt numbers as well, are left out.
fn rates(before: &InterruptCounts, after: &InterruptCounts, seconds: f64) -> Vec<Interrupt> {
    let grown = after.since(before);
    let rate = |row: &counts::InterruptRow| {
        let name = row.handlers.to_ascii_lowercase();
        let number = row.irq().filter(|_| !name.contains("timer") && !name.contains("pmu"))?;
        let counts = grown.by_cpu(row).into_iter();
        let per_second = counts.map(|(cpu, count)| (cpu, count as f64 / seconds)).collect();
        Some(Interrupt { number, name: row.handlers.clone(), per_second, ..Interrupt::default() })
    };
    grown.rows.iter().filter_map(rate).filter(|irq| !irq.per_second.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn rates_are_those_of_devices() {
        let reading = |disk: u64| {
            let row = |name: &str, counts: [u64; 2], handlers: &str| counts::InterruptRow {
                name: name.to_owned(),
                counts: counts.to_vec(),
                handlers: handlers.to_owned(),
            };
            InterruptCounts {
                cpus: vec![0, 2],
                rows: vec![
                    row("0", [disk, disk], "arch_timer"),
                    row("24", [1, disk], "virtio4-input.0"),
                    row("25", [3, 0], "usb1"),
                    row("LOC", [disk, 0], "Local timer interrupts"),
                ],
            }
        };
        let expected = Interrupt {
            number: 24,
            name: "virtio4-input.0".to_owned(),
            per_second: BTreeMap::from([(2, 150.0)]),
            ..Interrupt::default()
        };
        assert_eq!(rates(&reading(7), &reading(307), 2.0), [expected]);
    }
}

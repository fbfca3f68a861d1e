//! `manycore audit`: finds problems in how everything on this machine is pinned.

use crate::{
    cli::{Audit as Args, Format},
    failure::{Failure, Outcome},
    output,
};
use manycore_audit::processes::{self, Scope};
use manycore_audit::text;
use manycore_audit::{self, AUDIT_SCHEMA, Audit, Facts, Interrupt, LookedAt, NotSeen};
use manycore_linux::interrupts::{
    affinity,
    counts::{self, Counts},
};
use manycore_topology::Machine;
use manycore_topology::SysTree;
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Examines the machine and prints the findings; exit code 1 if there are any.
///
/// # Errors
/// [`Failure::Check`] if there are findings, [`Failure::Input`] if there is no such process or the machine
/// cannot be read.
pub fn run(args: &Args) -> Outcome {
    let tree = SysTree::open(Path::new("/")).map_err(Failure::input)?;
    let scope = Scope { only: args.pid, without: Some(std::process::id()) };
    let audit = look(&tree, scope, args.interval)?;
    match args.format {
        Format::Text => output::print(&text::render(&audit))?,
        Format::Json => output::print(&output::json(&audit)?)?,
    }
    match audit.findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Check("1 finding".to_owned())),
        several => Err(Failure::Check(format!("{several} findings"))),
    }
}

/// Scans a tree twice, an interval apart, and evaluates the facts.
///
/// # Errors
/// As [`run`], except [`Failure::Check`].
pub fn look(tree: &SysTree, scope: Scope, interval: Duration) -> Outcome<Audit> {
    let machine = manycore_topology::read(tree).map_err(Failure::input)?;
    let Some(survey) = processes::survey(tree, &machine, scope) else {
        let pid = scope.only.unwrap_or_default();
        return Err(Failure::input(format!(
            "there is no process {pid}: --pid takes the id of a running process, as 'ps -e' shows it"
        )));
    };
    let (threads, unseen) = (survey.threads(), survey.unseen);
    let mut processes = survey.processes;
    let mut groups = survey.groups;
    let began = Instant::now();
    groups.look(tree);
    let before = (counts(tree)?, processes::times(tree, &machine.online, &processes));
    thread::sleep(interval.saturating_sub(began.elapsed()));
    let seconds = began.elapsed().as_secs_f64();
    let after = (counts(tree)?, processes::times(tree, &machine.online, &processes));
    let throttling = groups.since(tree);
    processes::settle(&mut processes, &before.1, &after.1, seconds);
    let interrupts = named(tree, &machine, rates(&before.0, &after.0, seconds))?;
    let looked_at = LookedAt { processes: processes.len(), threads, seconds };
    let facts = Facts {
        online: machine.online,
        offline: machine.offline,
        isolated: machine.isolated,
        nodes: machine.nodes,
        processes,
        interrupts,
        throttling,
    };
    let unseen = unseen.into_iter().map(|(what, count)| NotSeen { what, count }).collect();
    Ok(Audit { schema: AUDIT_SCHEMA.to_owned(), findings: manycore_audit::find(&facts), looked_at, unseen })
}

/// Returns the interrupt counters; empty if the kernel does not show them, as in some containers.
fn counts(tree: &SysTree) -> Outcome<Counts> {
    counts::counts(tree).map(Option::unwrap_or_default).map_err(Failure::input)
}

/// Adds the name by which `irq place` finds each interrupt, and whether the kernel manages it.
fn named(tree: &SysTree, machine: &Machine, rates: Vec<Interrupt>) -> Outcome<Vec<Interrupt>> {
    let rows = rates.iter().map(|irq| counts::Row {
        name: irq.number.to_string(),
        counts: Vec::new(),
        what: irq.name.clone(),
    });
    let counts = Counts { cpus: Vec::new(), rows: rows.collect() };
    let known = affinity::read(tree, machine, &counts).map_err(Failure::input)?;
    let name = |irq: &Interrupt| {
        let known = known.iter().find(|known| known.irq == irq.number)?;
        // The queues of NVMe disks are managed by the kernel, even if it does not report so.
        let managed = known.fixed || irq.name.starts_with("nvme") && !irq.name.ends_with("q0");
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
fn rates(before: &Counts, after: &Counts, seconds: f64) -> Vec<Interrupt> {
    let grown = after.since(before);
    let rate = |row: &counts::Row| {
        let name = row.what.to_ascii_lowercase();
        let number = row.irq().filter(|_| !name.contains("timer") && !name.contains("pmu"))?;
        let taken = grown.taken(row).into_iter();
        let per_second = taken.map(|(cpu, count)| (cpu, count as f64 / seconds)).collect();
        Some(Interrupt { number, name: row.what.clone(), per_second, ..Interrupt::default() })
    };
    grown.rows.iter().filter_map(rate).filter(|irq| !irq.per_second.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn rates_are_those_of_devices() {
        let look = |disk: u64| {
            let row = |name: &str, counts: [u64; 2], what: &str| counts::Row {
                name: name.to_owned(),
                counts: counts.to_vec(),
                what: what.to_owned(),
            };
            Counts {
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
        assert_eq!(rates(&look(7), &look(307), 2.0), [expected]);
    }
}

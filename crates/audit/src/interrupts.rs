//! Devices that interrupt CPUs to which busy threads are pinned.

use super::{
    BUSY, Device, Finding, FindingKind, Severity,
    facts::{AuditFacts, Process, Thread},
    words,
};
use manycore_topology::{CpuId, CpuSet};

/// Tolerated rate. A handler and its soft interrupts, with the cache lines that they evict, cost about ten
/// microseconds: at a hundred per second, that is a thousandth of the CPU, and visible in latency
/// percentiles.
const MAX_PER_SECOND: f64 = 100.0;
/// Maximum number of devices that are listed.
const MAX_NAMED: usize = 4;

/// Returns a finding for each CPU.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    let pinned: CpuSet = facts
        .processes
        .iter()
        .flat_map(|process| &process.threads)
        .filter_map(|thread| thread.only_cpu(&facts.online))
        .collect();
    let free = facts.online.difference(&pinned).difference(&facts.isolated);
    pinned.iter().filter_map(|cpu| on_cpu(facts, cpu, &free)).collect()
}

fn on_cpu(facts: &AuditFacts, cpu: CpuId, free: &CpuSet) -> Option<Finding> {
    let mut devices: Vec<Device> = facts
        .interrupts
        .iter()
        .filter_map(|irq| {
            let per_second = *irq.per_second.get(&cpu)?;
            Some(Device { irq: irq.number, name: irq.name.clone(), per_second })
        })
        .collect();
    devices.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    let per_second: f64 = devices.iter().map(|device| device.per_second).sum();
    if per_second <= MAX_PER_SECOND {
        return None;
    }
    let (process, thread, busy_cpus) = worker(facts, cpu)?;
    let reference = process.reference(1);
    devices.truncate(MAX_NAMED);
    let fix = fix(facts, &devices, free, thread.tid);
    let named = devices.iter().map(|device| {
        format!("irq {} ({}) occurred {:.0} times per second", device.irq, device.name, device.per_second)
    });
    Some(Finding {
        severity: Severity::Problem,
        headline: format!(
            "{:.0} interrupts per second hit CPU {cpu}, to which {} is pinned",
            per_second,
            words::process(&reference)
        ),
        evidence: [format!("thread {} ({}) used {busy_cpus:.2} of CPU {cpu}", thread.tid, thread.name)]
            .into_iter()
            .chain(named)
            .collect(),
        fix,
        subject: FindingKind::Interrupts {
            process: reference,
            tid: thread.tid,
            cpu,
            busy_cpus,
            per_second,
            devices,
        },
    })
}

/// Returns the busiest thread that is pinned to the CPU, with its process and its share of the CPU.
fn worker(facts: &AuditFacts, cpu: CpuId) -> Option<(&Process, &Thread, f64)> {
    let pinned = facts.processes.iter().flat_map(|process| process.threads.iter().map(move |t| (process, t)));
    pinned
        .filter(|(_, thread)| thread.only_cpu(&facts.online) == Some(cpu))
        .filter_map(|(process, thread)| {
            Some((process, thread, thread.busy_cpus.filter(|&busy| busy >= BUSY)?))
        })
        .max_by(|a, b| a.2.total_cmp(&b.2))
}

/// Suggests to move the interrupts of the busiest device if the kernel allows that, else the thread.
fn fix(facts: &AuditFacts, devices: &[Device], free: &CpuSet, tid: u32) -> String {
    let known = |device: &&Device| facts.interrupts.iter().find(|irq| irq.number == device.irq);
    let managed = devices.first().as_ref().and_then(known).is_some_and(|irq| irq.managed);
    let name = devices.first().as_ref().and_then(known).and_then(|irq| irq.device.clone());
    match (name, free.first()) {
        (Some(name), Some(_)) if !managed => format!("manycore irq place --device {name} --cpus {free}"),
        (_, Some(cpu)) => {
            let why = if managed {
                "the kernel manages this interrupt itself"
            } else {
                "the interrupt has no device that 'irq place' can select"
            };
            format!("{why}: move the thread with taskset -cp {cpu} {tid}")
        }
        (_, None) => "every CPU has a pinned thread: keep one CPU free for interrupts".to_owned(),
    }
}

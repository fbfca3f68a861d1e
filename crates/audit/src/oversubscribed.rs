//! Oversubscribed CPUs: busy threads of one process on the same CPU, while other CPUs of the process are
//! unused.

use super::{
    Finding, FindingKind, Severity,
    facts::{AuditFacts, Process, Thread},
    words,
};
use manycore_topology::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// A thread with at least this share of a CPU is busy: two threads that share a CPU get half of it each.
const BUSY_SHARE: f64 = 0.25;
/// If the busy threads together use this share of the CPU, it has next to no idle time.
const FULL_SHARE: f64 = 0.9;

/// Returns a finding for each CPU that busy threads of a process share.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    facts.processes.iter().flat_map(|process| of_process(facts, process)).collect()
}

fn of_process(facts: &AuditFacts, process: &Process) -> Vec<Finding> {
    let mut pinned: BTreeMap<CpuId, Vec<&Thread>> = BTreeMap::new();
    for thread in &process.threads {
        if let Some(cpu) = thread.only_cpu(&facts.online) {
            pinned.entry(cpu).or_default().push(thread);
        }
    }
    // A process that pins its threads to different CPUs may use all CPUs of its group. If all its threads
    // have the same CPU, the process was pinned there as a whole.
    let allowed_cpus = process.allowed_cpus(&facts.online);
    let own = if pinned.len() > 1 { process.limits.usable(&facts.online) } else { allowed_cpus };
    let taken: CpuSet = pinned.keys().copied().collect();
    let unused = own.difference(&taken).difference(&facts.isolated);
    if unused.is_empty() {
        return Vec::new();
    }
    pinned.iter().filter_map(|(&cpu, threads)| finding(process, cpu, threads, &unused)).collect()
}

fn finding(process: &Process, cpu: CpuId, threads: &[&Thread], unused: &CpuSet) -> Option<Finding> {
    let busy: Vec<(&Thread, f64)> = threads
        .iter()
        .filter_map(|thread| Some((*thread, thread.busy_cpus.filter(|&busy| busy >= BUSY_SHARE)?)))
        .collect();
    if busy.len() < 2 || busy.iter().map(|(_, busy)| busy).sum::<f64>() < FULL_SHARE {
        return None;
    }
    let reference = process.reference(busy.len());
    let second = busy.last().map(|(thread, _)| thread.tid)?;
    Some(Finding {
        severity: Severity::Problem,
        headline: format!(
            "{} busy threads of {} share CPU {cpu} while its {} are unused",
            busy.len(),
            words::process(&reference),
            words::cpus(unused)
        ),
        evidence: busy
            .iter()
            .map(|(thread, busy)| {
                format!(
                    "thread {} ({}) is pinned to CPU {cpu} and got {busy:.2} of it",
                    thread.tid, thread.name
                )
            })
            .collect(),
        fix: format!("move one of them to an unused CPU: taskset -cp {} {second}", unused.first()?),
        subject: FindingKind::OversubscribedCpu { process: reference, cpu, unused: unused.clone() },
    })
}

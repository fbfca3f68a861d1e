//! Busy threads of one process on the same CPU, while the process leaves others of its CPUs unused.

use super::{
    Finding, Severity, Subject,
    facts::{Facts, Process, Thread},
    words,
};
use manycore_topology::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// A thread that got this share of a CPU works all the time that it gets: two that share a CPU get half each.
const WORKS: f64 = 0.25;
/// Together they leave the CPU next to no time.
const FULL: f64 = 0.9;

/// Findings for each CPU on which busy threads of a process meet.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    facts.processes.iter().flat_map(|process| of_process(facts, process)).collect()
}

fn of_process(facts: &Facts, process: &Process) -> Vec<Finding> {
    let mut pinned: BTreeMap<CpuId, Vec<&Thread>> = BTreeMap::new();
    for thread in &process.threads {
        if let Some(cpu) = thread.only_cpu(&facts.online) {
            pinned.entry(cpu).or_default().push(thread);
        }
    }
    // One that pins its threads to different CPUs places them itself; one whose threads all have one CPU was
    // placed there as a whole.
    let reach = process.reach(&facts.online);
    let own = if pinned.len() > 1 { process.confinement.usable(&facts.online) } else { reach };
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
        .filter_map(|thread| Some((*thread, thread.busy_cpus.filter(|&busy| busy >= WORKS)?)))
        .collect();
    if busy.len() < 2 || busy.iter().map(|(_, busy)| busy).sum::<f64>() < FULL {
        return None;
    }
    let holder = process.holder(busy.len());
    let second = busy.last().map(|(thread, _)| thread.tid)?;
    Some(Finding {
        severity: Severity::Harm,
        headline: format!(
            "{} busy threads of {} share CPU {cpu} while {} of its own are unused",
            busy.len(),
            words::process(&holder),
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
        cure: format!("give one of them a CPU of its own: taskset -cp {} {second}", unused.first()?),
        subject: Subject::CrowdedThreads { process: holder, cpu, unused: unused.clone() },
    })
}

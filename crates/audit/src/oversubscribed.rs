//! Oversubscribed CPUs: busy threads of one program on the same CPU, while other CPUs of the program are unused.

use super::{
    Finding, FindingKind, ProcessRef, Severity,
    facts::{AuditFacts, Process, Thread},
    tenant::programs,
    words,
};
use manycore_topology::{CpuId, CpuSet};
use std::collections::BTreeMap;

/// A thread with at least this share of a CPU is busy: two threads that share a CPU get half of it each.
const BUSY_SHARE: f64 = 0.25;
/// If the busy threads together use this share of the CPU, it has next to no idle time.
const FULL_SHARE: f64 = 0.9;

/// A thread with its process.
type Pinned<'a> = (&'a Process, &'a Thread);

/// Returns a finding for each CPU that busy threads of a program share.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    programs(facts).iter().flat_map(|program| of_program(facts, program)).collect()
}

fn of_program(facts: &AuditFacts, program: &[&Process]) -> Vec<Finding> {
    let Some(first) = program.first() else { return Vec::new() };
    let threads =
        || program.iter().flat_map(|process| process.threads.iter().map(|thread| (*process, thread)));
    let mut pinned: BTreeMap<CpuId, Vec<Pinned>> = BTreeMap::new();
    for (process, thread) in threads() {
        if let Some(cpu) = thread.only_cpu(&facts.online) {
            pinned.entry(cpu).or_default().push((process, thread));
        }
    }
    // A program that pins its threads to different CPUs may use all CPUs of its group. If all its threads
    // have the same CPU, the program was pinned there as a whole.
    let allowed_cpus =
        CpuSet::union_of(threads().map(|(_, thread)| &thread.cpus)).intersection(&facts.online);
    let own = if pinned.len() > 1 { first.limits.usable(&facts.online) } else { allowed_cpus };
    let taken: CpuSet = pinned.keys().copied().collect();
    let unused = own.difference(&taken).difference(&facts.isolated);
    if unused.is_empty() {
        return Vec::new();
    }
    pinned.iter().filter_map(|(&cpu, threads)| finding(first, cpu, threads, &unused)).collect()
}

fn finding(first: &Process, cpu: CpuId, threads: &[Pinned], unused: &CpuSet) -> Option<Finding> {
    let busy: Vec<(&Process, &Thread, f64)> = threads
        .iter()
        .filter_map(|(process, thread)| {
            Some((*process, *thread, thread.busy_cpus.filter(|&busy| busy >= BUSY_SHARE)?))
        })
        .collect();
    if busy.len() < 2 || busy.iter().map(|(.., busy)| busy).sum::<f64>() < FULL_SHARE {
        return None;
    }
    let mut processes: Vec<ProcessRef> = Vec::new();
    for (process, ..) in &busy {
        match processes.iter_mut().find(|known| known.pid == process.pid) {
            Some(known) => known.threads += 1,
            None => processes.push(process.reference(1)),
        }
    }
    let reference = first.reference(busy.len());
    Some(Finding {
        severity: Severity::Problem,
        headline: format!(
            "{} busy threads of {} share CPU {cpu} while its {} unused",
            busy.len(),
            words::process(&reference),
            words::cpus_are(unused)
        ),
        evidence: busy
            .iter()
            .map(|(_, thread, busy)| {
                format!(
                    "thread {} ({}) is pinned to CPU {cpu} and got {busy:.2} of it",
                    thread.tid, thread.name
                )
            })
            .collect(),
        fix: fix(&busy, unused),
        subject: FindingKind::OversubscribedCpu {
            process: reference,
            processes,
            cpu,
            unused: unused.clone(),
        },
    })
}

/// Suggests to move all threads but the first to unused CPUs, each to another one as long as there are enough.
fn fix(busy: &[(&Process, &Thread, f64)], unused: &CpuSet) -> String {
    let unused: Vec<CpuId> = unused.iter().collect();
    let moved = busy.iter().skip(1).zip(unused.iter().cycle());
    let commands: Vec<String> =
        moved.map(|((_, thread, _), cpu)| format!("taskset -cp {cpu} {}", thread.tid)).collect();
    let what = match commands.len() {
        1 => "move one of them to an unused CPU",
        _ => "move all but one of them to unused CPUs",
    };
    format!("{what}: {}", words::commands_of(&commands))
}

//! Pins to CPUs that are offline, or that are isolated from load balancing.

use super::{
    Finding, FindingKind,
    facts::{AuditFacts, Process, ProcessRef, Thread},
    severity, words,
};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Returns a finding for each set of CPUs to which threads are pinned.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    let mut pins: BTreeMap<&CpuSet, Pin> = BTreeMap::new();
    for process in &facts.processes {
        for thread in process.threads.iter().filter(|thread| is_pin(facts, process, thread)) {
            let pin = pins.entry(&thread.cpus).or_default();
            pin.busy |= process.busy_cpus.is_some_and(|busy| busy >= super::BUSY);
            pin.usable = process.limits_of(thread).usable(&facts.online).difference(&facts.isolated);
            match pin.threads.last_mut().filter(|last| last.0 == process.pid) {
                Some(last) => last.1.push(thread.tid),
                None => pin.threads.push((process.pid, vec![thread.tid], false)),
            }
            if let Some(last) = pin.threads.last_mut() {
                last.2 = last.1.len() == process.threads.len();
            }
            match pin.references.last_mut().filter(|last| last.pid == process.pid) {
                Some(last) => last.threads += 1,
                None => pin.references.push(process.reference(1)),
            }
        }
    }
    let offline = pins.iter().filter_map(|(cpus, pin)| offline(facts, cpus, pin));
    let isolated = pins.iter().filter_map(|(cpus, pin)| isolated(facts, cpus, pin));
    offline.chain(isolated).collect()
}

/// All threads with the same pin.
#[derive(Default)]
struct Pin {
    references: Vec<ProcessRef>,
    /// By process: its id, its threads with the pin, and whether these are all its threads.
    threads: Vec<(u32, Vec<u32>, bool)>,
    /// CPUs that their control group allows, without isolated ones.
    usable: CpuSet,
    busy: bool,
}

/// Whether the mask of a thread is a pin. A mask that covers all online CPUs is not: the mask of the first
/// process holds every CPU that could be plugged in, except isolated ones (`isolcpus=`). Neither is a mask
/// that covers the CPUs of its group: offline CPUs in it take effect when they return.
fn is_pin(facts: &AuditFacts, process: &Process, thread: &Thread) -> bool {
    if facts.online.is_subset(&thread.cpus) {
        return false;
    }
    let usable = process.limits_of(thread).usable(&facts.online);
    let isolated = facts.isolated.intersects(&thread.cpus);
    isolated || !usable.difference(&facts.isolated).is_subset(&thread.cpus)
}

fn offline(facts: &AuditFacts, cpus: &CpuSet, pin: &Pin) -> Option<Finding> {
    let offline = cpus.difference(&facts.online);
    if offline.is_empty() {
        return None;
    }
    let left = cpus.intersection(&facts.online);
    let all = words::processes(&pin.references);
    let rest = match left.len() {
        0 => "none of them is online".to_owned(),
        _ => format!(
            "only {} online",
            if left.len() == 1 { format!("CPU {left} is") } else { format!("CPUs {} are", left.brief()) }
        ),
    };
    Some(Finding {
        severity: severity(pin.busy),
        headline: format!("{all}: pinned to {}, of which {} offline", words::cpus(cpus), is_are(&offline)),
        evidence: vec![format!("affinity mask {cpus}; {rest}"), format!("online CPUs: {}", facts.online)],
        fix: fix_offline(facts, &offline, if left.is_empty() { &pin.usable } else { &left }, pin),
        subject: FindingKind::OfflineCpus { processes: pin.references.clone(), cpus: cpus.clone(), offline },
    })
}

/// Returns how to bring the offline CPUs online, if the machine has them, and how to pin the threads to other
/// CPUs.
fn fix_offline(facts: &AuditFacts, offline: &CpuSet, others: &CpuSet, pin: &Pin) -> String {
    let present = offline.intersection(&facts.offline);
    let switch: Vec<String> =
        present.iter().map(|cpu| format!("echo 1 > /sys/devices/system/cpu/cpu{cpu}/online")).collect();
    let on = format!("bring them online: {}", words::commands_of(&switch));
    let anew = format!("change the pinning: {}", words::taskset(others, &pin.threads));
    match (switch.is_empty(), others.is_empty()) {
        (false, false) => format!("{on}; or {anew}"),
        (false, true) => on,
        (true, false) => anew,
        (true, true) => "its control group has no other CPU: add CPUs to its cpuset.cpus".to_owned(),
    }
}

fn isolated(facts: &AuditFacts, cpus: &CpuSet, pin: &Pin) -> Option<Finding> {
    let online = cpus.intersection(&facts.online);
    let isolated = online.intersection(&facts.isolated);
    // A pin to a single isolated CPU is the intended use of isolation.
    if online.len() < 2 || isolated.is_empty() {
        return None;
    }
    let rest = online.difference(&isolated);
    let tids = pin.threads.iter().flat_map(|(_, tids, _)| tids);
    let single: Vec<u32> = online.iter().collect();
    let each: Vec<String> =
        tids.zip(single.iter().cycle()).map(|(tid, cpu)| format!("taskset -cp {cpu} {tid}")).collect();
    let each = format!("pin each thread to one CPU: {}", words::commands_of(&each));
    let fix = if rest.is_empty() {
        each
    } else {
        format!("exclude the isolated CPUs: {}; or {each}", words::taskset(&rest, &pin.threads))
    };
    Some(Finding {
        severity: severity(pin.busy),
        headline: format!(
            "{}: pinned to {}, of which {} isolated from load balancing",
            words::processes(&pin.references),
            words::cpus(&online),
            is_are(&isolated)
        ),
        evidence: vec![
            format!("affinity mask {cpus}; isolated CPUs: {}", facts.isolated),
            "threads stay on the CPU where they first ran, even if other CPUs are idle".to_owned(),
        ],
        fix,
        subject: FindingKind::IsolatedCpus { processes: pin.references.clone(), cpus: online, isolated },
    })
}

/// Returns `3 is`, `2-3 are`.
fn is_are(cpus: &CpuSet) -> String {
    format!("{} {}", cpus.brief(), if cpus.len() == 1 { "is" } else { "are" })
}

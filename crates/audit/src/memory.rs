//! Memory of pinned processes that is remote from all of their CPUs.

use super::{
    BUSY, Finding, FindingKind,
    facts::{AuditFacts, Process},
    severity, words,
};
use manycore_text::units::{bytes, percent};
use manycore_topology::{CpuSet, machine::Node};

/// Tolerated share of remote memory. Pages of libraries and of the parent process are on the node where they
/// were first touched. Remote memory has about twice the local latency, so a quarter of it costs a
/// memory-bound program some tenths of its time. Less is seldom worth moving.
const MAX_FAR_SHARE: f64 = 0.25;
/// Tolerated amount of remote memory in bytes. A process with less fits in caches, or is too small for its
/// placement to matter.
const MIN_FAR_BYTES: u64 = 16 << 20;

/// Returns a finding for each pinned process with too much remote memory.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    let with_memory = facts.nodes.iter().filter(|node| has_memory(node)).count();
    if with_memory < 2 {
        return Vec::new();
    }
    facts.processes.iter().filter_map(|process| of_process(facts, process)).collect()
}

fn of_process(facts: &AuditFacts, process: &Process) -> Option<Finding> {
    let on_nodes = process.memory.as_ref()?;
    let cpus = process.allowed_cpus(&facts.online);
    let near: CpuSet =
        facts.nodes.iter().filter(|node| node.cpus.intersects(&cpus)).map(|node| node.id).collect();
    let all: u64 = on_nodes.values().sum();
    let far_nodes: CpuSet = on_nodes
        .iter()
        .filter(|(node, held)| !near.contains(**node) && **held > 0)
        .map(|(&node, _)| node)
        .collect();
    let far: u64 = far_nodes.iter().filter_map(|node| on_nodes.get(&node)).sum();
    if near.is_empty() || far < MIN_FAR_BYTES || (far as f64) <= MAX_FAR_SHARE * all as f64 {
        return None;
    }
    let reference = process.reference(process.threads.len());
    let room: CpuSet = facts
        .nodes
        .iter()
        .filter(|node| near.contains(node.id) && has_memory(node))
        .map(|node| node.id)
        .collect();
    let fix = if room.is_empty() {
        format!("its node has no memory: pin it to CPUs of node {far_nodes}")
    } else {
        format!(
            "move its memory: migratepages {} {far_nodes} {room}; start it with numactl --membind={room}, or set \
             cpuset.mems of its control group",
            process.pid
        )
    };
    let shares = on_nodes.iter().map(|(node, held)| format!("{} on node {node}", bytes(*held)));
    Some(Finding {
        severity: severity(process.busy_cpus.is_some_and(|busy| busy >= BUSY)),
        headline: format!(
            "{} of the memory of {} is on node {far_nodes}, remote from its {}",
            percent(far as f64 / all as f64),
            words::process(&reference),
            words::cpus(&cpus)
        ),
        evidence: vec![
            format!("its CPUs belong to node {near}"),
            format!("/proc/{}/numa_maps: {}", process.pid, shares.collect::<Vec<_>>().join(", ")),
        ],
        fix,
        subject: FindingKind::FarMemory { process: reference, cpus, near, bytes: on_nodes.clone() },
    })
}

fn has_memory(node: &Node) -> bool {
    node.memory_bytes.is_none_or(|memory| memory > 0)
}

//! Each kind of finding on invented machines, with similar cases that must not be findings.

mod laws;
mod overlap;
mod pins;
mod threads;

use super::{AuditFacts, Finding, FindingKind, GroupLimits, ManycorePin, Process, Severity, Thread, find};
use manycore_topology::CpuSet;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A machine of eight CPUs with these processes.
fn eight(processes: Vec<Process>) -> AuditFacts {
    AuditFacts { online: set("0-7"), processes, ..AuditFacts::default() }
}

/// A process whose threads may run on these CPUs; a child of process 1.
fn process(pid: u32, name: &str, masks: &[&str]) -> Process {
    let thread = |(at, mask): (usize, &&str)| Thread {
        tid: pid + at as u32,
        name: name.to_owned(),
        cpus: set(mask),
        ..Thread::default()
    };
    let threads = masks.iter().enumerate().map(thread).collect();
    Process { pid, parent: 1, name: name.to_owned(), threads, ..Process::default() }
}

/// The same process, each of whose threads uses this share of a CPU.
fn busy(mut process: Process, share: f64) -> Process {
    for thread in &mut process.threads {
        thread.busy_cpus = Some(share);
        thread.cpu_seconds = Some(10.0 * share);
    }
    process.busy_cpus = Some(share * process.threads.len() as f64);
    process.cpu_seconds = 10.0 * share * process.threads.len() as f64;
    process
}

/// The same process in a control group with these CPUs; `tenant` is the outermost group with the same CPUs.
fn within(mut process: Process, group: &str, tenant: &str, cpus: &str) -> Process {
    process.limits = GroupLimits {
        group: group.to_owned(),
        tenant: tenant.to_owned(),
        cpus: Some(set(cpus)),
        cpus_file: format!("/cg{group}/cpuset.cpus.effective"),
        ..process.limits
    };
    process
}

/// Returns the headlines of all findings.
fn headlines(facts: &AuditFacts) -> Vec<String> {
    find(facts).into_iter().map(|finding| finding.headline).collect()
}

fn only(facts: &AuditFacts) -> Finding {
    let mut findings = find(facts);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    findings.remove(0)
}

#[test]
fn the_worst_comes_first() {
    let facts = eight(vec![
        process(10, "a", &["0"]),
        process(20, "b", &["0"]),
        busy(process(30, "c", &["5"]), 0.5),
        busy(process(40, "d", &["5"]), 0.5),
    ]);
    let found = find(&facts);
    let severities: Vec<Severity> = found.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Problem, Severity::Risk]);
    assert!(found[0].headline.contains("CPU 5"));
    let json = serde_json::to_value(&found[0]).unwrap();
    assert_eq!((json["kind"].as_str(), json["cpus"].as_str()), (Some("overlapping_pins"), Some("5")));
    assert_eq!(
        (json["severity"].as_str(), json["claims"][0]["processes"][0]["pid"].as_u64()),
        (Some("problem"), Some(30))
    );
}

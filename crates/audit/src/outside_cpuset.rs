//! Threads that may run on CPUs outside of their control group's cpuset.
//!
//! The kernel keeps affinities within the group's CPUs. There are two exceptions: the group had lost its last
//! CPU when the thread was scheduled, or the kernel moved the thread to the group without a check
//! (`cpuset(7)`).

use super::{Finding, FindingKind, facts::AuditFacts, severity, words};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Returns a finding for each process and group.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for process in &facts.processes {
        let mut outside: BTreeMap<(&CpuSet, &str), (CpuSet, usize, bool)> = BTreeMap::new();
        for thread in &process.threads {
            let own = process.limits_of(thread);
            let Some(cpuset) = own.cpus.as_ref().filter(|cpus| !cpus.is_empty()) else { continue };
            let cpus = thread.cpus.intersection(&facts.online);
            if !cpus.is_subset(cpuset) {
                let entry = outside.entry((cpuset, &own.cpus_file)).or_default();
                // All CPUs allowed: the kernel's fallback, not a pin.
                *entry = (entry.0.union(&cpus), entry.1 + 1, entry.2 || cpus == facts.online);
            }
        }
        for ((cpuset, file), (cpus, threads, everywhere)) in outside {
            let reference = process.reference(threads);
            let fallback = if everywhere { "; the kernel allows all CPUs as a fallback" } else { "" };
            findings.push(Finding {
                severity: severity(process.busy_cpus.is_some_and(|busy| busy >= super::BUSY)),
                headline: format!(
                    "{} may run on {}, outside of its control group's {}",
                    words::process(&reference),
                    words::cpus(&cpus.difference(cpuset)),
                    words::cpus(cpuset)
                ),
                evidence: vec![
                    format!(
                        "{} may run on {}{fallback}",
                        words::count(threads, "thread", "threads"),
                        words::cpus(&cpus)
                    ),
                    format!("{file} holds {cpuset}"),
                ],
                fix: format!("restrict it to its group: taskset -acp {cpuset} {}", process.pid),
                subject: FindingKind::OutsideCpuset {
                    process: reference,
                    cpus,
                    cpuset: cpuset.clone(),
                    file: file.to_owned(),
                },
            });
        }
    }
    findings
}

//! Threads that may run where their control group may not.
//!
//! The kernel keeps affinities within the group's CPUs. Where they are outside, it had no choice: the group had lost
//! its last CPU when the thread was to run, or the thread was moved by a kernel that does not look (`cpuset(7)`).

use super::{Finding, Subject, facts::Facts, severity, words};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// A finding for each process and group.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for process in &facts.processes {
        let mut outside: BTreeMap<(&CpuSet, &str), (CpuSet, usize, bool)> = BTreeMap::new();
        for thread in &process.threads {
            let own = process.confinement_of(thread);
            let Some(cpuset) = own.cpus.as_ref().filter(|cpus| !cpus.is_empty()) else { continue };
            let cpus = thread.cpus.intersection(&facts.online);
            if !cpus.is_subset(cpuset) {
                let entry = outside.entry((cpuset, &own.cpus_file)).or_default();
                // Where every CPU is allowed it is the kernel's last resort and not a pin.
                *entry = (entry.0.union(&cpus), entry.1 + 1, entry.2 || cpus == facts.online);
            }
        }
        for ((cpuset, file), (cpus, threads, everywhere)) in outside {
            let holder = process.holder(threads);
            let fallback = if everywhere { "; the kernel lets it run anywhere" } else { "" };
            findings.push(Finding {
                severity: severity(process.busy_cpus.is_some_and(|busy| busy >= super::BUSY)),
                headline: format!(
                    "{} may run on {}, outside of its group's {}",
                    words::process(&holder),
                    words::cpus(&cpus.difference(cpuset)),
                    words::cpus(cpuset)
                ),
                evidence: vec![
                    format!(
                        "{} may run on {}{fallback}",
                        words::count(threads, "thread", "threads"),
                        words::cpus(&cpus)
                    ),
                    format!("{file} says {cpuset}"),
                ],
                cure: format!("bring it back: taskset -acp {cpuset} {}", process.pid),
                subject: Subject::OutsideCpuset {
                    process: holder,
                    cpus,
                    cpuset: cpuset.clone(),
                    file: file.to_owned(),
                },
            });
        }
    }
    findings
}

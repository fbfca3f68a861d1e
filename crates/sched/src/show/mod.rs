//! The scheduler in force: reads it from the kernel's files, and concludes what it does on this machine.
//!
//! [`show`] reads the facts from the kernel's files; [`conclude`] makes the report from them and is pure; [`document()`]
//! shows it. A file that is missing is an answer: it is listed with the reason.

mod clusters;
mod consequences;
mod domains;
mod facts;
mod kernel_scheduler;
mod missing;
mod report;
mod schedstat;
mod text;
mod topology_levels;

#[cfg(test)]
mod tests;

pub use facts::Facts;
pub use report::{
    Clusters, Consequence, DomainLevel, DomainSource, Domains, EnergyAware, FairAlgorithm, KernelScheduler,
    MissingAnswer, SCHEDULER_SCHEMA, SchedExtState, SchedulerReport,
};
pub use text::document;

use crate::Result;
use manycore_linux::kernel::Release;
use manycore_topology::SysTree;
use std::path::Path;

/// Reads the scheduler from the kernel's files below `root`: `/`, a copy, or a capture.
///
/// # Errors
/// The tree cannot be opened, or one of its CPU lists cannot be parsed.
pub fn show(root: &Path) -> Result<SchedulerReport> {
    Ok(conclude(&facts::read(&SysTree::open(root)?)?))
}

/// Returns what the facts say about the scheduler.
pub fn conclude(facts: &Facts) -> SchedulerReport {
    let release = Release::parse(facts.machine.system.kernel.as_deref());
    let domains = domains::domains(facts, release);
    let kernel_scheduler = kernel_scheduler::from_facts(facts, release);
    let clusters = clusters::clusters(facts, &domains, release);
    let mut report = SchedulerReport {
        schema: SCHEDULER_SCHEMA.to_owned(),
        live: facts.is_live,
        kernel: facts.machine.system.kernel.clone(),
        kernel_scheduler,
        sched_ext: facts.sched_ext.clone(),
        smt: facts.smt.as_deref().map(|text| text.trim() == "1"),
        last_level_caches: topology_levels::last_level(&facts.machine).len(),
        domains,
        clusters,
        consequences: Vec::new(),
        next: None,
        missing: missing::missing(facts),
    };
    report.consequences = consequences::consequences(&report, facts, release);
    report.next = consequences::next(&report);
    report
}

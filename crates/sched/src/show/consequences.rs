//! What follows for the threads of one process. Each sentence names the facts behind it.

use super::{
    facts::Facts,
    report::{Consequence, DomainSource, SchedulerReport},
};
use manycore_linux::kernel::Release;
use manycore_text::names::printable;

/// Returns what follows for the threads of one process.
pub(super) fn consequences(report: &SchedulerReport, facts: &Facts, release: Release) -> Vec<Consequence> {
    let mut all = Vec::new();
    all.extend(loaded_scheduler(report));
    if report.sched_ext.scheduler.is_none() || report.sched_ext.all_tasks == Some(false) {
        all.extend(cache_aware(report, facts, release));
        all.push(clusters(report, release));
        all.extend(asymmetry(report));
    }
    all.extend(outside(report));
    all
}

/// Returns the command that measures whether another placement of threads serves better.
pub(super) fn next(report: &SchedulerReport) -> Option<String> {
    let has_sched_ext = report.sched_ext.state != "absent";
    let command = match (report.clusters.groups.len(), report.last_level_caches) {
        (2.., _) if has_sched_ext => "--variant sched=kernel --variant sched=cluster:spread",
        (_, 2..) => "--variant base= --variant place=close --variant place=spread@llc",
        (2.., _) => "--variant base= --variant place=close --variant place=spread",
        _ => return None,
    };
    Some(format!("manycore compare {command} -- COMMAND"))
}

fn consequence(text: impl Into<String>, evidence: Vec<String>) -> Consequence {
    Consequence { text: text.into(), evidence }
}

fn loaded_scheduler(report: &SchedulerReport) -> Option<Consequence> {
    let name = printable(report.sched_ext.scheduler.as_deref()?);
    let (what, switch) = match report.sched_ext.all_tasks {
        Some(false) => (
            "schedules tasks of the policy SCHED_EXT only; all others belong to the kernel's own scheduler",
            "switch_all is 0",
        ),
        Some(true) => ("chooses the CPUs of all normal tasks", "switch_all is 1"),
        None => ("is loaded", "switch_all cannot be read"),
    };
    let state = "/sys/kernel/sched_ext/state is enabled".to_owned();
    Some(consequence(format!("The sched_ext scheduler {name} {what}."), vec![state, switch.to_owned()]))
}

fn cache_aware(report: &SchedulerReport, facts: &Facts, release: Release) -> Option<Consequence> {
    let caches = report.last_level_caches;
    let count = format!("last-level caches: {caches}");
    let Some(setting) = facts.cache_aware.as_deref().map(str::trim) else {
        let kernel = report.kernel.as_deref()?;
        return (caches > 1 && release.is_since(7, 2) == Some(false)).then(|| {
            let evidence = vec![format!("kernel {kernel} is older than 7.2"), count];
            consequence(format!("The kernel has no cache-aware balancing: {LIKE_UNRELATED}"), evidence)
        });
    };
    let evidence = vec![format!("sched/llc_balancing/enabled is {setting}"), count];
    Some(match report.kernel_scheduler.cache_aware {
        _ if caches < 2 => consequence(
            "Cache-aware balancing has nothing to choose: there is one last-level cache.",
            evidence,
        ),
        Some(true) => consequence(
            "Cache-aware balancing packs the threads of one process into one last-level cache as far as they fit. \
             Threads that share data gain; threads that compete for the cache lose.",
            evidence,
        ),
        _ => consequence(format!("Cache-aware balancing is off: {LIKE_UNRELATED}"), evidence),
    })
}

const LIKE_UNRELATED: &str =
    "threads of one process are distributed over the last-level caches like unrelated tasks.";

fn clusters(report: &SchedulerReport, release: Release) -> Consequence {
    let clusters = &report.clusters;
    let domains = report.domains.levels.iter().find(|level| level.name == "CLS");
    let number =
        domains.filter(|_| clusters.are_domain).map_or(clusters.groups.len(), |level| level.groups.len());
    let reason = clusters.reason.clone();
    let evidence = vec![format!("clusters of several cores: {}", clusters.groups.len()), reason.clone()];
    match number {
        0 => consequence(
            "There are no clusters: below a last-level cache there are only cores to spread over.",
            vec![reason],
        ),
        1 => consequence("There is one cluster in the domains: nothing to spread over.", evidence),
        _ if !clusters.are_domain => consequence(
            format!(
                "The scheduler does not see the {number} clusters: two threads may share one while another is idle."
            ),
            evidence,
        ),
        _ => {
            let is_derived = report.domains.source == DomainSource::Derived;
            let are = if is_derived { "are probably a domain" } else { "are a domain" };
            // Commit 8881e1639f1f (6.7).
            let wakes = match (release.is_since(6, 7), &report.kernel) {
                (Some(true), Some(_)) => {
                    " A thread that wakes up takes an idle CPU of the cluster that it is called to before others."
                }
                _ => "",
            };
            let mut evidence = evidence;
            if let (false, Some(kernel)) = (wakes.is_empty(), &report.kernel) {
                evidence.push(format!("kernel {kernel} is 6.7 or newer"));
            }
            consequence(
                format!(
                    "The {number} clusters {are}: load balancing spreads threads over those of a last-level \
                     cache.{wakes}"
                ),
                evidence,
            )
        }
    }
}

fn asymmetry(report: &SchedulerReport) -> Option<Consequence> {
    let with = |flag: &str| {
        let levels = report.domains.levels.iter().filter(|level| level.flags.iter().any(|it| it == flag));
        let names = levels.map(|level| printable(&level.name)).collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| vec![format!("{flag} in {names}")])
    };
    let packing = with("SD_ASYM_PACKING").map(|evidence| {
        consequence("CPUs have priorities: idle ones of a higher priority take threads first.", evidence)
    });
    packing.or_else(|| {
        let evidence = with("SD_ASYM_CPUCAPACITY")?;
        Some(consequence("CPUs differ in capacity: a thread is placed where its load fits.", evidence))
    })
}

fn outside(report: &SchedulerReport) -> Option<Consequence> {
    let (outside, isolated) = (&report.domains.outside, &report.domains.isolated);
    let evidence = if isolated.is_empty() {
        "they are in no domain".to_owned()
    } else {
        format!("/sys/devices/system/cpu/isolated is {}", isolated.brief())
    };
    (!outside.is_empty()).then(|| {
        let list = outside.brief();
        let text = format!(
            "The kernel balances no threads to or from CPUs that are in no domain ({list}): pin threads there."
        );
        consequence(text, vec![evidence])
    })
}

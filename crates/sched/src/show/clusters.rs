//! Clusters: groups of cores below a last-level cache, and whether they are a scheduling domain.

use super::{
    facts::Facts,
    report::{Clusters, DomainSource, Domains},
    topology_levels::{is_x86, last_level},
};
use manycore_linux::kernel::Release;
use manycore_topology::{CpuSet, Level, Machine};
use std::collections::BTreeSet;

/// Returns the clusters of the machine, and whether the scheduler sees them.
pub(super) fn clusters(facts: &Facts, domains: &Domains, release: Release) -> Clusters {
    let groups = groups(&facts.machine);
    let level = domains.levels.iter().find(|level| level.name == "CLS");
    let is_seen =
        level.is_some_and(|level| level.groups.iter().any(|cpus| groups.iter().any(|it| cpus.is_subset(it))));
    let reason = match (groups.len(), is_seen) {
        (0, _) => "no group of cores below a last-level cache shares an L2 or another unit".to_owned(),
        (_, true) if domains.source == DomainSource::Derived => {
            "the kernel makes a domain of them where it is built with CONFIG_SCHED_CLUSTER".to_owned()
        }
        (_, true) => "the kernel lists them as domains called CLS".to_owned(),
        (_, false) => match has_cluster_level(facts, release) {
            Err(reason) => reason,
            Ok(()) if groups.iter().all(|group| group.difference(&domains.outside).len() < 2) => {
                "their CPUs are in no domain".to_owned()
            }
            Ok(()) => {
                "the kernel lists no domain called CLS: it is built without CONFIG_SCHED_CLUSTER".to_owned()
            }
        },
    };
    Clusters { groups, are_domain: is_seen, reason }
}

/// Returns the groups of several cores below a last-level cache: the clusters of the kernel, or, where it reports none,
/// the CPUs of each L2.
fn groups(machine: &Machine) -> Vec<CpuSet> {
    let reported = proper(machine, machine.units(Level::Cluster).into_iter());
    if reported.is_empty() {
        proper(machine, machine.caches_at(2).map(|cache| &cache.cpus))
    } else {
        reported
    }
}

/// Keeps the groups that are larger than a core and smaller than a last-level cache.
fn proper<'a>(machine: &Machine, groups: impl Iterator<Item = &'a CpuSet>) -> Vec<CpuSet> {
    let cores: BTreeSet<&CpuSet> = machine.cores.iter().map(|core| &core.cpus).collect();
    let caches: BTreeSet<CpuSet> = last_level(machine).into_iter().collect();
    let kept = groups.filter(|cpus| cpus.len() > 1 && !cores.contains(cpus) && !caches.contains(*cpus));
    kept.cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether the kernel builds a level of clusters; otherwise the reason.
pub(super) fn has_cluster_level(facts: &Facts, release: Release) -> Result<(), String> {
    let machine = &facts.machine;
    let kernel = machine.system.kernel.as_deref().unwrap_or("?");
    if machine.clusters.is_empty() {
        return Err("the kernel reports no clusters (topology/cluster_cpus)".to_owned());
    }
    if facts.cluster_switch.as_deref().map(str::trim) == Some("0") {
        return Err("kernel.sched_cluster is 0".to_owned());
    }
    if release.is_since(5, 16) == Some(false) {
        return Err(format!("kernel {kernel} is older than 5.16, the first with a domain of clusters"));
    }
    // Commits cabdc3a8475b (5.16) and 17953249bf02 (6.6).
    if is_x86(machine) && machine.core_kinds.len() > 1 && release.is_since(6, 6) == Some(false) {
        return Err(format!("kernel {kernel} leaves clusters out on hybrid x86 machines, as all before 6.6"));
    }
    Ok(())
}

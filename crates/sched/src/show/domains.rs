//! The scheduling domains: as the kernel lists them, or derived.

use super::{
    facts::{DebugDomain, Facts},
    report::{DomainLevel, DomainSource, Domains},
    schedstat::CpuDomain,
    topology_levels::{levels, without_repetitions},
};
use manycore_linux::kernel::Release;
use manycore_topology::{CpuId, CpuSet};
use std::collections::{BTreeMap, BTreeSet};

/// A level: its name, and which one of that name it is. Machines with several distances between nodes have several
/// levels called `NUMA`.
type LevelKey = (String, usize);

/// Returns the domains from the best source that there is.
pub(super) fn domains(facts: &Facts, release: Release) -> Domains {
    let machine = &facts.machine;
    let has_listed = facts.schedstat.iter().flatten().any(|(_, domains)| !domains.is_empty());
    let (source, levels) = if has_listed {
        (DomainSource::Schedstat, from_schedstat(facts, release))
    } else if facts.debug_domains.values().any(|domains| !domains.is_empty()) {
        (DomainSource::Debugfs, from_debugfs(facts, release))
    } else if facts.schedstat.is_some() {
        // All CPUs are listed, and none has a domain.
        (DomainSource::Schedstat, Vec::new())
    } else {
        (DomainSource::Derived, without_repetitions(levels(facts, release), &machine.isolated))
    };
    let inside = CpuSet::union_of(levels.iter().flat_map(|level| &level.groups));
    Domains {
        source,
        levels,
        isolated: machine.isolated.clone(),
        outside: machine.online.difference(&inside),
    }
}

fn from_schedstat(facts: &Facts, release: Release) -> Vec<DomainLevel> {
    let known = levels(facts, release);
    let mut found = Levels::default();
    for (cpu, domains) in facts.schedstat.iter().flatten() {
        let mut ordinals = Ordinals::default();
        for (index, domain) in domains.iter().enumerate() {
            let debug = facts.debug_domains.get(cpu).and_then(|domains| domains.get(index));
            let name = name_of(domain, debug, &known, index);
            found.add(ordinals.key(name), domain.cpus.clone(), debug.map_or(&[], |debug| &debug.flags));
        }
    }
    found.sorted()
}

/// Returns the name in the file, that of debugfs, or that of the level of the topology with the same CPUs.
fn name_of(domain: &CpuDomain, debug: Option<&DebugDomain>, known: &[DomainLevel], index: usize) -> String {
    let named = domain.name.clone().or_else(|| debug.map(|debug| debug.name.clone()));
    named.unwrap_or_else(|| {
        let same = known.iter().find(|level| level.groups.contains(&domain.cpus));
        same.map_or_else(|| format!("domain{index}"), |level| level.name.clone())
    })
}

/// Takes the names of each CPU's domains from debugfs, and their CPUs from the level of this name.
fn from_debugfs(facts: &Facts, release: Release) -> Vec<DomainLevel> {
    let mut ordinals = Ordinals::default();
    let known: BTreeMap<LevelKey, Vec<CpuSet>> = without_repeated_numa(levels(facts, release))
        .into_iter()
        .map(|level| (ordinals.key(level.name), level.groups))
        .collect();
    let with_domains = facts.debug_domains.iter().filter(|(_, domains)| !domains.is_empty());
    let balanced: CpuSet = with_domains.map(|(cpu, _)| *cpu).collect();
    let mut found = Levels::default();
    for (&cpu, domains) in &facts.debug_domains {
        let mut ordinals = Ordinals::default();
        for domain in domains {
            // `DIE` is the former name of `PKG`.
            let name = if domain.name == "DIE" { "PKG" } else { &domain.name };
            let key = ordinals.key(domain.name.clone());
            let groups = known.get(&(name.to_owned(), key.1)).or_else(|| known.get(&key));
            let group = groups.and_then(|groups| groups.iter().find(|group| group.contains(cpu)));
            let cpus = group.map_or_else(|| CpuSet::single(cpu), |group| group.intersection(&balanced));
            found.add(key, cpus, &domain.flags);
        }
    }
    found.sorted()
}

/// Removes the level of the own node from those called `NUMA`.
fn without_repeated_numa(levels: Vec<DomainLevel>) -> Vec<DomainLevel> {
    let nodes: Vec<Vec<CpuSet>> =
        levels.iter().filter(|level| level.name == "NODE").map(|level| level.groups.clone()).collect();
    levels.into_iter().filter(|level| level.name != "NUMA" || !nodes.contains(&level.groups)).collect()
}

/// Numbers the levels of one name.
#[derive(Default)]
struct Ordinals(BTreeMap<String, usize>);

impl Ordinals {
    fn key(&mut self, name: String) -> LevelKey {
        let next = self.0.entry(name.clone()).or_default();
        *next += 1;
        (name, *next - 1)
    }
}

/// Levels that are being collected from the domains of each CPU.
#[derive(Default)]
struct Levels(BTreeMap<LevelKey, (BTreeSet<CpuSet>, BTreeSet<String>)>);

impl Levels {
    fn add(&mut self, key: LevelKey, cpus: CpuSet, flags: &[String]) {
        let (groups, all_flags) = self.0.entry(key).or_default();
        groups.insert(cpus);
        all_flags.extend(flags.iter().cloned());
    }

    /// Returns the levels, smallest domains first.
    fn sorted(self) -> Vec<DomainLevel> {
        let mut levels: Vec<DomainLevel> = self
            .0
            .into_iter()
            .map(|((name, _), (groups, flags))| DomainLevel {
                name,
                groups: groups.into_iter().collect(),
                flags: flags.into_iter().collect(),
            })
            .collect();
        levels.sort_by_key(|level| level.groups.iter().map(CpuSet::len).max());
        levels
    }
}

/// The domains of each CPU in debugfs, smallest first.
pub(super) type DebugDomains = BTreeMap<CpuId, Vec<DebugDomain>>;

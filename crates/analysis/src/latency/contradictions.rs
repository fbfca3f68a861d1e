//! Finds where the figures contradict the topology that the kernel reports.
//!
//! Each rule requires a difference of three times the noise of a figure and at least [`MIN_RATIO`]. It reports
//! nothing where the noise hides such a difference. Groups are accepted only where they are complete: all
//! pairs inside are near, all pairs between groups are far, and no figure lies in the gap between the two.

use super::{DistanceLatency, PairLatency};
use manycore_stats::median;
use manycore_topology::{
    cpuset::{CpuId, CpuSet},
    distance::TopologyDistance,
    machine::Machine,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Smallest ratio that is reported. Positions on one mesh or ring differ by less than a quarter.
pub(super) const MIN_RATIO: f64 = 1.25;

/// Required difference, in multiples of the noise.
const TIMES_NOISE: f64 = 3.0;

/// Share of the pairs inside groups that may be far because they were disturbed.
const MAX_DISTURBED_SHARE: f64 = 0.02;

/// At most one CPU in this many can be far from all others. More of them are a property of the machine.
const MAX_DISTANT_PART: usize = 4;

/// Minimum number of CPUs among which groups are searched.
const MIN_CPUS: usize = 4;

/// CPUs that are nearer to each other than to the rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuGrouping {
    /// What all of them share according to the kernel.
    pub within: TopologyDistance,
    /// The groups of more than one CPU.
    pub groups: Vec<CpuSet>,
    /// Median of the pairs inside groups, in nanoseconds.
    pub inside_ns: f64,
    /// Median of the pairs between groups, in nanoseconds.
    pub between_ns: f64,
}

/// A CPU that is far from all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistantCpu {
    /// The CPU.
    pub cpu: CpuId,
    /// Median over its pairs of their figure relative to that of all pairs at the same distance.
    pub ratio: f64,
}

/// All contradictions that were found.
#[derive(Default)]
pub(super) struct Contradictions {
    pub unreported_groups: Vec<CpuGrouping>,
    pub distant_cpus: Vec<DistantCpu>,
    pub equal_distances: Vec<(TopologyDistance, TopologyDistance)>,
}

/// Finds contradictions in figures whose noise is known.
pub(super) fn find(
    machine: &Machine,
    pairs: &[PairLatency],
    at: &[DistanceLatency],
    noise: f64,
) -> Contradictions {
    let sure = (TIMES_NOISE * noise.ln_1p()).max(MIN_RATIO.ln());
    let distant_cpus = distant_cpus(pairs, at, sure);
    let kept: Vec<PairLatency> = pairs
        .iter()
        .filter(|pair| !distant_cpus.iter().any(|far| far.cpu == pair.a || far.cpu == pair.b))
        .copied()
        .collect();
    Contradictions {
        unreported_groups: unreported_groups(machine, &kept, sure),
        equal_distances: equal_distances(at, sure),
        distant_cpus,
    }
}

/// Returns the CPUs whose nearest pair, and therefore every pair, is certainly farther than usual at its
/// distance.
fn distant_cpus(pairs: &[PairLatency], at: &[DistanceLatency], sure: f64) -> Vec<DistantCpu> {
    let usual: BTreeMap<TopologyDistance, f64> = at.iter().map(|at| (at.distance, at.median_ns)).collect();
    let mut ratios: BTreeMap<CpuId, Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        if let Some(usual) = usual.get(&pair.distance) {
            for cpu in [pair.a, pair.b] {
                ratios.entry(cpu).or_default().push(pair.latency_ns / usual);
            }
        }
    }
    let far: Vec<DistantCpu> = ratios
        .iter()
        .filter(|(_, ratios)| ratios.len() > 1 && ratios.iter().all(|ratio| ratio.ln() > sure))
        .filter_map(|(&cpu, ratios)| Some(DistantCpu { cpu, ratio: median(ratios)? }))
        .collect();
    if far.len() * MAX_DISTANT_PART <= ratios.len() { far } else { Vec::new() }
}

/// Returns neighbouring distances whose figures do not differ, where the noise would not hide a difference.
fn equal_distances(at: &[DistanceLatency], sure: f64) -> Vec<(TopologyDistance, TopologyDistance)> {
    let same = |near: &DistanceLatency, far: &DistanceLatency| {
        sure <= MIN_RATIO.ln() && (far.median_ns / near.median_ns).ln() < sure
    };
    at.windows(2).filter(|two| same(&two[0], &two[1])).map(|two| (two[0].distance, two[1].distance)).collect()
}

fn unreported_groups(machine: &Machine, pairs: &[PairLatency], sure: f64) -> Vec<CpuGrouping> {
    let cpus: CpuSet = pairs.iter().flat_map(|pair| [pair.a, pair.b]).collect();
    let mut found: Vec<CpuGrouping> = Vec::new();
    for within in
        [TopologyDistance::Cluster, TopologyDistance::Llc, TopologyDistance::Node, TopologyDistance::Remote]
    {
        let scopes = within.groups(machine, &cpus);
        let scopes = scopes.iter().filter(|scope| scope.len() >= MIN_CPUS);
        let groupings: Vec<Split> = scopes.filter_map(|scope| split(scope, within, pairs, sure)).collect();
        let joined =
            |pick: fn(&Split) -> &Vec<f64>| groupings.iter().flat_map(pick).copied().collect::<Vec<f64>>();
        let both = median(&joined(|split| &split.inside)).zip(median(&joined(|split| &split.between)));
        if let Some((inside_ns, between_ns)) = both {
            let groups = groupings.iter().flat_map(|split| split.groups.clone()).collect();
            found.push(CpuGrouping { within, groups, inside_ns, between_ns });
        }
    }
    found
}

/// A set of CPUs split into groups.
struct Split {
    groups: Vec<CpuSet>,
    inside: Vec<f64>,
    between: Vec<f64>,
}

/// Returns the tightest complete groups among the CPUs of `scope`, from the pairs that share nothing closer
/// than `within`.
fn split(scope: &CpuSet, within: TopologyDistance, pairs: &[PairLatency], sure: f64) -> Option<Split> {
    let inside = |pair: &&PairLatency| scope.contains(pair.a) && scope.contains(pair.b);
    let (here, nearer): (Vec<&PairLatency>, Vec<&PairLatency>) = pairs
        .iter()
        .filter(inside)
        .filter(|pair| pair.distance <= within)
        .partition(|pair| pair.distance == within);
    // Where pairs are missing, it is unknown whether groups are complete.
    if here.len() + nearer.len() < manycore_topology::pairs::possible(scope.len()) {
        return None;
    }
    let mut figures: Vec<f64> = here.iter().map(|pair| pair.latency_ns).collect();
    figures.sort_unstable_by(f64::total_cmp);
    let gaps = figures.windows(2).filter(|two| (two[1] / two[0]).ln() > sure).map(|two| two[0]);
    gaps.into_iter().find_map(|most| {
        let near = |pair: &&&PairLatency| pair.latency_ns <= most;
        let links = nearer.iter().chain(here.iter().filter(near)).map(|pair| (pair.a, pair.b));
        complete_split(connected_groups(scope, links), &here, most)
    })
}

/// Returns the groups with their figures, where all pairs inside them are near except for a few disturbed
/// ones.
fn complete_split(groups: Vec<CpuSet>, here: &[&PairLatency], most: f64) -> Option<Split> {
    let group_of: BTreeMap<CpuId, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(index, group)| group.iter().map(move |cpu| (cpu, index)))
        .collect();
    let (inside, between): (Vec<&PairLatency>, Vec<&PairLatency>) =
        here.iter().partition(|pair| group_of.get(&pair.a) == group_of.get(&pair.b));
    let far = inside.iter().filter(|pair| pair.latency_ns > most).count();
    let groups: Vec<CpuSet> = groups.into_iter().filter(|group| group.len() > 1).collect();
    let figures = |pairs: &[&PairLatency]| pairs.iter().map(|pair| pair.latency_ns).collect();
    (groups.len() > 1 && far as f64 <= inside.len() as f64 * MAX_DISTURBED_SHARE).then(|| Split {
        inside: figures(&inside),
        between: figures(&between),
        groups,
    })
}

/// Partitions `cpus` into groups that are connected by `links`, in the order of their first CPUs.
fn connected_groups(cpus: &CpuSet, links: impl Iterator<Item = (CpuId, CpuId)>) -> Vec<CpuSet> {
    let mut head: BTreeMap<CpuId, CpuId> = cpus.iter().map(|cpu| (cpu, cpu)).collect();
    for (a, b) in links {
        let (a, b) = (group_head(&head, a), group_head(&head, b));
        head.insert(a.max(b), a.min(b));
    }
    let mut groups: BTreeMap<CpuId, CpuSet> = BTreeMap::new();
    for cpu in cpus.iter() {
        groups.entry(group_head(&head, cpu)).or_default().insert(cpu);
    }
    groups.into_values().collect()
}

/// Returns the first CPU of the group of `cpu`.
fn group_head(head: &BTreeMap<CpuId, CpuId>, mut cpu: CpuId) -> CpuId {
    while let Some(&above) = head.get(&cpu).filter(|&&above| above != cpu) {
        cpu = above;
    }
    cpu
}

//! Selects the pairs of CPUs to measure where there is no time for all of them.
//!
//! n CPUs have n (n - 1) / 2 pairs: 120 for 16 CPUs, 32,640 for 256. Where that is too many, CPUs are
//! grouped by core, cluster, last-level cache or node: the smallest group that reduces the number enough.
//! The following pairs are measured:
//!
//! - the first CPUs of all groups, each with every other;
//! - in each group, the first CPU with all others;
//! - in the first group, all pairs, or as many evenly spaced ones as there is time for.
//!
//! So every CPU is measured, and so is every kind of distance. Where even these are too many, all pairs are
//! thinned evenly.

use crate::{
    cpuset::{CpuId, CpuSet},
    distance::TopologyDistance,
    machine::Machine,
};
use std::collections::BTreeSet;

/// Two CPUs, the lower number first.
pub type Pair = [CpuId; 2];

/// The pairs to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairSelection {
    /// The pairs, in order.
    pub pairs: Vec<Pair>,
    /// Number of pairs that these CPUs have.
    pub possible: usize,
    /// The rule of their selection, in words. `None` where all pairs were selected.
    pub rule: Option<String>,
}

/// Selects at most `most` pairs of `cpus`; at least one where there are two CPUs.
pub fn select(machine: &Machine, cpus: &CpuSet, most: usize) -> PairSelection {
    let (most, possible) = (most.max(1), possible(cpus.len()));
    if possible <= most {
        return PairSelection { pairs: all(cpus), possible, rule: None };
    }
    let levels =
        [TopologyDistance::Core, TopologyDistance::Cluster, TopologyDistance::Llc, TopologyDistance::Node];
    let selections = levels.map(|level| (level, level.groups(machine, cpus)));
    let selections =
        selections.map(|(level, groups)| (level, pairs_of_groups(&groups), groups.into_iter().next()));
    let fitting = selections.iter().find(|(_, pairs, _)| pairs.len() <= most);
    let Some((level, pairs, first)) = fitting else {
        // No level reduces the number enough: all pairs are thinned.
        let pairs = all(cpus);
        let step = pairs.len().div_ceil(most);
        let rule = Some(format!("one in {step}, evenly spaced"));
        return PairSelection { pairs: pairs.into_iter().step_by(step).collect(), possible, rule };
    };
    let first = first.clone().unwrap_or_default();
    let inner: Vec<Pair> = all(&first).into_iter().filter(|pair| !pairs.contains(pair)).collect();
    let step = if inner.is_empty() { 1 } else { inner.len().div_ceil((most - pairs.len()).max(1)) };
    let left = most - pairs.len();
    let rule = format!(
        "the first CPU of each {} with the first of every other and with the rest of its own, and {} pairs of CPUs {first}",
        name(*level),
        if step == 1 { "all".to_owned() } else { format!("one in {step}") }
    );
    let pairs: BTreeSet<Pair> =
        pairs.iter().copied().chain(inner.into_iter().step_by(step).take(left)).collect();
    PairSelection { pairs: pairs.into_iter().collect(), possible, rule: Some(rule) }
}

/// Returns the number of pairs of this many CPUs.
pub fn possible(cpus: usize) -> usize {
    cpus * cpus.saturating_sub(1) / 2
}

fn name(distance: TopologyDistance) -> &'static str {
    match distance {
        TopologyDistance::Core => "core",
        TopologyDistance::Cluster => "cluster",
        TopologyDistance::Llc => "last-level cache",
        TopologyDistance::Node | TopologyDistance::Remote => "node",
    }
}

fn all(cpus: &CpuSet) -> Vec<Pair> {
    cpus.iter().flat_map(|a| cpus.iter().filter(move |b| *b > a).map(move |b| [a, b])).collect()
}

/// Returns the pairs of the first CPUs of groups with each other, and of each with the rest of its group.
fn pairs_of_groups(groups: &[CpuSet]) -> BTreeSet<Pair> {
    let firsts: CpuSet = groups.iter().filter_map(CpuSet::first).collect();
    let inner = groups.iter().filter_map(|group| Some((group.first()?, group)));
    let stars = inner
        .flat_map(|(first, group)| group.iter().filter(move |cpu| *cpu > first).map(move |cpu| [first, cpu]));
    all(&firsts).into_iter().chain(stars).collect()
}

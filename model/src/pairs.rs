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
    distance::Distance,
    machine::Machine,
};
use std::collections::BTreeSet;

/// Two CPUs, the lower number first.
pub type Pair = [CpuId; 2];

/// The pairs to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The pairs, in order.
    pub pairs: Vec<Pair>,
    /// Number of pairs that these CPUs have.
    pub possible: usize,
    /// The rule of their selection, in words. `None` where all pairs were selected.
    pub rule: Option<String>,
}

/// Selects at most `most` pairs of `cpus`; at least one where there are two CPUs.
pub fn choose(machine: &Machine, cpus: &CpuSet, most: usize) -> Choice {
    let (most, possible) = (most.max(1), possible(cpus.len()));
    if possible <= most {
        return Choice { pairs: all(cpus), possible, rule: None };
    }
    let levels = [Distance::Core, Distance::Cluster, Distance::Llc, Distance::Node];
    let outlines = levels.map(|level| (level, level.groups(machine, cpus)));
    let outlines = outlines.map(|(level, groups)| (level, outline(&groups), groups.into_iter().next()));
    let fitting = outlines.iter().find(|(_, pairs, _)| pairs.len() <= most);
    let Some((level, pairs, first)) = fitting else {
        // No level reduces the number enough: all pairs are thinned.
        let pairs = all(cpus);
        let step = pairs.len().div_ceil(most);
        let rule = Some(format!("one in {step}, evenly spaced"));
        return Choice { pairs: pairs.into_iter().step_by(step).collect(), possible, rule };
    };
    let first = first.clone().unwrap_or_default();
    let inner: Vec<Pair> = all(&first).into_iter().filter(|pair| !pairs.contains(pair)).collect();
    let step = if inner.is_empty() { 1 } else { inner.len().div_ceil((most - pairs.len()).max(1)) };
    let room = most - pairs.len();
    let rule = format!(
        "the first CPU of each {} with the first of every other and with the rest of its own, and {} pairs of CPUs {first}",
        name(*level),
        if step == 1 { "all".to_owned() } else { format!("one in {step}") }
    );
    let pairs: BTreeSet<Pair> =
        pairs.iter().copied().chain(inner.into_iter().step_by(step).take(room)).collect();
    Choice { pairs: pairs.into_iter().collect(), possible, rule: Some(rule) }
}

/// Returns the number of pairs of this many CPUs.
pub fn possible(cpus: usize) -> usize {
    cpus * cpus.saturating_sub(1) / 2
}

fn name(distance: Distance) -> &'static str {
    match distance {
        Distance::Core => "core",
        Distance::Cluster => "cluster",
        Distance::Llc => "last-level cache",
        Distance::Node | Distance::Remote => "node",
    }
}

fn all(cpus: &CpuSet) -> Vec<Pair> {
    cpus.iter().flat_map(|a| cpus.iter().filter(move |b| *b > a).map(move |b| [a, b])).collect()
}

/// Returns the pairs of the first CPUs of groups with each other, and of each with the rest of its group.
fn outline(groups: &[CpuSet]) -> BTreeSet<Pair> {
    let firsts: CpuSet = groups.iter().filter_map(CpuSet::first).collect();
    let inner = groups.iter().filter_map(|group| Some((group.first()?, group)));
    let stars = inner
        .flat_map(|(first, group)| group.iter().filter(move |cpu| *cpu > first).map(move |cpu| [first, cpu]));
    all(&firsts).into_iter().chain(stars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::World;
    use proptest::prelude::*;

    #[test]
    fn all_pairs_are_taken_where_they_fit() {
        let machine = World::server().record().machine;
        let choice = choose(&machine, &machine.usable(), 120);
        assert_eq!((choice.pairs.len(), choice.possible, choice.rule), (120, 120, None));
    }

    #[test]
    fn siblings_are_the_first_to_be_left_out() {
        let machine = World::server().record().machine;
        let choice = choose(&machine, &machine.usable(), 119);
        // Eight cores with each other, and the two CPUs of each.
        assert_eq!((choice.pairs.len(), choice.possible), (28 + 8, 120));
        assert!(choice.rule.unwrap().starts_with("the first CPU of each core with the first of every other"));
        assert!(choice.pairs.contains(&[0, 1]) && choice.pairs.contains(&[0, 14]));
        assert!(!choice.pairs.contains(&[1, 3]));
    }

    #[test]
    fn a_machine_that_tells_nothing_is_thinned_evenly() {
        let cpus = "0-99".parse().unwrap();
        let choice = choose(&Machine::default(), &cpus, 1000);
        assert!(choice.pairs.len() <= 1000 && choice.pairs.len() > 900, "{}", choice.pairs.len());
        assert!(choice.rule.unwrap().ends_with("and one in 6 pairs of CPUs 0-99"));
        let few = choose(&Machine::default(), &cpus, 50);
        assert_eq!((few.pairs.len(), few.rule.unwrap().as_str()), (50, "one in 99, evenly spaced"));
    }

    proptest! {
        #[test]
        fn chosen_pairs_fit_and_are_pairs(cpus in 0u32..200, smt in any::<bool>(), most in 1usize..3000) {
            let machine = World { cpus: cpus.max(2) / 2 * 2, smt, blocks: 0, ..World::server() }.record().machine;
            let usable: CpuSet = (0..cpus).collect();
            let choice = choose(&machine, &usable, most);
            prop_assert!(choice.pairs.len() <= most);
            prop_assert_eq!(choice.possible, possible(cpus as usize));
            prop_assert_eq!(choice.rule.is_none(), choice.pairs.len() == choice.possible);
            prop_assert!(cpus < 2 || !choice.pairs.is_empty());
            prop_assert!(choice.pairs.iter().all(|[a, b]| a < b && usable.contains(*b)));
        }
    }
}

//! The order of variants, as far as it is proven.

use super::VariantComparison;
use crate::deciding::Compared;
use manycore_experiment::record::Experiment;
use manycore_stats::{
    holm_divisors,
    verdict::{Answer, DecisionRule},
};
use std::collections::BTreeSet;

/// The pairs of treatments whose order is proven, the better one first.
///
/// A pair with the reference has the answer of its comparison. The other pairs are tested at the level of all pairs
/// (Holm), and only where one of both is shown to differ from the reference: if they differ, at least one of them does.
pub(super) struct ProvenOrder(BTreeSet<(usize, usize)>);

impl ProvenOrder {
    pub(super) fn new(experiment: &Experiment, reference: usize, others: &[VariantComparison]) -> Self {
        let of_reference = others.iter().filter_map(|other| match other.verdict.answer {
            Answer::BBetter => Some((other.treatment, reference)),
            Answer::ABetter => Some((reference, other.treatment)),
            Answer::Equivalent | Answer::Inconclusive | Answer::TradeOff => None,
        });
        Self(closure(of_reference.chain(ordered_pairs(experiment, others)).collect()))
    }

    /// Returns the reference and the `others` in groups, best first. Each variant of a group is shown to be better than
    /// each one of the later groups.
    pub(super) fn groups(&self, reference: usize, others: &[VariantComparison]) -> Vec<Vec<usize>> {
        let rate = |treatment: usize| {
            let other = others.iter().find(|other| other.treatment == treatment);
            other.map_or(1.0, |other| other.verdict.ratio)
        };
        let mut order: Vec<usize> =
            std::iter::once(reference).chain(others.iter().map(|other| other.treatment)).collect();
        order.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)));
        groups(order, &self.0)
    }

    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        self.0.iter().copied().collect()
    }
}

/// Adds what follows: where A is better than B and B is better than C, A is better than C.
fn closure(mut better: BTreeSet<(usize, usize)>) -> BTreeSet<(usize, usize)> {
    loop {
        let follows: Vec<(usize, usize)> = better
            .iter()
            .flat_map(|&(a, b)| {
                better.iter().filter(move |(other, _)| *other == b).map(move |&(_, c)| (a, c))
            })
            .filter(|pair| pair.0 != pair.1 && !better.contains(pair))
            .collect();
        if follows.is_empty() {
            return better;
        }
        better.extend(follows);
    }
}

/// Returns the pairs of `others`, better one first, whose order is proven.
fn ordered_pairs(experiment: &Experiment, others: &[VariantComparison]) -> Vec<(usize, usize)> {
    let rule = DecisionRule::from_parameters(&experiment.parameters);
    let pairs: Vec<(&VariantComparison, &VariantComparison)> =
        others.iter().enumerate().flat_map(|(at, a)| others[at + 1..].iter().map(move |b| (a, b))).collect();
    let ratios: Vec<Compared> =
        pairs.iter().map(|(a, b)| Compared::primary(experiment, a.treatment, b.treatment)).collect();
    let with_reference = others.iter().map(|other| other.verdict.p);
    let p_values: Vec<f64> = ratios.iter().map(Compared::p).chain(with_reference).collect();
    let divisors = holm_divisors(&p_values, rule.level);
    let order =
        |(((a, b), ratios), divisor): (((&VariantComparison, &VariantComparison), &Compared), usize)| {
            if !a.verdict.is_different() && !b.verdict.is_different() {
                return None;
            }
            match ratios.verdict(rule.divided_by(divisor), None)?.answer {
                Answer::ABetter => Some((a.treatment, b.treatment)),
                Answer::BBetter => Some((b.treatment, a.treatment)),
                Answer::Equivalent | Answer::Inconclusive | Answer::TradeOff => None,
            }
        };
    pairs.iter().copied().zip(&ratios).zip(divisors).filter_map(order).collect()
}

/// Divides `order` into groups wherever all before are better than all behind. Ties keep their order.
fn groups(mut order: Vec<usize>, better: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    // With a proven order of two groups, each variant of the first one wins more often, less its losses.
    let wins = |of: usize| {
        let won = better.iter().filter(|(winner, _)| *winner == of).count() as isize;
        won - better.iter().filter(|(_, loser)| *loser == of).count() as isize
    };
    order.sort_by_key(|&treatment| std::cmp::Reverse(wins(treatment)));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, &treatment) in order.iter().enumerate() {
        let (before, behind) = order.split_at(at);
        let is_proven = before.iter().all(|&a| behind.iter().all(|&b| better.contains(&(a, b))));
        match groups.last_mut() {
            Some(tied) if !is_proven => tied.push(treatment),
            _ => groups.push(vec![treatment]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(order: &[usize], better: &[(usize, usize)]) -> Vec<Vec<usize>> {
        groups(order.to_vec(), &better.iter().copied().collect())
    }

    #[test]
    fn groups_are_divided_where_all_pairs_are_proven() {
        assert_eq!(of(&[0, 1], &[]), [vec![0, 1]]);
        assert_eq!(of(&[0, 1], &[(1, 0)]), [vec![1], vec![0]]);
        assert_eq!(
            of(&[1, 3, 0, 2], &[(1, 0), (3, 0), (1, 2), (3, 2), (0, 2)]),
            [vec![1, 3], vec![0], vec![2]]
        );
    }

    #[test]
    fn an_order_that_is_proven_for_some_pairs_only_is_a_tie() {
        // 0 is better than 2, and neither differs from 1.
        assert_eq!(of(&[0, 1, 2], &[(0, 2)]), [vec![0, 1, 2]]);
        assert_eq!(of(&[0, 1, 2, 3], &[(0, 2), (0, 3), (1, 3), (2, 3)]), [vec![0, 1, 2], vec![3]]);
    }

    /// Regression test: D was better than A and A better than C, and yet D and C had the same place.
    #[test]
    fn what_follows_from_proven_pairs_is_proven() {
        let found = closure([(3, 0), (0, 2), (2, 4)].into());
        assert_eq!(found, [(0, 2), (0, 4), (2, 4), (3, 0), (3, 2), (3, 4)].into());
    }

    #[test]
    fn a_chain_of_proven_pairs_has_a_group_each() {
        let all: Vec<(usize, usize)> = (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b))).collect();
        assert_eq!(of(&[3, 1, 2, 0], &all), [[0], [1], [2], [3]].map(Vec::from));
    }
}

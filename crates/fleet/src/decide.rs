//! Which nodes are slow, and in which figures: all pairs of node and figure of a fleet, decided together.
//!
//! A node has one p-value: that of Simes (1986) over its figures, of which sections as a whole have half of the weight
//! (Genovese, Roeder and Wasserman 2006), however many single figures there are. Benjamini and Hochberg's procedure over the nodes bounds
//! the expected share of wrong ones among the nodes called slow. Within those, it is applied to the figures at the level
//! that a node had to reach, which bounds the share of wrong ones among the pairs (Benjamini and Bogomolov 2014). One
//! procedure over all pairs would bound only the latter: a slow node has several slow figures, and each wrong pair is
//! another node. Both hold where figures depend positively on each other, as those of one node do.
//!
//! Pairs whose deficit does not matter are tests that are not rejected. Slow and fast are two families.
//!
//! The p-values assume that healthy nodes scatter like normal values. Where their tails are heavier, as many are far on the
//! fast side as on the slow side. So a level is lowered while the fast nodes that reach it are more than the share that is
//! allowed of the slow ones (as decoys are used in proteomics, Elias and Gygi 2007). This only makes it stricter, and
//! counts from [`GUARDED`] fast nodes on: one node with better hardware is no sign of heavy tails. Scatter that is skewed
//! towards slow is not recognised.

use crate::evaluation::Verdict;
use crate::judge::{FigureModel, Standing};
use manycore_stats::benjamini_hochberg;

/// Number of fast nodes from which tails are checked.
const GUARDED: usize = 3;

/// p-value below which a figure is doubtful, where the scatter within the node is the larger part of what it was compared
/// with: another measurement may tell.
const DOUBTFUL: f64 = 0.001;

/// How much wider than that of a typical node the deviation of a node must be, so that its own error is why it is not
/// decided.
const NOISY: f64 = 1.25;

/// One figure of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub model: &'a FigureModel,
    pub standing: &'a Standing,
}

/// The levels at which the figures of one node are tested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    slow: f64,
    fast: f64,
    least_deficit: f64,
}

impl Pair<'_> {
    fn deficit(&self) -> f64 {
        self.model.deficit(self.standing.slowness)
    }

    /// Returns the weighted p-value if the deficit, or the advantage, matters and is outside the node's own interval; else 1.
    fn p(&self, is_slow: bool, least: f64) -> f64 {
        let (low, high) = self.standing.interval;
        let counts = if is_slow {
            low > 0.0 && self.deficit() >= least
        } else {
            high < 0.0 && self.deficit() <= -least
        };
        if counts { (self.standing.p / self.model.weight).min(1.0) } else { 1.0 }
    }
}

impl Limits {
    /// Decides all pairs of a fleet that can be judged; each item has those of one node.
    pub fn of(nodes: &[Vec<Pair>], level: f64, least_deficit: f64) -> Self {
        let [slow, fast] = [true, false].map(|is_slow| -> Vec<f64> {
            nodes.iter().map(|pairs| simes(&p_values(pairs, is_slow, least_deficit))).collect()
        });
        // Where no node is found, one would have to be as improbable as this.
        let first = level / nodes.len().max(1) as f64;
        let reached = |p: &[f64]| {
            let limit = benjamini_hochberg(p, level).unwrap_or(0.0);
            first * p.iter().filter(|p| **p <= limit).count().max(1) as f64
        };
        Self {
            slow: guarded(reached(&slow), &slow, &fast, level).min(level),
            fast: reached(&fast),
            least_deficit,
        }
    }

    /// Returns the slowness from which a figure of a node with the typical error of a kind is called slow where its other
    /// figures, `figures` in all, are typical.
    pub fn needed(&self, model: &FigureModel, figures: usize) -> Option<f64> {
        let needed = model.needed(self.slow / figures.max(1) as f64)?;
        Some(needed.max(model.slowness(self.least_deficit)))
    }

    /// Returns the verdicts about the figures of one node that can be judged. `needed` has what [`Self::needed`] returned for
    /// each.
    pub fn verdicts(&self, pairs: &[Pair], needed: &[f64]) -> Vec<Verdict> {
        let limit = |is_slow: bool, level: f64| {
            benjamini_hochberg(&p_values(pairs, is_slow, self.least_deficit), level).unwrap_or(0.0)
        };
        let (slow, fast) = (limit(true, self.slow), limit(false, self.fast));
        let verdict = |(pair, &needed): (&Pair, &f64)| {
            if pair.p(true, self.least_deficit) <= slow {
                Verdict::Slow
            } else if pair.p(false, self.least_deficit) <= fast {
                Verdict::Fast
            } else if self.is_inconclusive(*pair, needed) {
                Verdict::Inconclusive
            } else {
                Verdict::Typical
            }
        };
        pairs.iter().zip(needed).map(verdict).collect()
    }

    /// Returns whether a figure that is not slow may be: because the node's own error is larger than that of others, or is the
    /// larger part of a scatter that the figure almost exceeds.
    fn is_inconclusive(&self, pair: Pair, needed: f64) -> bool {
        let (standing, spread) = (pair.standing, &pair.model.spread);
        let [own, typical] = [standing.error, pair.model.error].map(|error| spread.deviation(error));
        let is_noisy = own > NOISY * typical && standing.interval.1 >= needed;
        let is_mostly_own = spread.shrink * standing.error > spread.tau;
        is_noisy || is_mostly_own && pair.p(true, self.least_deficit) <= DOUBTFUL
    }
}

fn p_values(pairs: &[Pair], is_slow: bool, least_deficit: f64) -> Vec<f64> {
    pairs.iter().map(|pair| pair.p(is_slow, least_deficit)).collect()
}

/// Returns the p-value that all hypotheses are true: the smallest level at which Benjamini and Hochberg's procedure rejects
/// one. 1 without any.
fn simes(p_values: &[f64]) -> f64 {
    let mut sorted = p_values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let count = sorted.len() as f64;
    sorted.iter().zip(1..).map(|(p, rank)| p * count / f64::from(rank)).fold(1.0, f64::min)
}

/// Returns the largest level up to `limit` that not too many fast nodes reach.
fn guarded(limit: f64, slow: &[f64], fast: &[f64], level: f64) -> f64 {
    let reached = |p: &[f64]| {
        let mut reached: Vec<f64> = p.iter().copied().filter(|p| *p <= limit).collect();
        reached.sort_unstable_by(f64::total_cmp);
        reached
    };
    let (slow, fast) = (reached(slow), reached(fast));
    if fast.len() < GUARDED || fast.len() as f64 <= level * slow.len() as f64 {
        return limit;
    }
    let is_allowed = |&count: &usize| {
        let beyond = fast.partition_point(|p| *p <= slow[count - 1]);
        beyond as f64 <= level * count as f64
    };
    match (1..=slow.len()).rev().find(is_allowed) {
        Some(count) => slow[count - 1],
        None => fast[0] / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fast_node_is_no_sign_of_heavy_tails() {
        assert_eq!(guarded(0.01, &[0.002, 0.009, 0.5], &[0.001, 1.0, 0.3], 0.05), 0.01);
    }

    #[test]
    fn as_many_fast_as_slow_nodes_make_the_level_stricter() {
        let slow: Vec<f64> = (0..30).map(|node| 1e-4 * (1.0 + f64::from(node))).collect();
        let limit = guarded(0.05, &slow, &[2.05e-3, 2.5e-3, 2.6e-3, 2.7e-3], 0.05);
        // At 0.0024, one fast node is less than a twentieth of 24 slow ones; at 0.0025 there are two.
        assert!((limit - 2.4e-3).abs() < 1e-12, "{limit}");
        assert!(guarded(0.05, &slow, &[1e-6; 4], 0.05) < 1e-6);
    }

    #[test]
    fn the_p_value_of_a_node_is_that_of_simes() {
        assert_eq!(simes(&[0.04, 0.01, 0.9]), 0.03);
        assert_eq!(simes(&[0.02, 0.02, 0.02]), 0.02);
        assert_eq!((simes(&[]), simes(&[1.0, 1.0])), (1.0, 1.0));
    }
}

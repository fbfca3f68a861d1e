//! Exact, distribution-free inference on two independent samples: one procedure for estimate, interval and test.
//!
//! The estimate is that of Hodges and Lehmann: the median of all differences between a value of the second sample and
//! one of the first. The ends of its interval are the differences whose ranks are the critical values of the rank-sum
//! test of Wilcoxon, Mann and Whitney. So the interval at a level excludes 0 exactly where the test rejects at that
//! level (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 4.1 to 4.3).
//!
//! The values of a sample must be independent. Consecutive measurements seldom are: use medians of longer stretches.

use super::{Estimate, critical::critical_value, upper_tail};

/// Maximum size of a sample for which the null distribution is enumerated. Its sums are exact up to there.
const EXACT_LIMIT: usize = 50;

/// Values beyond this size keep only their rank.
const MAX_VALUE: f64 = 1e6;

impl Estimate {
    /// Returns how much larger the values of `second` are than those of `first` (Hodges and Lehmann), with the
    /// interval of that shift at the two-sided `level`, for example 0.05 for 95 %. `n` is the size of the smaller
    /// sample.
    ///
    /// The interval is `None` where there are too few values for the level: below four in each at 0.05. Returns `None`
    /// for an empty sample. Takes time and memory in proportion to the product of the sizes.
    pub fn from_independent(first: &[f64], second: &[f64], level: f64) -> Option<Self> {
        let differences = differences(first, second);
        let last = differences.len().checked_sub(1)?;
        let median = f64::midpoint(differences[last / 2], differences[last.div_ceil(2)]);
        let (m, n) = (count(first), count(second));
        let interval =
            RankSum::new(m, n).critical(level).map(|rank| (differences[rank], differences[last - rank]));
        Some(Self { median, interval, n: m.min(n) })
    }
}

/// Returns the two-sided p-value of the rank-sum test that both samples have the same distribution: the smallest level
/// at which the interval of [`Estimate::from_independent`] excludes 0.
///
/// Exact up to 50 values in each sample, the normal approximation beyond. Ties count against a rejection. 1 where a
/// sample is empty.
pub fn rank_sum_p(first: &[f64], second: &[f64]) -> f64 {
    let differences = differences(first, second);
    if differences.is_empty() {
        return 1.0;
    }
    let at_most = differences.iter().filter(|difference| **difference <= 0.0).count();
    let at_least = differences.iter().filter(|difference| **difference >= 0.0).count();
    (2.0 * RankSum::new(count(first), count(second)).lower_tail(at_most.min(at_least))).min(1.0)
}

fn count(sample: &[f64]) -> usize {
    sample.iter().filter(|value| !value.is_nan()).count()
}

/// All differences between a value of `second` and one of `first`, in ascending order.
fn differences(first: &[f64], second: &[f64]) -> Vec<f64> {
    let kept = |sample: &[f64]| -> Vec<f64> {
        let known = sample.iter().filter(|value| !value.is_nan());
        known.map(|value| value.clamp(-MAX_VALUE, MAX_VALUE)).collect()
    };
    let (first, second) = (kept(first), kept(second));
    let mut all: Vec<f64> = second.iter().flat_map(|b| first.iter().map(move |a| b - a)).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

/// The null distribution of the number of differences below 0, of samples of the sizes `m` and `n`.
struct RankSum {
    m: usize,
    n: usize,
    /// P(number <= index) for the lower half. Empty where it is approximated.
    exact: Vec<f64>,
}

impl RankSum {
    fn new(m: usize, n: usize) -> Self {
        // Exchanging the samples must not change the rounding.
        let (m, n) = (m.min(n), m.max(n));
        if n > EXACT_LIMIT {
            return Self { m, n, exact: Vec::new() };
        }
        // The number of orders of both samples with each number of inversions: the Gaussian binomial coefficient, a
        // product of (1 - q^(n + i)) / (1 - q^i). A coefficient depends on lower ones alone, so the tail is exact.
        let mut orders = vec![0.0_f64; m * n / 2 + 1];
        orders[0] = 1.0;
        for i in 1..=m {
            for index in (n + i..orders.len()).rev() {
                orders[index] -= orders[index - n - i];
            }
            for index in i..orders.len() {
                orders[index] += orders[index - i];
            }
        }
        let all: f64 = (1..=m).map(|i| (n + i) as f64 / i as f64).product();
        let mut below = 0.0;
        for count in &mut orders {
            below += *count / all;
            *count = below;
        }
        Self { m, n, exact: orders }
    }

    /// Returns P(number <= `limit`) for limits in the lower half; at least one half above it.
    fn lower_tail(&self, limit: usize) -> f64 {
        if let Some(last) = self.exact.last() {
            return *self.exact.get(limit).unwrap_or(last);
        }
        let (m, n) = (self.m as f64, self.n as f64);
        let (mean, variance) = (m * n / 2.0, m * n * (m + n + 1.0) / 12.0);
        upper_tail(((mean - limit as f64 - 0.5) / variance.sqrt()).max(0.0))
    }

    /// Returns the number of differences beyond each end of the interval at the two-sided `level`. `None` where there
    /// is no such interval.
    fn critical(&self, level: f64) -> Option<usize> {
        critical_value(self.m * self.n / 2, level, |limit| self.lower_tail(limit))
    }
}

#[cfg(test)]
mod tests;

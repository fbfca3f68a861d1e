//! Exact, distribution-free inference on paired differences: one procedure for estimate, interval and test.
//!
//! The estimate is that of Hodges and Lehmann (1963): the median of all Walsh averages, which are the means
//! of every two differences and of each difference with itself. The ends of its interval are the Walsh
//! averages whose ranks are the critical values of Wilcoxon's signed-rank test. So the interval at a level
//! excludes 0 exactly where the test rejects at that level (Hollander, Wolfe and Chicken, "Nonparametric
//! Statistical Methods", 3.1 to 3.3).
//!
//! The order of the two variants is random within each pair. Where the treatment has no effect, the sign of
//! each difference is therefore a fair coin, whatever the distribution of the noise and its correlation in
//! time.

use super::{Estimate, critical::critical_value, upper_tail};

/// Maximum number of differences for which the null distribution is enumerated.
const EXACT_LIMIT: usize = 100;

/// Differences beyond this size keep only their rank. A ratio of 0 or infinity is such a difference.
const MAX_DIFFERENCE: f64 = 1e6;

impl Estimate {
    /// Returns the pseudo-median of paired differences (Hodges and Lehmann) with its interval at the
    /// two-sided `level`, for example 0.05 for 95 %.
    ///
    /// The interval is `None` where there are too few differences for the level: below six at 0.05.
    /// Infinite differences count as larger than all others. Returns `None` where there are no differences.
    pub fn from_differences(differences: &[f64], level: f64) -> Option<Self> {
        let sorted = sorted(differences);
        let n = sorted.len();
        let averages = n * (n + 1) / 2;
        let middle = averages.checked_sub(1)? / 2;
        let median = match averages % 2 {
            0 => f64::midpoint(walsh_average(&sorted, middle), walsh_average(&sorted, middle + 1)),
            _ => walsh_average(&sorted, middle),
        };
        let interval = SignedRank::new(n)
            .critical(level)
            .map(|rank| (walsh_average(&sorted, rank), walsh_average(&sorted, averages - 1 - rank)));
        Some(Self { median, interval, n })
    }
}

/// Returns the two-sided p-value of Wilcoxon's signed-rank test that `differences` are symmetric about 0:
/// the smallest level at which the interval of [`Estimate::from_differences`] excludes 0.
///
/// Exact up to 100 differences, the normal approximation beyond. Ties and zeros count against a rejection.
/// 1 for no differences.
pub fn signed_rank_p(differences: &[f64]) -> f64 {
    let sorted = sorted(differences);
    let n = sorted.len();
    if n == 0 {
        return 1.0;
    }
    let mirrored: Vec<f64> = sorted.iter().rev().map(|difference| -difference).collect();
    // Averages of 0 count against both sides.
    let against = walsh_at_most(&sorted, 0.0).min(walsh_at_most(&mirrored, 0.0));
    (2.0 * SignedRank::new(n).lower_tail(against)).min(1.0)
}

/// Returns the level that the interval of `n` differences actually has where `level` was requested: the
/// next attainable one below it. `None` where there is none.
pub fn attained_level(n: usize, level: f64) -> Option<f64> {
    let distribution = SignedRank::new(n);
    Some(2.0 * distribution.lower_tail(distribution.critical(level)?))
}

fn sorted(differences: &[f64]) -> Vec<f64> {
    let kept = differences.iter().filter(|difference| !difference.is_nan());
    let mut sorted: Vec<f64> =
        kept.map(|difference| difference.clamp(-MAX_DIFFERENCE, MAX_DIFFERENCE)).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns how many Walsh averages of `sorted` are `limit` or less, in linear time.
fn walsh_at_most(sorted: &[f64], limit: f64) -> usize {
    let mut partners = sorted.len();
    let mut count = 0;
    for (index, low) in sorted.iter().enumerate() {
        while partners > 0 && f64::midpoint(*low, sorted[partners - 1]) > limit {
            partners -= 1;
        }
        if partners <= index {
            break;
        }
        count += partners - index;
    }
    count
}

/// Returns the Walsh average of `rank`, where 0 is the smallest, to a precision of 1e-15. Its sign is
/// exact.
fn walsh_average(sorted: &[f64], rank: usize) -> f64 {
    const PRECISION: f64 = 1e-15;
    let (mut low, mut high) = (sorted[0], sorted[sorted.len() - 1]);
    if walsh_at_most(sorted, low) > rank {
        return low;
    }
    // Too few averages are at or below `low`, enough are at or below `high`.
    let mut middle = if low < 0.0 && high > 0.0 { 0.0 } else { f64::midpoint(low, high) };
    while high - low > PRECISION && low < middle && middle < high {
        if walsh_at_most(sorted, middle) > rank {
            high = middle;
        } else {
            low = middle;
        }
        middle = f64::midpoint(low, high);
    }
    high
}

/// The null distribution of the signed-rank statistic of `n` differences.
struct SignedRank {
    n: usize,
    /// P(statistic <= index) for the lower half. Empty where it is approximated.
    exact: Vec<f64>,
}

impl SignedRank {
    fn new(n: usize) -> Self {
        if n > EXACT_LIMIT {
            return Self { n, exact: Vec::new() };
        }
        // P(sum of the ranks whose fair coin shows heads = index), by convolution, then cumulated.
        let mut exact = vec![0.0_f64; n * (n + 1) / 4 + 1];
        exact[0] = 1.0;
        for rank in 1..=n {
            for sum in (0..exact.len()).rev() {
                let with = if sum >= rank { exact[sum - rank] } else { 0.0 };
                exact[sum] = f64::midpoint(exact[sum], with);
            }
        }
        let mut below = 0.0;
        for probability in &mut exact {
            below += *probability;
            *probability = below;
        }
        Self { n, exact }
    }

    /// Returns P(statistic <= `limit`) for limits in the lower half; at least one half above it.
    fn lower_tail(&self, limit: usize) -> f64 {
        if let Some(last) = self.exact.last() {
            return *self.exact.get(limit).unwrap_or(last);
        }
        let n = self.n as f64;
        let (mean, variance) = (n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0);
        upper_tail(((mean - limit as f64 - 0.5) / variance.sqrt()).max(0.0))
    }

    /// Returns the number of Walsh averages beyond each end of the interval at the two-sided `level`.
    /// `None` where there is no such interval.
    fn critical(&self, level: f64) -> Option<usize> {
        critical_value(self.n * (self.n + 1) / 4, level, |limit| self.lower_tail(limit))
    }
}

#[cfg(test)]
mod tests;

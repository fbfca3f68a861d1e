//! Quantiles, and the ratio of two of them: order statistics and MOVER.
//!
//! A quantile of one sample has an exact interval between two of its values, whose ranks come from the binomial
//! distribution (Conover, "Practical Nonparametric Statistics", 3.2). It makes no assumption about the distribution, and it
//! does not always exist: the largest of n values is above the quantile q only with probability 1 - q^n.
//!
//! Two intervals, one of each side and both on the logarithmic scale, give one of the difference by the method of variance
//! estimates recovery (MOVER; Zou and Donner, "Construction of confidence limits about effect measures", Statistics in
//! Medicine 2008): the distance of its lower end is the root of the squared distances of the two ends that face each
//! other. The sides count as independent. What disturbs both of them makes the interval wider than it needs to be, and
//! never too narrow.

use crate::{Estimate, bisect_p};

/// A logarithm of 0 or of infinity ranks beyond those of all numbers.
const MAX_LOG: f64 = 745.0;

/// Returns the interval of the `q`-quantile (0 to 1, both excluded) at the two-sided `level`. An end is `None` where
/// there are too few values for it: see [`least_samples`].
pub fn quantile_interval(values: &[f64], q: f64, level: f64) -> (Option<f64>, Option<f64>) {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = ranks(sorted.len(), q, level);
    (low.map(|rank| sorted[rank]), high.map(|rank| sorted[rank]))
}

/// Returns the smallest number of samples for which the interval of the `q`-quantile has both ends at the two-sided
/// `level`: 36 for q = 0.9, 72 for 0.95 and 368 for 0.99 at 0.05.
pub fn least_samples(q: f64, level: f64) -> usize {
    let further = q.max(1.0 - q);
    ((level / 2.0).ln() / further.ln()).ceil() as usize
}

/// Returns the indices of the two order statistics: the probability that the quantile lies below the first one, and
/// that it lies above the second one, are at most half of `level` each.
fn ranks(n: usize, q: f64, level: f64) -> (Option<usize>, Option<usize>) {
    (depth(n, q, level).map(|depth| depth - 1), depth(n, 1.0 - q, level).map(|depth| n - depth))
}

/// Returns the largest number of values of which that many, in the direction of the lower tail, may lie beyond the end:
/// P(binomial(n, q) < depth) is at most half of `level`. `None` where there is none.
fn depth(n: usize, q: f64, level: f64) -> Option<usize> {
    let odds = q.ln() - (1.0 - q).ln();
    let mut log_mass = n as f64 * (1.0 - q).ln();
    let mut below = 0.0;
    let mut depth = 0;
    while depth < n {
        below += log_mass.exp();
        if below > level / 2.0 {
            break;
        }
        log_mass += odds + ((n - depth) as f64 / (depth + 1) as f64).ln();
        depth += 1;
    }
    (depth > 0).then_some(depth)
}

/// The logarithms of one side, in ascending order.
struct Side(Vec<f64>);

impl Side {
    /// `None` where there is no value, or a negative one.
    fn new(values: impl Iterator<Item = f64>) -> Option<Self> {
        let logs: Option<Vec<f64>> =
            values.map(|value| (value >= 0.0).then(|| value.ln().clamp(-MAX_LOG, MAX_LOG))).collect();
        let mut logs = logs.filter(|logs| !logs.is_empty())?;
        logs.sort_unstable_by(f64::total_cmp);
        Some(Self(logs))
    }

    /// Returns the quantile by linear interpolation on the logarithmic scale, so that the quantile of reciprocals is
    /// the reciprocal of the mirrored quantile.
    fn quantile(&self, q: f64) -> f64 {
        let position = q * (self.0.len() - 1) as f64;
        let (low, high) = (self.0[position.floor() as usize], self.0[position.ceil() as usize]);
        low + (high - low) * position.fract()
    }

    /// Returns how far the ends of the interval lie below and above the quantile.
    fn distances(&self, q: f64, level: f64) -> Option<(f64, f64)> {
        let (low, high) = ranks(self.0.len(), q, level);
        let middle = self.quantile(q);
        Some(((middle - self.0[low?]).max(0.0), (self.0[high?] - middle).max(0.0)))
    }
}

/// Returns the logarithm of the `q`-quantile of the second values over that of the first ones, with its interval at the
/// two-sided `level`. `n` is the size of the smaller sample. `None` where a sample is empty or has a negative value; the
/// interval is `None` below [`least_samples`].
pub fn log_quantile_ratio(
    first: impl Iterator<Item = f64>,
    second: impl Iterator<Item = f64>,
    q: f64,
    level: f64,
) -> Option<Estimate> {
    let (first, second) = (Side::new(first)?, Side::new(second)?);
    Some(between(&first, &second, q, level))
}

fn between(first: &Side, second: &Side, q: f64, level: f64) -> Estimate {
    let median = second.quantile(q) - first.quantile(q);
    let interval = first
        .distances(q, level)
        .zip(second.distances(q, level))
        .map(|(first, second)| (median - second.0.hypot(first.1), median + second.1.hypot(first.0)));
    Estimate { median, interval, n: first.0.len().min(second.0.len()) }
}

/// Returns the smallest level at which the interval of [`log_quantile_ratio`] excludes 0; 1 where there is none.
pub(crate) fn quantile_ratio_p(pairs: &[(f64, f64)], q: f64) -> f64 {
    let sides = Side::new(pairs.iter().map(|pair| pair.0)).zip(Side::new(pairs.iter().map(|pair| pair.1)));
    sides.map_or(1.0, |(first, second)| bisect_p(|level| between(&first, &second, q, level).interval))
}

#[cfg(test)]
mod tests;

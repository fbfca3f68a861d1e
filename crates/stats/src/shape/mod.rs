//! The shape of one sample in time order: outliers, more than one mode, drift, a slow start.
//!
//! Times and rates are positive and skewed, so all rules work on logarithms. Each flag has a false rate of at most 5 % for
//! independent values of one unimodal distribution; the tests simulate this for normal and skewed noise. A flag says what
//! a sample looks like. It decides nothing.

mod dip;

pub use dip::dip;

use crate::{rank_correlation, student, upper_tail};

/// Minimum number of values for any flag: below it, no rule has enough of them.
pub const MIN_VALUES: usize = 10;

/// Probability that a sample without outliers has at least one.
const OUTLIER_LEVEL: f64 = 0.05;

/// Two-sided level of the test for drift.
const DRIFT_LEVEL: f64 = 0.01;

/// Efficiency of the median absolute deviation relative to the standard deviation, for normal values (Huber 1981).
const MAD_EFFICIENCY: f64 = 0.37;

/// The ratio of the standard deviation of normal values to their median absolute deviation.
const MAD_SCALE: f64 = 1.4826;

/// Critical value of the dip times the root of the number of values. Uniform values exceed it in under 5 %, of all
/// unimodal distributions the most often.
const DIP_CRITICAL: f64 = 0.5;

/// Which values lie far from the others: the identifier of Hampel, whose limit is that of the largest of as many normal
/// values (Davies and Gather, "The identification of multiple outliers", JASA 1993). Its centre and scale, the median and the
/// median absolute deviation, stand almost half of the values being outliers.
///
/// Returns the indices of the values below and above; `None` for fewer than [`MIN_VALUES`] values, for values that are not
/// positive, and where half of the values or more are the same.
pub fn outliers(values: &[f64]) -> Option<(Vec<usize>, Vec<usize>)> {
    let logs = logarithms(values)?;
    let centre = crate::median(&logs)?;
    let deviations: Vec<f64> = logs.iter().map(|log| (log - centre).abs()).collect();
    let scale = MAD_SCALE * crate::median(&deviations)?;
    if scale <= 0.0 {
        return None;
    }
    let n = logs.len();
    // The scale is an estimate from few values: the tails are those of Student's t.
    let freedom = ((n as f64 - 1.0) * MAD_EFFICIENCY).round().max(1.0);
    let limit = scale * student::critical(OUTLIER_LEVEL / n as f64, freedom);
    let beyond =
        |sign: f64| -> Vec<usize> { (0..n).filter(|&index| sign * (logs[index] - centre) > limit).collect() };
    Some((beyond(-1.0), beyond(1.0)))
}

/// Two groups of values with a gap between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    /// Share of the values in the upper group.
    pub upper_share: f64,
    /// Median of the lower group.
    pub lower_median: f64,
    /// Median of the upper group.
    pub upper_median: f64,
}

/// Returns the two groups of values that have more than one mode, by the dip test (Hartigan and Hartigan, "The dip test of
/// unimodality", Annals of Statistics 1985). The groups are those with the smallest variance within them (Otsu 1979).
///
/// `None` where the values may have one mode, where they are fewer than [`MIN_VALUES`] or not positive, and where so many
/// are the same that the resolution of the measurement makes the modes.
pub fn modes(values: &[f64]) -> Option<Modes> {
    let mut logs = logarithms(values)?;
    logs.sort_unstable_by(f64::total_cmp);
    let different = 1 + logs.windows(2).filter(|pair| pair[0] < pair[1]).count();
    if different * 2 < logs.len() || dip(&logs) * (logs.len() as f64).sqrt() <= DIP_CRITICAL {
        return None;
    }
    let split = split(&logs);
    let (lower, upper) = logs.split_at(split);
    Some(Modes {
        upper_share: upper.len() as f64 / logs.len() as f64,
        lower_median: crate::median(lower)?.exp(),
        upper_median: crate::median(upper)?.exp(),
    })
}

/// Returns the size of the lower of two groups of sorted values, so that the variance between them is largest.
fn split(sorted: &[f64]) -> usize {
    let (n, total) = (sorted.len() as f64, sorted.iter().sum::<f64>());
    let mut below = 0.0;
    let between = sorted.iter().enumerate().take(sorted.len() - 1).map(|(index, value)| {
        below += value;
        let count = (index + 1) as f64;
        let difference = below / count - (total - below) / (n - count);
        (index + 1, count * (n - count) * difference * difference)
    });
    between.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(1, |(size, _)| size)
}

/// Returns by which factor the last third of the values is larger than the first, by their medians, where the values drift:
/// the test of Daniels, which is Spearman's rank correlation with the order (Conover, "Practical Nonparametric Statistics",
/// 5.4), at 1 %. `None` otherwise.
pub fn drift(values: &[f64]) -> Option<f64> {
    let logs = logarithms(values)?;
    let n = logs.len();
    if 2.0 * upper_tail(rank_correlation::with_order(&logs).abs() * (n as f64 - 1.0).sqrt()) > DRIFT_LEVEL {
        return None;
    }
    let third = n / 3;
    Some((crate::median(&logs[n - third..])? - crate::median(&logs[..third])?).exp())
}

/// Returns how many of the first values belong to a slow start: they are the largest of all. If the order has no effect,
/// the first two are the largest two of n in one of n (n - 1) / 2 samples. A single first value also has to be an outlier.
/// `None` where there is no such start, where more than a fifth of the values belong to it, and below [`MIN_VALUES`].
pub fn slow_start(values: &[f64]) -> Option<usize> {
    let (_, above) = outliers(values)?;
    let largest_after = |count: usize| values[count..].iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_start = |&count: &usize| {
        let least = values[..count].iter().copied().fold(f64::INFINITY, f64::min);
        least > largest_after(count) && (count > 1 || above.contains(&0))
    };
    (1..=values.len() / 5).rev().find(is_start)
}

/// Returns the logarithms of at least [`MIN_VALUES`] positive values.
fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let is_usable = |value: &f64| *value > 0.0 && value.is_finite();
    (values.len() >= MIN_VALUES && values.iter().all(is_usable))
        .then(|| values.iter().map(|value| value.ln()).collect())
}

#[cfg(test)]
mod tests;

//! Statistics for small, paired, noisy samples. Every interval has a stated confidence level and attains
//! it.
//!
//! ```
//! use manycore_stats::Estimate;
//!
//! let seconds = [1.31, 1.28, 1.35, 1.30, 1.29, 1.33, 1.97];
//! let estimate = Estimate::from_samples(&seconds).unwrap();
//! assert_eq!(estimate.median, 1.31);
//! // The interval is exact for any distribution: one outlier widens it to the extremes and no further.
//! assert_eq!(estimate.interval, Some((1.28, 1.97)));
//! ```
//!
//! # One procedure for estimate, interval and test
//!
//! The estimate is that of Hodges and Lehmann, of the log-ratios of pairs. Its interval is taken from the Walsh
//! averages at the exact critical value of the signed-rank test. The interval at a level excludes 1 exactly where the
//! test rejects at that level, so the two cannot contradict each other.
//!
//! A pair is two samples of one block. Its two sides are neighbours in time and their order is random. So the sign of
//! the difference is a fair coin where the treatment has no effect, however the noise is correlated. Below six pairs
//! there is no 95 % interval, and none is shown. Walsh averages are counted and not listed, so 100,000 pairs can be
//! evaluated.
//!
//! # Samples that were not interleaved
//!
//! Two records of different days have no pairs, and nothing cancels what changes from one session to the next.
//! [`sessions`] compares them: a session has one value, and the scatter between sessions comes from repeated ones, from
//! earlier ones, or from a stated assumption.
//!
//! # Other figures than the typical pair
//!
//! An [`Estimator`] names the figure of two distributions that is compared: the typical pair, the mean, a quantile of the
//! worse tail or the worst of ten runs. Each has one procedure for estimate, interval and p-value, and needs a least number
//! of pairs at a level: six for the median and the mean at 95 %, 36, 72 and 368 for p90, p95 and p99, 60 for the worst of
//! ten. The p-values compose with the interim analyses and with Holm's procedure as those of the rank tests do.
//!
//! The intervals of rank tests and order statistics are exact, and that of the mean is where the variants are identical, or
//! one is slower by a factor (`mean_ratio.rs`). The maximum of all runs has no interval without an assumption about the tail, so it has none here.
//!
//! # The shape of one sample
//!
//! [`shape`] flags outliers, more than one mode, drift and a slow start, each with a rule whose false flags are
//! calibrated.
//!
//! # Two figures of several conditions
//!
//! [`spearman`] is the rank correlation of two figures, with an exact p-value for few pairs.
//!
//! # One rule for all subcommands
//!
//! `verdict` decides. The interval excludes 1: **better** or **worse**. Otherwise it lies within a margin that was
//! fixed before the measurement (2 % unless another is requested): **equivalent**. Otherwise: **inconclusive**. A
//! result may be both different and within the margin. The answer is then the difference, with a sentence that it is
//! too small to matter, and no advice follows from it. The noise floor (the difference between adjacent runs of
//! one variant) does not affect verdicts: it grows with the noise of the runs that it would classify.
//!
//! # Several tests
//!
//! Interim analyses have the levels of O'Brien and Fleming: 0.0005, 0.0141 and 0.0451 for three, 0.0052 and 0.0480
//! for two. Several comparisons that must hold jointly are corrected with Holm's procedure, starting from the level
//! of the analysis.
//!
//! Where many are tested and some wrong rejections are acceptable, [`benjamini_hochberg`] bounds their expected share.
//!
//! # The largest count within a bound
//!
//! [`largest_count`] searches for the largest count at which a noisy figure that grows with the count is within a bound.
//!
//! # Scaling law
//!
//! The Universal Scalability Law is fitted from five worker counts on, up to the number of CPUs, because
//! oversubscription is another regime. Its coefficients are not below 0. Their intervals are bootstrapped over raw
//! slices.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod histogram;
pub mod largest_count;
pub mod sessions;
pub mod verdict;

mod critical;
mod estimator;
mod fisher;
mod gamma;
mod isotonic;
mod mean_ratio;
mod multiplicity;
mod normal;
mod order_statistics;
mod quantile_ratio;
mod rank_correlation;
pub mod shape;
mod signed_rank;
mod student;
mod usl;

pub use estimator::{BLOCK_PAIRS, Estimator, UnknownEstimator, WorseTail};
pub use fisher::fisher_exact;
pub use isotonic::isotonic_fit;
pub use mean_ratio::log_mean_interval;
pub use multiplicity::{FAMILY_LEVEL, benjamini_hochberg, holm_divisors, interim_level};
pub use normal::{student_quantile, upper_quantile, upper_tail};
pub use order_statistics::{median_interval, sign_p};
pub use quantile_ratio::{least_samples, log_quantile_ratio, quantile_interval};
pub use rank_correlation::spearman;
pub use signed_rank::{attained_level, signed_rank_p};
pub use student::{critical as student_critical, tail as student_tail};
pub use usl::{Usl, UslPoint};

use serde::{Deserialize, Serialize};

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The confidence of every interval; significance levels are its complement.
pub const CONFIDENCE: f64 = 0.95;

/// Largest absolute logarithm of a ratio, about ln(1e10). Where one of two values is 0, they count as this far apart.
pub const MAX_LOG_RATIO: f64 = 23.0;

/// Returns the natural logarithm of `b` over `a`, limited to ±[`MAX_LOG_RATIO`].
///
/// A value of 0 is the strongest evidence against its side, and leaving it out would make the side look better than it is.
/// So a 0 paired with a positive value is ranked last. Two zeros have no ratio: `None`.
pub fn log_ratio(a: f64, b: f64) -> Option<f64> {
    let ratio = b / a;
    (ratio >= 0.0).then(|| ratio.ln().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))
}

/// A median, or a pseudo-median of paired differences, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Median of the samples, or pseudo-median of differences.
    pub median: f64,
    /// Lower and upper end of the 95 % interval of the median. `None` where there are too few samples for
    /// any interval at that level (below six).
    pub interval: Option<(f64, f64)>,
    /// Number of samples.
    pub n: usize,
}

impl Estimate {
    /// Returns the median of `values` with its exact order-statistic interval. `None` for no values.
    pub fn from_samples(values: &[f64]) -> Option<Self> {
        Self::with_confidence(values, CONFIDENCE)
    }

    /// Returns the same as [`Estimate::from_samples`] with an interval of another confidence.
    pub fn with_confidence(values: &[f64], confidence: f64) -> Option<Self> {
        let median = median(values)?;
        Some(Self { median, interval: median_interval(values, confidence), n: values.len() })
    }

    /// Returns the estimate on another scale. `scale` must be monotonic.
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        let interval = self.interval.map(|(low, high)| {
            let (a, b) = (scale(low), scale(high));
            (a.min(b), a.max(b))
        });
        Self { median: scale(self.median), interval, n: self.n }
    }
}

/// Returns the `q`-quantile (0 to 1) by linear interpolation between order statistics (Hyndman and Fan type
/// 7).
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let position = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(low + (high - low) * position.fract())
}

/// Returns the median; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// Returns the arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns Jain's fairness index, `(sum x)^2 / (n sum x^2)`: 1 where all shares are equal, 1/n where one
/// has everything (Jain, Chiu and Hawe 1984). `None` where all shares are 0.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns the smallest level at which the interval excludes 0, to a relative precision of 1e-9; 1 where there is none.
/// `interval` must not get wider with the level.
fn bisect_p(interval: impl Fn(f64) -> Option<(f64, f64)>) -> f64 {
    const LEAST: f64 = 1e-9;
    let excludes = |level: f64| interval(level).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
    if !excludes(1.0) {
        return 1.0;
    }
    let (mut below, mut p) = (LEAST, 1.0_f64);
    while p / below > 1.0 + 1e-9 {
        let middle = (below * p).sqrt();
        if excludes(middle) { p = middle } else { below = middle }
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.95), Some(9.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn jain_lies_between_one_nth_and_one(shares in prop::collection::vec(0.0f64..1e6, 1..40)) {
            if let Some(index) = jain_index(&shares) {
                prop_assert!(index <= 1.0 + 1e-9 && index >= 1.0 / shares.len() as f64 - 1e-9);
            }
        }
    }

    #[test]
    fn jain_index_at_the_extremes() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }
}

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
//! Two records of different days have no pairs. [`Estimate::from_independent`] compares them by the rank-sum test, whose
//! values must be independent: medians of long stretches, not single samples. What changed in between (the machine,
//! other work) is part of the difference.
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
//! # Scaling law
//!
//! The Universal Scalability Law is fitted from five worker counts on, up to the number of CPUs, because
//! oversubscription is another regime. Its coefficients are not below 0. Their intervals are bootstrapped over raw
//! slices.
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

pub mod histogram;
pub mod verdict;

mod critical;
mod multiplicity;
mod normal;
mod order_statistics;
mod rank_sum;
mod signed_rank;
mod usl;

pub use multiplicity::{FAMILY_LEVEL, holm_divisors, interim_level};
pub use normal::{student_quantile, upper_quantile, upper_tail};
pub use order_statistics::median_interval;
pub use rank_sum::rank_sum_p;
pub use signed_rank::{attained_level, signed_rank_p};
pub use usl::{Usl, UslPoint};

use serde::{Deserialize, Serialize};

/// Runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The confidence of every interval; significance levels are its complement.
pub const CONFIDENCE: f64 = 0.95;

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

//! What of two distributions is compared: the typical pair, the mean, a quantile or the worst runs.

use crate::{
    Estimate, MAX_LOG_RATIO, critical, log_ratio, mean_ratio,
    quantile_ratio::{least_samples, log_quantile_ratio, quantile_ratio_p},
    signed_rank_p,
};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Number of consecutive pairs of which [`Estimator::Max`] takes the worst value of each side.
pub const BLOCK_PAIRS: usize = 10;

/// Names of the estimators, in their order, for messages and help.
const NAMES: [(Estimator, &str); 6] = [
    (Estimator::Median, "median"),
    (Estimator::Mean, "mean"),
    (Estimator::P90, "p90"),
    (Estimator::P95, "p95"),
    (Estimator::P99, "p99"),
    (Estimator::Max, "max"),
];

/// The figure of the two distributions that a comparison is about. It is chosen before anything is measured: an estimator
/// that is chosen because of its result has no level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// The ratio of a typical pair (Hodges and Lehmann), with the exact interval of the signed-rank test. Needs six pairs
    /// at 95 %.
    #[default]
    Median,
    /// The ratio of the arithmetic means, with the exact interval of a sign-flip test: what a total of many runs depends
    /// on. Needs six pairs at 95 %.
    Mean,
    /// The ratio of the 90 % quantiles, in the worse tail, with order statistics and MOVER. Needs 36 pairs at 95 %.
    P90,
    /// The same of the 95 % quantiles. Needs 72 pairs.
    P95,
    /// The same of the 99 % quantiles. Needs 368 pairs.
    P99,
    /// The ratio of the worst of ten consecutive runs: the exact signed-rank interval of blocks of ten pairs. Needs 60
    /// pairs at 95 %.
    ///
    /// The maximum of all runs has no interval: it grows with their number, and without an assumption about the tail its
    /// limit is unknown. The worst of ten has a distribution of its own, which blocks sample.
    Max,
}

/// Which tail of a distribution holds the worse values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorseTail {
    /// Larger values are worse: times.
    Upper,
    /// Smaller values are worse: rates. Their p99 is the rate that 99 % of the runs reach.
    Lower,
}

impl fmt::Display for Estimator {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Estimator {
    type Err = UnknownEstimator;

    fn from_str(text: &str) -> Result<Self, UnknownEstimator> {
        let named = NAMES.iter().find(|(_, name)| *name == text);
        named.map(|(estimator, _)| *estimator).ok_or_else(|| UnknownEstimator(text.to_owned()))
    }
}

/// A text that names no estimator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEstimator(String);

impl std::error::Error for UnknownEstimator {}

impl fmt::Display for UnknownEstimator {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
        write!(out, "{:?} is not one of {}", self.0, names.join(", "))
    }
}

impl Estimator {
    /// All estimators.
    pub const ALL: [Self; 6] = [Self::Median, Self::Mean, Self::P90, Self::P95, Self::P99, Self::Max];

    /// Returns its name: `median`, `p99`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(estimator, _)| *estimator == self).map_or("", |(_, name)| name)
    }

    /// Returns the quantile that it is about, where it is about one of the runs: 0.99 for `p99`.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::Median | Self::Mean | Self::Max => None,
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
        }
    }

    /// Returns the smallest number of pairs with an interval at the two-sided `level`. A mean has none at levels below
    /// 2^-15, however many pairs there are.
    pub fn least_pairs(self, level: f64) -> usize {
        // The smallest p-value of the signed-rank and the sign-flip test is 2 * 0.5^n.
        let ranks = (2.0 / level).log2().ceil().max(2.0) as usize;
        match (self, self.quantile()) {
            (_, Some(q)) => least_samples(q, level),
            (Self::Max, _) => ranks * BLOCK_PAIRS,
            _ => ranks,
        }
    }

    /// Returns the figure of the `values` of one side; of [`Estimator::Max`], the worst of all. `None` for no values.
    pub fn of_values(self, values: &[f64], worse: WorseTail) -> Option<f64> {
        match (self, self.quantile()) {
            (Self::Mean, _) => crate::mean(values),
            (Self::Max, _) => crate::quantile(values, in_tail(1.0, worse)),
            (_, Some(q)) => crate::quantile(values, in_tail(q, worse)),
            _ => crate::median(values),
        }
    }

    /// Returns the figure of a session that is one value among those of others: that of [`Estimator::of_values`], but of
    /// [`Estimator::Max`] the median of the worst of each ten consecutive values, which does not grow with their number.
    /// `None` below [`Estimator::least_values`].
    pub fn of_session(self, values: &[f64], worse: WorseTail) -> Option<f64> {
        if values.len() < self.least_values() {
            return None;
        }
        match self {
            Self::Max => crate::median(&block_extremes(values.iter().copied(), worse)),
            _ => self.of_values(values, worse),
        }
    }

    /// Returns the smallest number of values of which one lies beyond the quantile: 100 for `p99`.
    pub fn least_values(self) -> usize {
        match (self, self.quantile()) {
            (Self::Max, _) => BLOCK_PAIRS,
            (_, Some(q)) => (1.0 / (1.0 - q)).round() as usize,
            _ => 1,
        }
    }

    /// Returns the logarithm of B over A of `pairs` (A, B) of values of a metric, with its interval at the two-sided
    /// `level`. `worse` says which tail a quantile and the worst runs are taken from.
    ///
    /// `None` where there is nothing to compare: no pairs, or a negative value.
    pub fn log_ratio(self, pairs: &[(f64, f64)], worse: WorseTail, level: f64) -> Option<Estimate> {
        let estimate = match (self, self.quantile()) {
            (Self::Median, _) => Estimate::from_differences(&differences(pairs), level)?,
            (Self::Max, _) => Estimate::from_differences(&block_differences(pairs, worse), level)?,
            (_, Some(q)) => {
                let q = in_tail(q, worse);
                log_quantile_ratio(
                    pairs.iter().map(|pair| pair.0),
                    pairs.iter().map(|pair| pair.1),
                    q,
                    level,
                )?
            }
            _ => mean_ratio::log_mean_ratio(pairs, level)?,
        };
        let limited = estimate.map(|log| log.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO));
        Some(Estimate { n: pairs.len(), ..limited })
    }

    /// Returns the two-sided p-value that both sides have the same figure: the smallest level at which the interval of
    /// [`Estimator::log_ratio`] excludes 0. 1 where there is nothing to compare.
    pub fn p(self, pairs: &[(f64, f64)], worse: WorseTail) -> f64 {
        match (self, self.quantile()) {
            (Self::Median, _) => signed_rank_p(&differences(pairs)),
            (Self::Max, _) => signed_rank_p(&block_differences(pairs, worse)),
            (_, Some(q)) => quantile_ratio_p(pairs, in_tail(q, worse)),
            _ => mean_ratio::mean_ratio_p(pairs),
        }
    }

    /// Returns how many standard errors half of the width of an interval at `level` from `pairs` pairs is; for planning.
    /// `None` where there is no interval.
    pub fn standard_errors(self, pairs: usize, level: f64) -> Option<f64> {
        if pairs < self.least_pairs(level) {
            return None;
        }
        Some(match self {
            Self::Median => critical::of_ranks(pairs, level)?,
            Self::Max => critical::of_ranks(pairs / BLOCK_PAIRS, level)?,
            Self::Mean => {
                let attained = mean_ratio::attained_level(pairs, level)?;
                crate::student_quantile(attained / 2.0, pairs as f64 - 1.0)
            }
            _ => crate::student_quantile(level / 2.0, pairs as f64 - 1.0),
        })
    }
}

/// Returns the quantile `q` of the worse tail as one of the values.
fn in_tail(q: f64, worse: WorseTail) -> f64 {
    match worse {
        WorseTail::Upper => q,
        WorseTail::Lower => 1.0 - q,
    }
}

/// Returns ln(b / a) of each pair that has a ratio.
fn differences(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().filter_map(|&(a, b)| log_ratio(a, b)).collect()
}

/// Returns the differences of the worst value of each side in each whole block of [`BLOCK_PAIRS`] consecutive pairs. The
/// order within each pair is random, so the sign of the difference of a block is a fair coin where the two sides have
/// the same distribution, as it is for a pair.
fn block_differences(pairs: &[(f64, f64)], worse: WorseTail) -> Vec<f64> {
    let [a, b] = [|pair: &(f64, f64)| pair.0, |pair: &(f64, f64)| pair.1]
        .map(|side| block_extremes(pairs.iter().map(side), worse));
    differences(&a.into_iter().zip(b).collect::<Vec<_>>())
}

/// Returns the worst value of each whole block of [`BLOCK_PAIRS`] consecutive values.
fn block_extremes(values: impl Iterator<Item = f64>, worse: WorseTail) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let extreme = |block: &[f64]| match worse {
        WorseTail::Upper => block.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        WorseTail::Lower => block.iter().copied().fold(f64::INFINITY, f64::min),
    };
    values.chunks_exact(BLOCK_PAIRS).map(extreme).collect()
}

#[cfg(test)]
mod tests;

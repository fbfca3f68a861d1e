//! The noise floor: the difference that this machine shows between two identical variants.

use super::{power_analysis, with_factor};
use manycore_experiment::record::{Experiment, factor};
use manycore_stats::{
    Estimate, log_ratio,
    verdict::{DecisionRule, Verdict},
};
use serde::Serialize;

/// The noise floor at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NoiseFloor {
    /// Number of concurrent workers.
    pub workers: usize,
    /// B over A; the true value is 1.
    pub ratio: Estimate,
    /// Largest difference from 1 within the interval. `None` where there are too few pairs for an interval.
    /// It does not affect verdicts.
    pub floor: Option<f64>,
    /// Minimum detectable effect at 80 % power of this many pairs, as a share. `None` where there are too
    /// few pairs.
    pub minimum_detectable_effect: Option<f64>,
}

/// Returns one [`NoiseFloor`] for each number of workers that has both variants.
pub(crate) fn evaluate(experiment: &Experiment) -> Vec<NoiseFloor> {
    with_factor(experiment, factor::VARIANT, "A")
        .filter_map(|a| {
            let workers = experiment.treatments[a].workers;
            let b = with_factor(experiment, factor::VARIANT, "B")
                .find(|&b| experiment.treatments[b].workers == workers)?;
            let (ratio, minimum_detectable_effect) = ratio_and_detectable(&experiment.log_ratios(a, b))?;
            let floor = ratio.interval.map(|(low, high)| (1.0 - low).max(high - 1.0));
            Some(NoiseFloor { workers, ratio, floor, minimum_detectable_effect })
        })
        .collect()
}

/// Returns the noise between consecutive samples of the same treatment, for each number of workers that has
/// enough pairs for an interval.
pub(crate) fn from_repeats(experiment: &Experiment) -> Vec<NoiseFloor> {
    (0..experiment.treatments.len())
        .filter_map(|index| {
            let (ratio, minimum_detectable_effect) =
                ratio_and_detectable(&consecutive_ratios(experiment, index))?;
            let (low, high) = ratio.interval?;
            let workers = experiment.treatments[index].workers;
            Some(NoiseFloor { workers, ratio, floor: Some((high - low) / 2.0), minimum_detectable_effect })
        })
        .collect()
}

/// Returns the logarithms of the ratios between consecutive samples of one treatment, each sample in one
/// pair only. Their true value is 0.
pub(crate) fn consecutive_ratios(experiment: &Experiment, treatment: usize) -> Vec<f64> {
    let rates = experiment.rates(treatment);
    rates.chunks_exact(2).filter_map(|pair| log_ratio(pair[0], pair[1])).collect()
}

/// Returns the ratio of the pairs, and their minimum detectable effect. `None` where there are no pairs.
fn ratio_and_detectable(log_ratios: &[f64]) -> Option<(Estimate, Option<f64>)> {
    let verdict = Verdict::new(log_ratios, DecisionRule::default(), None)?;
    let ratio = Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs };
    Some((ratio, power_analysis::minimum_detectable_effect(&verdict)))
}

/// Returns the noise floor for comparisons with `workers` concurrent workers: that of the nearest number of
/// workers that was measured.
pub(crate) fn floor(noise: &[NoiseFloor], workers: usize) -> Option<f64> {
    let known = noise.iter().filter_map(|noise| Some((noise.workers, noise.floor?)));
    known.min_by_key(|(at, _)| at.abs_diff(workers)).map(|(_, floor)| floor)
}

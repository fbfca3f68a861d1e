//! The noise floor: what this machine shows between two identical things.

use super::with_factor;
use crate::{record::Experiment, stats::Estimate};
use serde::Serialize;

/// Ratio of the standard errors that a two-sided 5 % test needs for 80 % power to those of its interval:
/// (1.960 + 0.842) / 1.960.
const POWER_80: f64 = 1.43;

/// The noise floor at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// Workers at work at once.
    pub workers: usize,
    /// B over A, which is 1 in truth.
    pub ratio: Estimate,
    /// The difference from 1 that the interval still admits: nothing smaller is believed.
    pub floor: f64,
    /// Smallest true difference that this many pairs would find in four runs of five.
    pub detectable: f64,
}

/// One [`Noise`] for each number of workers that has both sides and pairs enough for an interval.
pub(crate) fn judge(experiment: &Experiment) -> Vec<Noise> {
    with_factor(experiment, "side", "A")
        .filter_map(|a| {
            let workers = experiment.treatments[a].workers;
            let b = with_factor(experiment, "side", "B")
                .find(|&b| experiment.treatments[b].workers == workers)?;
            let ratio = Estimate::of(&experiment.log_ratios(a, b))?.map(f64::exp);
            let (low, high) = ratio.interval?;
            let (half_width, floor) = ((high - low) / 2.0, (1.0 - low).max(high - 1.0));
            Some(Noise { workers, ratio, floor, detectable: detectable(floor, half_width) })
        })
        .collect()
}

/// The same from neighbouring samples of one and the same treatment, for each number of workers.
pub(crate) fn within(experiment: &Experiment) -> Vec<Noise> {
    (0..experiment.treatments.len())
        .filter_map(|index| {
            let ratio = Estimate::of(&neighbours(experiment, index))?.map(f64::exp);
            let (low, high) = ratio.interval?;
            let floor = (high - low) / 2.0;
            let workers = experiment.treatments[index].workers;
            Some(Noise { workers, ratio, floor, detectable: detectable(floor, floor) })
        })
        .collect()
}

/// Logarithms of the ratios between neighbouring samples of one treatment, no sample in two of them: 0 in truth.
pub(crate) fn neighbours(experiment: &Experiment, treatment: usize) -> Vec<f64> {
    let rates = experiment.rates(treatment);
    rates.chunks_exact(2).map(|pair| (pair[1] / pair[0]).ln()).filter(|ratio| ratio.is_finite()).collect()
}

/// Smallest true difference that is found in four runs of five. One is believed beyond the floor only, so it
/// must lie that much further out.
pub(crate) fn detectable(floor: f64, half_width: f64) -> f64 {
    floor + (POWER_80 - 1.0) * half_width
}

/// Floor for comparisons with `workers` at work: that of the nearest number measured, where one was.
pub(crate) fn floor(noise: &[Noise], workers: usize) -> Option<f64> {
    noise.iter().min_by_key(|noise| noise.workers.abs_diff(workers)).map(|noise| noise.floor)
}

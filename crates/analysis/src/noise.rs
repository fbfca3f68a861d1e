//! The noise floor: what this machine shows between two identical things.

use super::{planning, with_factor};
use manycore_experiment::record::{Experiment, log_ratio};
use manycore_stats::{
    Estimate,
    verdict::{Rule, Verdict},
};
use serde::Serialize;

/// The noise floor at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// Workers at work at once.
    pub workers: usize,
    /// B over A, which is 1 in truth.
    pub ratio: Estimate,
    /// The difference from 1 that the interval still admits; absent where the pairs are too few for one. For information:
    /// it decides nothing.
    pub floor: Option<f64>,
    /// Minimum detectable effect at 80 % power of this many pairs, as a share; absent where they are too few for one.
    pub detectable: Option<f64>,
}

/// One [`Noise`] for each number of workers that has both sides.
pub(crate) fn judge(experiment: &Experiment) -> Vec<Noise> {
    with_factor(experiment, "side", "A")
        .filter_map(|a| {
            let workers = experiment.treatments[a].workers;
            let b = with_factor(experiment, "side", "B")
                .find(|&b| experiment.treatments[b].workers == workers)?;
            let (ratio, detectable) = shown(&experiment.log_ratios(a, b))?;
            let floor = ratio.interval.map(|(low, high)| (1.0 - low).max(high - 1.0));
            Some(Noise { workers, ratio, floor, detectable })
        })
        .collect()
}

/// The same from neighbouring samples of one and the same treatment, for each number of workers with pairs enough for an
/// interval.
pub(crate) fn within(experiment: &Experiment) -> Vec<Noise> {
    (0..experiment.treatments.len())
        .filter_map(|index| {
            let (ratio, detectable) = shown(&neighbours(experiment, index))?;
            let (low, high) = ratio.interval?;
            let workers = experiment.treatments[index].workers;
            Some(Noise { workers, ratio, floor: Some((high - low) / 2.0), detectable })
        })
        .collect()
}

/// Logarithms of the ratios between neighbouring samples of one treatment, no sample in two of them: 0 in truth.
pub(crate) fn neighbours(experiment: &Experiment, treatment: usize) -> Vec<f64> {
    let rates = experiment.rates(treatment);
    rates.chunks_exact(2).filter_map(|pair| log_ratio(pair[0], pair[1])).collect()
}

/// The ratio that pairs show, and the difference that they could; absent where there are none.
fn shown(log_ratios: &[f64]) -> Option<(Estimate, Option<f64>)> {
    let verdict = Verdict::of(log_ratios, Rule::default(), None)?;
    let ratio = Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs };
    Some((ratio, planning::detectable(&verdict)))
}

/// Floor beside comparisons with `workers` at work: that of the nearest number measured, where one was.
pub(crate) fn floor(noise: &[Noise], workers: usize) -> Option<f64> {
    let known = noise.iter().filter_map(|noise| Some((noise.workers, noise.floor?)));
    known.min_by_key(|(at, _)| at.abs_diff(workers)).map(|(_, floor)| floor)
}

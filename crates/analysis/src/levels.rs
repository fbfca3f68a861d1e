//! A metric that does not count work (a latency, a size, a time), by number of workers.

use manycore_experiment::record::{Experiment, Metric, Sample};
use manycore_stats::Estimate;
use serde::Serialize;

/// The metric at each number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Levels {
    /// The metric.
    pub metric: Metric,
    /// What the numbers count: `workers`, `copies`.
    pub counted: String,
    /// One entry for each number of workers, ascending.
    pub levels: Vec<Level>,
}

/// One number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Largest number of workers at once.
    pub workers: usize,
    /// Values of the metric.
    pub value: Estimate,
    /// Value relative to that with one worker, from pairs of the same block. `None` for one worker.
    pub over_one: Option<Estimate>,
}

/// Evaluates the primary metric of an experiment. Returns `None` where it has none or one worker was not
/// measured.
pub(crate) fn judge(experiment: &Experiment) -> Option<Levels> {
    let metric = experiment.metrics.first()?.clone();
    let one = experiment.treatments.iter().position(|treatment| treatment.workers == 1)?;
    let value = |sample: &Sample| sample.values.first().copied();
    let level = |index: usize| {
        let values: Vec<f64> = experiment.samples_of(index).filter_map(value).collect();
        let over_one = Estimate::of(&experiment.log_ratios_of(one, index, value)).filter(|_| index != one);
        Some(Level {
            workers: experiment.treatments[index].workers,
            value: Estimate::of(&values)?,
            over_one: over_one.map(|ratio| ratio.map(f64::exp)),
        })
    };
    let mut levels: Vec<Level> = (0..experiment.treatments.len()).filter_map(level).collect();
    levels.sort_by_key(|level| level.workers);
    let counted = experiment.parameters.get("counted").map_or("workers", String::as_str).to_owned();
    Some(Levels { metric, counted, levels }).filter(|levels| !levels.levels.is_empty())
}

//! A metric that does not count work (a latency, a size, a time), by number of workers.

use manycore_experiment::record::{Experiment, Metric, Sample};
use manycore_stats::Estimate;
use serde::Serialize;

/// The metric at each number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricByWorkers {
    /// The metric.
    pub metric: Metric,
    /// What the numbers count: `workers`, `copies`.
    pub worker_noun: String,
    /// One entry for each number of workers, ascending.
    pub points: Vec<MetricAtWorkers>,
}

/// One number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricAtWorkers {
    /// Workers at once.
    pub workers: usize,
    /// Values of the metric.
    pub value: Estimate,
    /// Value relative to that with one worker, from pairs of the same block. `None` for one worker.
    pub relative_to_one: Option<Estimate>,
}

/// Evaluates the primary metric of an experiment. Returns `None` where it has none or one worker was not
/// measured.
pub(crate) fn evaluate(experiment: &Experiment) -> Option<MetricByWorkers> {
    let metric = experiment.metrics.first()?.clone();
    let one = experiment.treatments.iter().position(|treatment| treatment.workers == 1)?;
    let value = |sample: &Sample| sample.values.first().copied();
    let point = |index: usize| {
        let values: Vec<f64> = experiment.samples_of(index).filter_map(value).collect();
        let relative_to_one =
            Estimate::from_samples(&experiment.log_ratios_of(one, index, value)).filter(|_| index != one);
        Some(MetricAtWorkers {
            workers: experiment.treatments[index].workers,
            value: Estimate::from_samples(&values)?,
            relative_to_one: relative_to_one.map(|ratio| ratio.map(f64::exp)),
        })
    };
    let mut points: Vec<MetricAtWorkers> = (0..experiment.treatments.len()).filter_map(point).collect();
    points.sort_by_key(|point| point.workers);
    let worker_noun = experiment.parameters.get("counted").map_or("workers", String::as_str).to_owned();
    Some(MetricByWorkers { metric, worker_noun, points }).filter(|all| !all.points.is_empty())
}

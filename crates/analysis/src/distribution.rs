//! The whole distribution of each variant of a comparison, and what it looks like over time.

use manycore_experiment::record::{Direction, Experiment, Metric, Sample};
use manycore_stats::{
    Estimate, Estimator, FAMILY_LEVEL, WorseTail, log_mean_interval, mean, median, median_interval, quantile,
    quantile_interval, shape, verdict::DecisionRule,
};
use serde::Serialize;

/// The primary metric of one variant, over all of its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// The user's name of the variant, or its label: `A`.
    pub label: String,
    /// Index of its treatment.
    pub treatment: usize,
    /// The metric.
    pub metric: Metric,
    /// Number of runs.
    pub n: usize,
    /// Arithmetic mean, with the 95 % interval of Student's t for the logarithm of the mean.
    pub mean: Statistic,
    /// Median, with its exact 95 % interval.
    pub median: Statistic,
    /// Standard deviation, with n - 1 in the denominator. 0 for one run.
    pub standard_deviation: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Quantiles of the worse tail. Those that `n` runs do not reach are left out.
    pub tail: Vec<TailQuantile>,
    /// What the runs look like.
    pub shape: Shape,
}

/// A figure with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Statistic {
    /// The figure, in the metric's unit.
    pub value: f64,
    /// Ends of its 95 % interval. `None` where there are too few runs.
    pub interval: Option<(f64, f64)>,
}

/// A quantile of the worse tail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TailQuantile {
    /// `p90`, `p95` or `p99`. For a rate, the value that this share of the runs reach.
    pub quantile: Estimator,
    /// The figure, with its exact interval.
    #[serde(flatten)]
    pub figure: Statistic,
}

/// What the runs of a variant look like. Each flag is for a difference beyond the margin of equivalence, and has a false
/// rate of at most 5 % ([`manycore_stats::shape`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shape {
    /// Number of outliers on the better side.
    pub better_outliers: usize,
    /// Number of outliers on the worse side.
    pub worse_outliers: usize,
    /// The worse part of the runs, where there are two modes or worse outliers.
    pub worse_runs: Option<WorseRuns>,
    /// Whether the runs have more than one mode.
    pub has_modes: bool,
    /// Median of the last third of the runs over that of the first, where the runs drift.
    pub drift: Option<f64>,
    /// Number of runs at the start that are the worst of all.
    pub slow_start: Option<usize>,
}

/// A group of runs that are worse than the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorseRuns {
    /// Their number.
    pub runs: usize,
    /// Their share of all runs.
    pub share: f64,
    /// Their median over that of the others: above 1 for a time, below 1 for a rate.
    pub ratio: f64,
}

impl Distribution {
    /// Returns a quantile of the worse tail; `None` where the runs do not reach it.
    pub fn quantile(&self, quantile: Estimator) -> Option<Statistic> {
        self.tail.iter().find(|one| one.quantile == quantile).map(|one| one.figure)
    }

    /// Returns the values of the runs in `experiment`, from which it was computed, in the order made.
    pub fn values(&self, experiment: &Experiment) -> Vec<f64> {
        values(experiment, self.treatment)
    }
}

/// Returns the distribution of each variant of a comparison, in the order of the treatments.
pub(crate) fn evaluate(experiment: &Experiment) -> Vec<Distribution> {
    let margin = DecisionRule::from_parameters(&experiment.parameters).margin;
    let title = |treatment: usize| experiment.treatments[treatment].title().to_owned();
    experiment
        .variants()
        .filter_map(|treatment| of_treatment(experiment, treatment, title(treatment), margin))
        .collect()
}

/// Returns the worse part of the runs of a treatment, where there is one.
pub(crate) fn worse_runs(experiment: &Experiment, treatment: usize) -> Option<WorseRuns> {
    let margin = DecisionRule::from_parameters(&experiment.parameters).margin;
    of_treatment(experiment, treatment, String::new(), margin)?.shape.worse_runs
}

fn of_treatment(
    experiment: &Experiment,
    treatment: usize,
    label: String,
    margin: f64,
) -> Option<Distribution> {
    let metric = primary(experiment);
    let values = values(experiment, treatment);
    let worse = worse_tail(&metric);
    let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
    let middle = mean(&values)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let of_time = |value: &f64| if worse == WorseTail::Upper { *value } else { 1.0 / value };
    Some(Distribution {
        label,
        treatment,
        n: values.len(),
        mean: Statistic { value: middle, interval: log_mean_interval(&values, FAMILY_LEVEL) },
        median: Statistic { value: median(&values)?, interval: median_interval(&values, 1.0 - FAMILY_LEVEL) },
        standard_deviation: (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt(),
        min: fold(f64::min)?,
        max: fold(f64::max)?,
        tail: tail(&values, worse),
        shape: Shape::of_times(&values.iter().map(of_time).collect::<Vec<_>>(), margin, worse),
        metric,
    })
}

/// Returns the metric that decides; work per second where samples only count work.
fn primary(experiment: &Experiment) -> Metric {
    experiment.metrics.first().cloned().unwrap_or_else(|| Metric {
        name: "rate".to_owned(),
        unit: format!("{}/s", experiment.unit),
        better: Direction::Higher,
    })
}

/// Returns the values of that metric of a treatment, in the order taken.
fn values(experiment: &Experiment, treatment: usize) -> Vec<f64> {
    let of = |sample: &Sample| {
        if experiment.metrics.is_empty() { Some(sample.rate()) } else { sample.values.first().copied() }
    };
    experiment.samples_of(treatment).filter_map(of).collect()
}

/// Returns the tail of a metric that holds its worse values.
fn worse_tail(metric: &Metric) -> WorseTail {
    match metric.better {
        Direction::Higher => WorseTail::Lower,
        Direction::Lower => WorseTail::Upper,
    }
}

/// Returns the quantiles that so many values reach: below 1 / (1 - q), a quantile is the extreme value.
fn tail(values: &[f64], worse: WorseTail) -> Vec<TailQuantile> {
    let of = |estimator: Estimator| {
        let q = estimator.quantile()?;
        if (values.len() as f64) * (1.0 - q) < 1.0 - 1e-9 {
            return None;
        }
        Some(TailQuantile { quantile: estimator, figure: worse_quantile(values, q, worse)? })
    };
    [Estimator::P90, Estimator::P95, Estimator::P99].into_iter().filter_map(of).collect()
}

/// Returns the quantile `q` counted from the better end.
fn worse_quantile(values: &[f64], q: f64, worse: WorseTail) -> Option<Statistic> {
    let q = if worse == WorseTail::Upper { q } else { 1.0 - q };
    let ends = quantile_interval(values, q, FAMILY_LEVEL);
    Some(Statistic { value: quantile(values, q)?, interval: ends.0.zip(ends.1) })
}

/// Returns the figure that stands beside a ratio by an estimator: the mean or the quantile of the worse tail. For the
/// others, and where a comparison is by worst runs, the median.
pub(crate) fn figure(values: &[f64], metric: &Metric, by: Estimator) -> Option<Estimate> {
    let (median, interval) = match (by, by.quantile()) {
        (Estimator::Mean, _) => (mean(values)?, log_mean_interval(values, FAMILY_LEVEL)),
        (Estimator::P90 | Estimator::P95 | Estimator::P99, Some(q)) => {
            let found = worse_quantile(values, q, worse_tail(metric))?;
            (found.value, found.interval)
        }
        _ => return Estimate::from_samples(values),
    };
    Some(Estimate { median, interval, n: values.len() })
}

impl Shape {
    /// Describes times in the order taken; for a rate, their reciprocals.
    fn of_times(times: &[f64], margin: f64, worse: WorseTail) -> Self {
        let Some(middle) = median(times) else { return Self::default() };
        let matters = |ratio: f64| !(1.0 / (1.0 + margin)..=1.0 + margin).contains(&ratio);
        let in_values = |ratio: f64| if worse == WorseTail::Upper { ratio } else { 1.0 / ratio };
        let far = |indices: Vec<usize>| -> Vec<usize> {
            indices.into_iter().filter(|&index| matters(times[index] / middle)).collect()
        };
        let (better, slow) =
            shape::outliers(times).map(|(low, high)| (far(low), far(high))).unwrap_or_default();
        let modes = shape::modes(times).filter(|modes| matters(modes.upper_median / modes.lower_median));
        let group = |runs: usize, ratio: f64| WorseRuns {
            runs,
            share: runs as f64 / times.len() as f64,
            ratio: in_values(ratio),
        };
        let from_modes = modes.map(|modes| {
            let runs = (modes.upper_share * times.len() as f64).round() as usize;
            group(runs, modes.upper_median / modes.lower_median)
        });
        let start = shape::slow_start(times).filter(|&count| {
            let medians = median(&times[..count]).zip(median(&times[count..]));
            medians.is_some_and(|(first, others)| matters(first / others))
        });
        Self {
            better_outliers: better.len(),
            worse_outliers: slow.len(),
            worse_runs: from_modes.or_else(|| Some(group(slow.len(), slowness(times, &slow)?))),
            has_modes: modes.is_some(),
            drift: shape::drift(times).filter(|ratio| matters(*ratio)).map(in_values),
            slow_start: start,
        }
    }
}

/// Returns the median of the times with these indices over that of the others; `None` where either is empty.
fn slowness(times: &[f64], slow: &[usize]) -> Option<f64> {
    let (slow, others): (Vec<usize>, Vec<usize>) = (0..times.len()).partition(|index| slow.contains(index));
    let median_of = |indices: &[usize]| median(&indices.iter().map(|&at| times[at]).collect::<Vec<_>>());
    Some(median_of(&slow)? / median_of(&others)?)
}

#[cfg(test)]
mod tests;

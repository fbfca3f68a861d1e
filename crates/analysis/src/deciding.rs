//! Two treatments compared by the estimator that was chosen before the run.

use manycore_experiment::record::{Direction, Experiment, Sample, parameter};
use manycore_stats::{
    Estimator, WorseTail, signed_rank_p,
    verdict::{DecisionRule, Verdict},
};
use std::collections::BTreeMap;

/// Returns the estimator that decides: the median where the record names none, or one that this version does not know.
pub(crate) fn estimator(experiment: &Experiment) -> Estimator {
    let named = experiment.parameters.get(parameter::ESTIMATOR);
    named.and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// Returns which tail of the metric with this index is the worse one.
fn worse_tail(experiment: &Experiment, metric: usize) -> WorseTail {
    let better = experiment.metrics.get(metric).map_or(Direction::Higher, |metric| metric.better);
    if better == Direction::Higher { WorseTail::Lower } else { WorseTail::Upper }
}

/// Returns the value of the metric with this index; the rate where there is no metric.
fn metric_value(experiment: &Experiment, sample: &Sample, metric: usize) -> Option<f64> {
    if experiment.metrics.is_empty() { Some(sample.rate()) } else { sample.values.get(metric).copied() }
}

/// Returns a score of the runs of one treatment in the primary metric by an estimator: more is better. `None` without
/// runs.
pub(crate) fn score(experiment: &Experiment, samples: &[&Sample], estimator: Estimator) -> Option<f64> {
    let values: Vec<f64> = samples.iter().filter_map(|sample| metric_value(experiment, sample, 0)).collect();
    let worse = worse_tail(experiment, 0);
    let figure = estimator.of_values(&values, worse).filter(|figure| *figure >= 0.0)?;
    Some(if worse == WorseTail::Upper { -figure } else { figure })
}

/// The pairs of two treatments in one metric, as an estimator compares them.
pub(crate) enum Compared {
    /// ln(rate of B / rate of A).
    LogRatios(Vec<f64>),
    /// Values of A and B.
    Values { estimator: Estimator, pairs: Vec<(f64, f64)>, worse: WorseTail },
}

impl Compared {
    /// Returns the primary metric of `a` and `b` by the experiment's estimator.
    pub(crate) fn primary(experiment: &Experiment, a: usize, b: usize) -> Self {
        match estimator(experiment) {
            // Work per second, which records without metrics have as well.
            Estimator::Median => Self::LogRatios(experiment.log_ratios(a, b)),
            estimator => Self::by(experiment, (a, b), 0, estimator),
        }
    }

    /// Returns the metric with this index of `a` and `b` by an estimator.
    pub(crate) fn by(
        experiment: &Experiment,
        (a, b): (usize, usize),
        metric: usize,
        estimator: Estimator,
    ) -> Self {
        let worse = worse_tail(experiment, metric);
        Self::Values { estimator, pairs: pairs(experiment, a, b, metric), worse }
    }

    /// Returns the number of pairs.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::LogRatios(ratios) => ratios.len(),
            Self::Values { pairs, .. } => pairs.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first `count` pairs, or all where there are fewer.
    pub(crate) fn first(&self, count: usize) -> Self {
        match self {
            Self::LogRatios(ratios) => Self::LogRatios(ratios.iter().copied().take(count).collect()),
            Self::Values { estimator, pairs, worse } => Self::Values {
                estimator: *estimator,
                pairs: pairs.iter().copied().take(count).collect(),
                worse: *worse,
            },
        }
    }

    /// Returns the p-value of the deciding test.
    pub(crate) fn p(&self) -> f64 {
        match self {
            Self::LogRatios(ratios) => signed_rank_p(ratios),
            Self::Values { estimator, pairs, worse } => estimator.p(pairs, *worse),
        }
    }

    /// Returns the verdict by a rule; `None` where there is nothing to compare.
    pub(crate) fn verdict(&self, rule: DecisionRule, noise_floor: Option<f64>) -> Option<Verdict> {
        match self {
            Self::LogRatios(ratios) => Verdict::new(ratios, rule, noise_floor),
            Self::Values { estimator, pairs, worse } => {
                Verdict::by(*estimator, pairs, *worse, rule, noise_floor)
            }
        }
    }
}

/// Returns the values of the metric with this index of `a` and `b` in each block that has both, in the order of the
/// blocks; the rates where there is no metric. Empty where a treatment always failed.
fn pairs(experiment: &Experiment, a: usize, b: usize, metric: usize) -> Vec<(f64, f64)> {
    if experiment.all_failed(a) || experiment.all_failed(b) {
        return Vec::new();
    }
    let value = |sample: &Sample| metric_value(experiment, sample, metric);
    let by_block: BTreeMap<usize, f64> =
        experiment.samples_of(a).filter_map(|sample| Some((sample.block, value(sample)?))).collect();
    let pair = |sample: &Sample| Some((*by_block.get(&sample.block)?, value(sample)?));
    experiment.samples_of(b).filter_map(pair).collect()
}

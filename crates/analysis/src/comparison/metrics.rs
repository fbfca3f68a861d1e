//! All metrics of a variant beside those of the reference.

use crate::{
    deciding::{Compared, estimator},
    distribution,
};
use manycore_experiment::record::{Direction, Experiment, Metric, Sample};
use manycore_stats::{
    Estimate, Estimator,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;

/// Share by which two ratios differ visibly.
const VISIBLE: f64 = 0.01;

/// One metric of two variants: A is the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricComparison {
    /// The metric.
    pub metric: Metric,
    /// The figure of A: its mean or a quantile where that is the deciding estimator, otherwise its median.
    pub a: Estimate,
    /// The same figure of B.
    pub b: Estimate,
    /// Value of B over value of A by the deciding estimator, from pairs of the same block: 0.625 where B takes that part of the time of A. The
    /// interval of the primary metric is that of the verdict. The other metrics have a 95 % interval each, not corrected for their number.
    pub ratio: Option<Estimate>,
    /// What the interval shows: B is better, worse or equivalent, or the result is inconclusive.
    pub answer: Answer,
}

impl MetricComparison {
    /// Returns the ratio of the medians, B over A, where it is visibly outside of the interval of the ratio of pairs:
    /// the machine was faster in some parts of the run than in others.
    pub fn differing_medians(&self) -> Option<f64> {
        let (low, high) = self.ratio?.interval?;
        let ratio = self.b.median / self.a.median;
        let is_visible = |end: f64| (ratio / end - 1.0).abs() > VISIBLE;
        (ratio.is_finite() && !(low..=high).contains(&ratio) && [low, high].into_iter().all(is_visible))
            .then_some(ratio)
    }

    /// Returns whether the whole interval of the ratio is within `margin`.
    pub fn is_within(&self, margin: f64) -> bool {
        let rule = DecisionRule { margin, ..DecisionRule::default() };
        self.ratio.and_then(|ratio| ratio.interval).is_some_and(|ends| rule.covers(ends))
    }
}

/// Returns all metrics of the treatments `a` and `b`. The first one has the answer of the `verdict`.
pub(super) fn compared(
    experiment: &Experiment,
    treatments: (usize, usize),
    verdict: &Verdict,
) -> Vec<MetricComparison> {
    (0..experiment.metrics.len())
        .filter_map(|index| metric(experiment, treatments, index, (index == 0).then_some(verdict)))
        .collect()
}

fn metric(
    experiment: &Experiment,
    treatments: (usize, usize),
    index: usize,
    primary: Option<&Verdict>,
) -> Option<MetricComparison> {
    let metric = &experiment.metrics[index];
    let value = |sample: &Sample| sample.values.get(index).copied();
    let values =
        |treatment: usize| -> Vec<f64> { experiment.samples_of(treatment).filter_map(value).collect() };
    let (a, b) = (values(treatments.0), values(treatments.1));
    let better = |ratio: f64| if metric.better == Direction::Higher { ratio } else { 1.0 / ratio };
    let rule = DecisionRule {
        margin: DecisionRule::from_parameters(&experiment.parameters).margin,
        ..DecisionRule::default()
    };
    let of_verdict = |verdict: &Verdict| {
        Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs }.map(better)
    };
    let ratio = match (primary, estimator(experiment)) {
        (Some(verdict), _) => Some(of_verdict(verdict)),
        (None, Estimator::Median) => {
            let ratios = experiment.log_ratios_of(treatments.0, treatments.1, value);
            Estimate::from_differences(&ratios, rule.level).map(|ratio| ratio.map(f64::exp))
        }
        (None, estimator) => {
            let compared = Compared::by(experiment, treatments, index, estimator);
            compared.verdict(rule, None).as_ref().map(of_verdict)
        }
    };
    let evaluated = ratio.map(|ratio| rule.decide(ratio.map(better).interval));
    Some(MetricComparison {
        metric: metric.clone(),
        a: distribution::figure(&a, metric, estimator(experiment))?,
        b: distribution::figure(&b, metric, estimator(experiment))?,
        ratio,
        answer: primary.map(|verdict| verdict.answer).or(evaluated).unwrap_or(Answer::Inconclusive),
    })
}

//! Compares two variants, as `manycore compare` does.

use super::{noise, power_analysis, with_factor};
use manycore_experiment::record::{Direction, Experiment, Metric, SAME_NAME, Sample, factor, parameter};
use manycore_stats::{
    Estimate,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;

/// Share by which two ratios differ visibly.
const VISIBLE: f64 = 0.01;

/// Variant B compared with variant A.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Name of A.
    pub a: String,
    /// Name of B.
    pub b: String,
    /// Whether A and B are the same: command, environment, CPUs and memory. Their true ratio is 1, and what the verdict
    /// shows is chance.
    pub same_variants: bool,
    /// B relative to A in the primary metric, as a ratio of rates. A ratio above 1 is better, whichever direction of the
    /// metric is better: 1.6 where B takes 1 / 1.6 = 0.625 of the time of A.
    pub verdict: Verdict,
    /// All metrics, the primary one first.
    pub metrics: Vec<MetricComparison>,
    /// Minimum detectable effect at 80 % power of a run with the planned number of pairs, as a share.
    pub minimum_detectable_effect: Option<f64>,
    /// Total number of pairs with which a new run gives an answer with a probability of 80 %. Present where
    /// the comparison is inconclusive.
    pub pairs_needed: Option<usize>,
    /// Median seconds of one pair.
    pub pair_seconds: f64,
}

/// One metric of both variants.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricComparison {
    /// The metric.
    pub metric: Metric,
    /// Values of A.
    pub a: Estimate,
    /// Values of B.
    pub b: Estimate,
    /// Value of B over value of A, from pairs of the same block: 0.625 where B takes that part of the time of A. The
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
        let within = |end: f64| (1.0 / (1.0 + margin)..=1.0 + margin).contains(&end);
        self.ratio.and_then(|ratio| ratio.interval).is_some_and(|(low, high)| within(low) && within(high))
    }
}

/// Evaluates an experiment with the variants A and B. Returns `None` where one was not measured.
pub fn evaluate(experiment: &Experiment) -> Option<Comparison> {
    let a = with_factor(experiment, factor::VARIANT, "A").next()?;
    let b = with_factor(experiment, factor::VARIANT, "B").next()?;
    let verdict = Verdict::new(
        &experiment.log_ratios(a, b),
        DecisionRule::from_parameters(&experiment.parameters),
        noise_floor(experiment, &[a, b]),
    )?;
    let metrics = (0..experiment.metrics.len())
        .filter_map(|index| compared(experiment, (a, b), index, (index == 0).then_some(&verdict)));
    let name = |index: usize| experiment.treatments[index].name.clone();
    Some(Comparison {
        a: name(a),
        b: name(b),
        // Records of older versions have only the names.
        same_variants: experiment.parameters.contains_key(parameter::SAME_VARIANTS)
            || name(b).strip_suffix(SAME_NAME) == Some(name(a).as_str()),
        metrics: metrics.collect(),
        minimum_detectable_effect: power_analysis::minimum_detectable_effect(&verdict),
        pairs_needed: power_analysis::pairs_needed(&verdict),
        pair_seconds: pair_seconds(experiment),
        verdict,
    })
}

/// Returns the noise floor of the compared variants: the ratio between consecutive runs of the same
/// variant, whose true value is 1. `None` below six such pairs. It does not affect verdicts.
pub(crate) fn noise_floor(experiment: &Experiment, treatments: &[usize]) -> Option<f64> {
    let ratios: Vec<f64> =
        treatments.iter().flat_map(|&treatment| noise::consecutive_ratios(experiment, treatment)).collect();
    let level = DecisionRule::default().level;
    let (low, high) = Estimate::from_differences(&ratios, level)?.map(f64::exp).interval?;
    Some((high - low) / 2.0)
}

/// Returns whether the measurements suffice to stop at an interim analysis: there is an answer or, where a
/// `precision` was requested, half of the interval is no wider than that share.
pub fn is_conclusive_enough(experiment: &Experiment, precision: Option<f64>) -> bool {
    let Some(comparison) = evaluate(experiment) else { return false };
    let verdict = &comparison.verdict;
    match precision {
        Some(precision) => {
            verdict.interval.is_some_and(|(low, high)| (high - low) / 2.0 <= precision * verdict.ratio)
        }
        None => verdict.answer != Answer::Inconclusive,
    }
}

fn pair_seconds(experiment: &Experiment) -> f64 {
    let span = experiment.samples.first().zip(experiment.samples.last());
    let blocks = experiment.samples.iter().map(|sample| sample.block).max().map_or(1, |last| last + 1);
    span.map_or(0.0, |(first, last)| {
        (last.start_ns + last.wall_ns).saturating_sub(first.start_ns) as f64 / 1e9 / blocks as f64
    })
}

fn compared(
    experiment: &Experiment,
    (a, b): (usize, usize),
    index: usize,
    primary: Option<&Verdict>,
) -> Option<MetricComparison> {
    let metric = &experiment.metrics[index];
    let value = |sample: &Sample| sample.values.get(index).copied();
    let values =
        |treatment: usize| -> Vec<f64> { experiment.samples_of(treatment).filter_map(value).collect() };
    let (a, b, ratios) = (values(a), values(b), experiment.log_ratios_of(a, b, value));
    let better = |ratio: f64| if metric.better == Direction::Higher { ratio } else { 1.0 / ratio };
    let rule = DecisionRule {
        margin: DecisionRule::from_parameters(&experiment.parameters).margin,
        ..DecisionRule::default()
    };
    let ratio = match primary {
        Some(verdict) => {
            Some(Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs }.map(better))
        }
        None => Estimate::from_differences(&ratios, rule.level).map(|ratio| ratio.map(f64::exp)),
    };
    let evaluated = ratio.map(|ratio| rule.decide(ratio.map(better).interval));
    Some(MetricComparison {
        metric: metric.clone(),
        a: Estimate::from_samples(&a)?,
        b: Estimate::from_samples(&b)?,
        ratio,
        answer: primary.map(|verdict| verdict.answer).or(evaluated).unwrap_or(Answer::Inconclusive),
    })
}

//! Two things compared: `manycore compare`.

use super::{noise, planning, with_factor};
use manycore_experiment::record::{Better, Experiment, Metric, Sample};
use manycore_stats::{
    Estimate,
    verdict::{Answer, Rule, Verdict},
};
use serde::Serialize;

/// B against A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What A is.
    pub a: String,
    /// What B is.
    pub b: String,
    /// B against A in the primary metric: a ratio above 1 is better, whichever way the metric counts.
    pub verdict: Verdict,
    /// Each metric, the primary one first.
    pub metrics: Vec<Compared>,
    /// Minimum detectable effect at 80 % power of a run of as many pairs as were planned, as a share.
    pub detectable: Option<f64>,
    /// Where the pairs were inconclusive: of how many pairs in all a new run gives an answer with a probability of 80 %.
    pub pairs_needed: Option<usize>,
    /// Median seconds of one pair.
    pub pair_seconds: f64,
}

/// One metric on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Which.
    pub metric: Metric,
    /// Values of A.
    pub a: Estimate,
    /// Values of B.
    pub b: Estimate,
    /// Value of B over value of A, from pairs of the same block. That of the primary metric is the verdict's; the
    /// others have a plain 95 % interval, for each metric alone.
    pub ratio: Option<Estimate>,
    /// What the interval says: B is better or worse, equivalent, or neither is shown.
    pub answer: Answer,
}

/// Judges an experiment with a side A and a side B; absent where one was not measured.
pub fn judge(experiment: &Experiment) -> Option<Comparison> {
    let a = with_factor(experiment, "side", "A").next()?;
    let b = with_factor(experiment, "side", "B").next()?;
    let verdict = Verdict::of(
        &experiment.log_ratios(a, b),
        Rule::of(&experiment.parameters),
        floor(experiment, &[a, b]),
    )?;
    let metrics = (0..experiment.metrics.len())
        .filter_map(|index| compared(experiment, (a, b), index, (index == 0).then_some(&verdict)));
    Some(Comparison {
        a: experiment.treatments[a].name.clone(),
        b: experiment.treatments[b].name.clone(),
        metrics: metrics.collect(),
        detectable: planning::detectable(&verdict),
        pairs_needed: planning::pairs_needed(&verdict),
        pair_seconds: pair_seconds(experiment),
        verdict,
    })
}

/// The noise floor of the very things compared: what neighbouring runs of one and the same side show between
/// them, which is 1 in truth. Absent below six such pairs. For information.
pub(crate) fn floor(experiment: &Experiment, treatments: &[usize]) -> Option<f64> {
    let ratios: Vec<f64> =
        treatments.iter().flat_map(|&treatment| noise::neighbours(experiment, treatment)).collect();
    let level = Rule::default().level;
    let (low, high) = Estimate::of_differences(&ratios, level)?.map(f64::exp).interval?;
    Some((high - low) / 2.0)
}

/// Whether what was measured is enough to stop at an interim analysis: there is an answer, or, where a `precision` was
/// asked for, half of the interval is no wider than that share.
pub fn enough(experiment: &Experiment, precision: Option<f64>) -> bool {
    let Some(comparison) = judge(experiment) else { return false };
    let verdict = &comparison.verdict;
    match precision {
        Some(precision) => {
            verdict.interval.is_some_and(|(low, high)| (high - low) / 2.0 <= precision * verdict.ratio)
        }
        None => verdict.verdict != Answer::Inconclusive,
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
) -> Option<Compared> {
    let metric = &experiment.metrics[index];
    let value = |sample: &Sample| sample.values.get(index).copied();
    let values =
        |treatment: usize| -> Vec<f64> { experiment.samples_of(treatment).filter_map(value).collect() };
    let (a, b, ratios) = (values(a), values(b), experiment.log_ratios_of(a, b, value));
    let better = |ratio: f64| if metric.better == Better::Higher { ratio } else { 1.0 / ratio };
    let rule = Rule { margin: Rule::of(&experiment.parameters).margin, ..Rule::default() };
    let ratio = match primary {
        Some(verdict) => {
            Some(Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs }.map(better))
        }
        None => Estimate::of_differences(&ratios, rule.level).map(|ratio| ratio.map(f64::exp)),
    };
    let judged = ratio.map(|ratio| rule.decide(ratio.map(better).interval));
    Some(Compared {
        metric: metric.clone(),
        a: Estimate::of(&a)?,
        b: Estimate::of(&b)?,
        ratio,
        answer: primary.map(|verdict| verdict.verdict).or(judged).unwrap_or(Answer::Inconclusive),
    })
}

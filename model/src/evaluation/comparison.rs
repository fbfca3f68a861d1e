//! Two things compared: `manycore compare`.

use super::{noise, with_factor};
use crate::{
    record::{Better, Experiment, Metric, Sample},
    stats::Estimate,
    verdict::{Answer, NEGLIGIBLE, Verdict},
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
    /// Planned looks over which the level of the verdict was split.
    pub looks: usize,
    /// Smallest true difference that this many pairs would find in four runs of five.
    pub detectable: Option<f64>,
    /// Where the pairs do not suffice: about how many more would.
    pub more_pairs: Option<usize>,
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
    /// Value of B over value of A, from pairs of the same block; a plain 95 % interval, for each metric alone.
    pub ratio: Option<Estimate>,
}

/// Judges an experiment with a side A and a side B; absent where one was not measured.
pub fn judge(experiment: &Experiment) -> Option<Comparison> {
    let a = with_factor(experiment, "side", "A").next()?;
    let b = with_factor(experiment, "side", "B").next()?;
    let looks = experiment.parameters.get("looks").and_then(|looks| looks.parse().ok()).unwrap_or(1);
    let floor = floor(experiment, &[a, b]);
    let ratios = experiment.log_ratios(a, b);
    let verdict = Verdict::at_look(&ratios, floor, looks)?;
    let metrics = experiment.metrics.iter().enumerate();
    Some(Comparison {
        a: experiment.treatments[a].name.clone(),
        b: experiment.treatments[b].name.clone(),
        metrics: metrics.filter_map(|(index, metric)| compared(experiment, (a, b), index, metric)).collect(),
        looks,
        detectable: floor.zip(half_width(&verdict)).map(|(floor, half)| noise::detectable(floor, half)),
        more_pairs: more_pairs(&verdict),
        pair_seconds: pair_seconds(experiment),
        verdict,
    })
}

/// The noise floor of the very things compared: what neighbouring runs of one and the same side show between
/// them, which is 1 in truth. Absent below six such pairs.
pub(crate) fn floor(experiment: &Experiment, treatments: &[usize]) -> Option<f64> {
    let ratios: Vec<f64> =
        treatments.iter().flat_map(|&treatment| noise::neighbours(experiment, treatment)).collect();
    let (low, high) = Estimate::of(&ratios)?.map(f64::exp).interval?;
    Some((high - low) / 2.0)
}

/// Whether what was measured is enough to stop before the budget is spent: the sides differ for sure, or they
/// surely do not by anything that matters; and the interval is as narrow as `precision` asks, as a share.
pub fn enough(experiment: &Experiment, precision: Option<f64>) -> bool {
    let Some(comparison) = judge(experiment) else { return false };
    let Some(half_width) = half_width(&comparison.verdict) else { return false };
    let clear = match comparison.verdict.verdict {
        Answer::ABetter | Answer::BBetter => true,
        // A true difference just within the limit may still be found with more pairs.
        Answer::NoDifference => widest(&comparison.verdict).is_some_and(|widest| widest <= NEGLIGIBLE / 2.0),
        Answer::NotEnough => false,
    };
    match precision {
        Some(precision) => half_width <= precision,
        None => clear,
    }
}

impl Comparison {
    /// The largest difference that the pairs still admit, as a share.
    pub fn largest_admitted(&self) -> Option<f64> {
        widest(&self.verdict)
    }
}

fn half_width(verdict: &Verdict) -> Option<f64> {
    verdict.interval.map(|(low, high)| (high - low) / 2.0)
}

fn widest(verdict: &Verdict) -> Option<f64> {
    verdict.interval.map(|(low, high)| (1.0 - low).max(high - 1.0))
}

/// Pairs beyond those made until the interval, which narrows with the root of their number, would leave out 1
/// or lie within what is negligible, whichever comes first if the ratio stays.
fn more_pairs(verdict: &Verdict) -> Option<usize> {
    const MOST: f64 = 1e6;
    if verdict.verdict != Answer::NotEnough {
        return None;
    }
    let least = 6.0_f64;
    let Some(half_width) = half_width(verdict) else {
        return Some((least as usize).saturating_sub(verdict.pairs).max(1));
    };
    let effect = (verdict.ratio - 1.0).abs();
    let target = effect.max(NEGLIGIBLE - effect).max(verdict.noise_floor.unwrap_or(0.0) - effect);
    let pairs = verdict.pairs as f64 * (half_width / target).powi(2);
    Some((pairs.min(MOST).ceil() as usize).saturating_sub(verdict.pairs).max(least as usize))
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
    metric: &Metric,
) -> Option<Compared> {
    let value = |sample: &Sample| sample.values.get(index).copied();
    let values =
        |treatment: usize| -> Vec<f64> { experiment.samples_of(treatment).filter_map(value).collect() };
    let ratios = experiment.log_ratios_of(a, b, value);
    Some(Compared {
        metric: metric.clone(),
        a: Estimate::of(&values(a))?,
        b: Estimate::of(&values(b))?,
        ratio: Estimate::of(&ratios).map(|ratio| ratio.map(f64::exp)),
    })
}

impl Compared {
    /// Whether B is better or worse in this metric for sure, each metric taken alone.
    pub fn direction(&self) -> Option<bool> {
        let (low, high) = self.ratio?.interval?;
        let higher = if low > 1.0 {
            true
        } else if high < 1.0 {
            false
        } else {
            return None;
        };
        Some(higher == (self.metric.better == Better::Higher))
    }
}

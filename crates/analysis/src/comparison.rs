//! Compares variants with a reference, as `manycore compare` does, and ranks them.
//!
//! Two families of comparisons hold jointly at 95 % each, by Holm's procedure: all variants against the reference, and
//! all pairs for the ranking. Identical variants give a false claim in at most one of 20 runs, because a pair without
//! the reference is ordered only where one of both is shown to differ from it.

mod metrics;
mod ranking;
mod settling;

pub use metrics::MetricComparison;
use ranking::ProvenOrder;
pub use settling::settling;

use super::{TradeOff, deciding::Compared, distribution, noise, power_analysis, trade_off};
use manycore_experiment::record::{Experiment, SAME_NAME, parameter};
use manycore_stats::{
    Estimate, Estimator, holm_divisors, interim_level, sign_p,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;

/// Variants compared with one of them, the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// All variants, in the order of the command line.
    pub variants: Vec<VariantName>,
    /// The variant with which the others are compared: an index into the treatments of the experiment.
    pub reference: usize,
    /// The other variants that were measured, each compared with the reference. They hold jointly (Holm).
    pub others: Vec<VariantComparison>,
    /// Treatments in groups, best first. The order of any two groups is proven, jointly for all pairs (Holm); within a
    /// group it is not.
    pub ranking: Vec<Vec<usize>>,
    /// The pairs of treatments whose order is proven, jointly for all pairs (Holm): the better one first. Within a group of
    /// the ranking, some pairs may be ordered.
    pub ordered: Vec<(usize, usize)>,
    /// Whether all variants are the same: command, environment, CPUs and memory. Their true ratios are 1, and what the
    /// verdicts show is chance.
    pub same_variants: bool,
    /// Median seconds of one round, in which every variant runs once.
    pub pair_seconds: f64,
}

/// What a variant is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantName {
    /// Index of its treatment.
    pub treatment: usize,
    /// The user's name, or the label: `A`, `B`.
    pub title: String,
    /// What it is: its command with the environment and the placement.
    pub name: String,
}

/// One variant compared with the reference: B is the variant, and A the reference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantComparison {
    /// The variant: an index into the treatments of the experiment.
    pub treatment: usize,
    /// The variant relative to the reference in the primary metric, as a ratio of rates. A ratio above 1 is better,
    /// whichever direction of the metric is better: 1.6 where the variant takes 1 / 1.6 = 0.625 of the time. The level
    /// is that of the interim analysis, divided among the variants (Holm). Where the estimate is inconclusive and a
    /// trade-off is proven, ratio, interval and p-value are those of the median pair ([`TradeOff::median_pair`]).
    pub verdict: Verdict,
    /// Another figure of the distributions that contradicts the verdict: typically faster, and slower on average. Where
    /// the verdict would be a difference or an equivalence, its answer is then `trade_off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trade_off: Option<TradeOff>,
    /// All metrics, the primary one first.
    pub metrics: Vec<MetricComparison>,
    /// Minimum detectable effect at 80 % power of a run with the planned number of pairs, as a share.
    pub minimum_detectable_effect: Option<f64>,
    /// Total number of pairs with which a new run gives an answer with a probability of 80 %. Present where
    /// the comparison is inconclusive.
    pub pairs_needed: Option<usize>,
}

impl Comparison {
    /// Returns what a treatment is called: `B`, or the user's name.
    pub fn title(&self, treatment: usize) -> &str {
        self.of(treatment).map_or("", |variant| &variant.title)
    }

    /// Returns what a treatment is: its command with the environment and the placement.
    pub fn name(&self, treatment: usize) -> &str {
        self.of(treatment).map_or("", |variant| &variant.name)
    }

    /// Returns one more than the number of variants that are proven to be better.
    pub fn place(&self, treatment: usize) -> usize {
        1 + self.ordered.iter().filter(|(_, worse)| *worse == treatment).count()
    }

    /// Returns the rounds that an order of all variants needs at least, where fewer were measured.
    pub fn rounds_for_order(&self) -> Option<usize> {
        let (first, count) = (self.others.first()?, self.others.len() + 1);
        let rule = first.verdict.rule;
        let level = interim_level(rule.analysis, rule.analyses) / (count * (count - 1) / 2) as f64;
        let needed = self.estimator().least_pairs(level);
        let measured = self.others.iter().map(|other| other.verdict.pairs).min()?;
        (measured < needed).then_some(needed)
    }

    /// Returns whether that many pairs take more than a day, which is no advice.
    pub(crate) fn is_endless(&self, pairs: usize) -> bool {
        const DAY: f64 = 86_400.0;
        pairs as f64 * self.pair_seconds > DAY
    }

    fn of(&self, treatment: usize) -> Option<&VariantName> {
        self.variants.iter().find(|variant| variant.treatment == treatment)
    }

    /// Returns the only other variant where two were compared.
    pub fn only_other(&self) -> Option<&VariantComparison> {
        match (self.variants.len(), self.others.as_slice()) {
            (..=2, [other]) => Some(other),
            _ => None,
        }
    }

    /// Returns the estimator that decides.
    pub fn estimator(&self) -> Estimator {
        self.others.first().map(|other| other.verdict.estimator).unwrap_or_default()
    }

    /// Returns the pairs with which all comparisons have an answer with a probability of 80 %; `None` where all of
    /// them have one.
    pub fn pairs_needed(&self) -> Option<usize> {
        self.others.iter().filter_map(|other| other.pairs_needed).max()
    }
}

/// Evaluates an experiment with variants. Returns `None` where the reference or all others were not measured.
pub fn evaluate(experiment: &Experiment) -> Option<Comparison> {
    let reference = experiment.reference()?;
    let variants: Vec<usize> = experiment.variants().collect();
    let others: Vec<VariantComparison> = against(experiment, reference, &variants)
        .into_iter()
        .map(|(treatment, verdict)| compared(experiment, reference, treatment, verdict))
        .collect();
    if others.is_empty() {
        return None;
    }
    let name = |&treatment: &usize| VariantName {
        treatment,
        title: experiment.treatments[treatment].title().to_owned(),
        name: experiment.treatments[treatment].name.clone(),
    };
    let order = ProvenOrder::new(experiment, reference, &others);
    Some(Comparison {
        variants: variants.iter().map(name).collect(),
        reference,
        ranking: order.groups(reference, &others),
        ordered: order.pairs(),
        others,
        same_variants: are_same(experiment, &variants),
        pair_seconds: pair_seconds(experiment),
    })
}

fn compared(
    experiment: &Experiment,
    reference: usize,
    treatment: usize,
    mut verdict: Verdict,
) -> VariantComparison {
    let trade_off = trade_off_of(experiment, (reference, treatment), &verdict);
    let is_shown = |found: &TradeOff| verdict.answer != Answer::Inconclusive || found.median_pair.is_some();
    if let Some(found) = trade_off.filter(is_shown) {
        verdict.answer = Answer::TradeOff;
        // The median pair is the typical one there, so it is the ratio of the answer, of tables and of gates.
        if let Some(rates) = found.median_pair {
            (verdict.ratio, verdict.interval) = (rates.median, rates.interval);
            verdict.p = sign_p(&experiment.log_ratios(reference, treatment));
        }
    }
    VariantComparison {
        treatment,
        trade_off,
        metrics: metrics::compared(experiment, (reference, treatment), &verdict),
        minimum_detectable_effect: power_analysis::minimum_detectable_effect(&verdict),
        pairs_needed: power_analysis::pairs_needed(&verdict),
        verdict,
    }
}

fn trade_off_of(experiment: &Experiment, treatments: (usize, usize), verdict: &Verdict) -> Option<TradeOff> {
    trade_off::find(experiment, treatments, verdict, |treatment| {
        distribution::worse_runs(experiment, treatment)
    })
}

/// Returns whether all variants are the same. Records of older versions have only the names.
fn are_same(experiment: &Experiment, variants: &[usize]) -> bool {
    let name = |&index: &usize| experiment.treatments[index].name.as_str();
    let same_names = || match variants {
        [a, b] => name(b).strip_suffix(SAME_NAME) == Some(name(a)),
        _ => false,
    };
    experiment.parameters.contains_key(parameter::SAME_VARIANTS) || same_names()
}

/// Returns the verdict of each of the `treatments` on the reference, jointly at the level of the analysis (Holm). The
/// reference itself, and treatments that were not measured or always failed, have none.
pub(crate) fn against(
    experiment: &Experiment,
    reference: usize,
    treatments: &[usize],
) -> Vec<(usize, Verdict)> {
    let rule = DecisionRule::from_parameters(&experiment.parameters);
    let others = treatments.iter().copied().filter(|&treatment| treatment != reference);
    let ratios: Vec<(usize, Compared)> = others
        .map(|treatment| (treatment, Compared::primary(experiment, reference, treatment)))
        .filter(|(_, ratios)| !ratios.is_empty())
        .collect();
    let p_values: Vec<f64> = ratios.iter().map(|(_, ratios)| ratios.p()).collect();
    let floor = noise_floor(experiment, treatments);
    let divisors = holm_divisors(&p_values, rule.level);
    let verdicts = ratios.into_iter().zip(divisors).filter_map(|((treatment, ratios), divisor)| {
        Some((treatment, ratios.verdict(rule.divided_by(divisor), floor)?))
    });
    verdicts.collect()
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

/// Returns whether the measurements suffice to stop at an interim analysis: all comparisons with the reference have an
/// answer or, where a `precision` was requested, half of each interval is no wider than that share. A trade-off that is
/// likely and not proven is no answer yet.
pub fn is_conclusive_enough(experiment: &Experiment, precision: Option<f64>) -> bool {
    let Some(reference) = experiment.reference() else { return false };
    let is_settled = |treatment: usize, verdict: &Verdict| {
        let trade_off = trade_off_of(experiment, (reference, treatment), verdict);
        trade_off.is_none_or(|trade_off| trade_off.is_proven)
    };
    let suffices = |&(treatment, ref verdict): &(usize, Verdict)| match precision {
        Some(precision) => {
            verdict.interval.is_some_and(|(low, high)| (high - low) / 2.0 <= precision * verdict.ratio)
        }
        None => verdict.answer != Answer::Inconclusive && is_settled(treatment, verdict),
    };
    let variants: Vec<usize> = experiment.variants().collect();
    let all = against(experiment, reference, &variants);
    !all.is_empty() && all.iter().all(suffices)
}

fn pair_seconds(experiment: &Experiment) -> f64 {
    let span = experiment.samples.first().zip(experiment.samples.last());
    let blocks = experiment.samples.iter().map(|sample| sample.block).max().map_or(1, |last| last + 1);
    span.map_or(0.0, |(first, last)| {
        (last.start_ns + last.wall_ns).saturating_sub(first.start_ns) as f64 / 1e9 / blocks as f64
    })
}

#[cfg(test)]
mod tests;

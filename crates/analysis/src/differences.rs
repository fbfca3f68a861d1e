//! What differs between two records: a ratio with its interval and a verdict for each figure that both have.
//!
//! The records were not interleaved, so there are no pairs. Samples of one record that follow each other are not
//! independent either: a neighbour that works for a second disturbs many of them. Each record's samples of a figure are
//! therefore divided into at most [`STRETCHES`] stretches of consecutive samples. The medians of the stretches are
//! compared by the rank-sum test ([`Estimate::from_independent`]). All figures are corrected with Holm's procedure:
//! at most one comparison of two records in twenty shows a difference where there is none.
//!
//! A difference is one between the two runs. It includes all that changed in between: settings, other work, the
//! hypervisor's choice of cores. A result whose experiment was disturbed beyond the limits of advice is marked.

mod figures;

use crate::disturbance::Disturbance;
use figures::{Figure, figures};
use manycore_experiment::{
    Record,
    record::{Direction, Experiment},
};
use manycore_stats::{
    Estimate, FAMILY_LEVEL, holm_divisors, rank_sum_p,
    verdict::{Answer, DecisionRule},
};
use serde::Serialize;

/// Maximum number of stretches of consecutive samples. Their medians are the values that are compared.
pub const STRETCHES: usize = 12;

/// Largest absolute logarithm: where a median is 0, it ranks below all others.
const MAX_LOG: f64 = 50.0;

/// The differences of one record from another.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordDifferences {
    /// One entry for each figure that both records have: what is different first, the largest ratio first.
    pub figures: Vec<FigureDifference>,
    /// Experiments that both records have but that measured different work, and how it differs.
    pub not_compared: Vec<String>,
}

/// How a figure of the second record differs from that of the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FigureDifference {
    /// Section of the report, as in [`crate::Finding::topic`].
    pub topic: &'static str,
    /// What was measured: `scaling, 2 workers`.
    pub what: String,
    /// Unit of the medians: `events/s`.
    pub unit: String,
    /// Which direction is better.
    pub better: Direction,
    /// Medians of the first and the second record, in `unit`.
    pub medians: [f64; 2],
    /// The figure of the second record divided by that of the first (Hodges-Lehmann).
    pub ratio: f64,
    /// Interval of the ratio at the level of the decision. `None` where there are too few samples.
    pub interval: Option<(f64, f64)>,
    /// What the interval shows.
    pub change: Change,
    /// Numbers of independent values (stretches) in each record.
    pub stretches: [usize; 2],
    /// Other work, steal time or a quota that was above the limit of advice in one of the records, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<String>,
}

/// What the interval of a ratio shows about the second record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is worse.
    Worse,
    /// It is better.
    Better,
    /// Too few samples, or too much scatter, for a decision.
    Inconclusive,
    /// The interval lies within the margin of equivalence, and neither is shown to be better.
    Equivalent,
}

impl RecordDifferences {
    /// Compares `second` with `first`. `margin` is the difference that does not matter, as a share.
    pub fn between(first: &Record, second: &Record, margin: f64) -> Self {
        let mut differences = Self::default();
        let mut compared: Vec<ComparedFigure> = Vec::new();
        for old in &first.experiments {
            let Some(new) = second.experiment(&old.id) else { continue };
            match figures(old, first, new, second) {
                Ok(figures) => {
                    let disturbed = disturbance([(old, first), (new, second)]);
                    compared
                        .extend(figures.into_iter().map(|figure| ComparedFigure::new(figure, &disturbed)));
                }
                Err(why) => differences.not_compared.push(format!("{}: {why}", old.id)),
            }
        }
        let p: Vec<f64> = compared.iter().map(|one| one.p).collect();
        let divisors = holm_divisors(&p, FAMILY_LEVEL);
        let rule = DecisionRule { margin, ..DecisionRule::default() };
        let decided = compared.into_iter().zip(divisors);
        differences.figures =
            decided.filter_map(|(one, divisor)| one.decide(rule.divided_by(divisor))).collect();
        differences.figures.sort_by(|a, b| {
            let size = |one: &FigureDifference| one.ratio.ln().abs();
            rank(a.change).cmp(&rank(b.change)).then(size(b).total_cmp(&size(a)))
        });
        differences
    }

    /// Returns the figures that differ.
    pub fn changed(&self) -> impl Iterator<Item = &FigureDifference> {
        self.figures.iter().filter(|figure| matches!(figure.change, Change::Better | Change::Worse))
    }
}

/// Order of the list: differences, what may be one, what is equivalent.
fn rank(change: Change) -> u8 {
    match change {
        Change::Better | Change::Worse => 0,
        Change::Inconclusive => 1,
        Change::Equivalent => 2,
    }
}

/// A figure of both records with its test.
struct ComparedFigure {
    figure: Figure,
    /// Logarithms of the medians of the stretches of each record.
    logs: [Vec<f64>; 2],
    p: f64,
    disturbed: Vec<String>,
}

impl ComparedFigure {
    fn new(figure: Figure, disturbed: &[String]) -> Self {
        let logs = figure.values.each_ref().map(|values| stretch_medians(values));
        let p = rank_sum_p(&logs[0], &logs[1]);
        Self { figure, logs, p, disturbed: disturbed.to_vec() }
    }

    /// `None` where a record has no usable value.
    fn decide(self, rule: DecisionRule) -> Option<FigureDifference> {
        let [first, second] = &self.logs;
        let ratio = Estimate::from_independent(first, second, rule.level)?.map(f64::exp);
        let change = match (rule.decide(ratio.interval), self.figure.better) {
            (Answer::BBetter, Direction::Higher) | (Answer::ABetter, Direction::Lower) => Change::Better,
            (Answer::ABetter, Direction::Higher) | (Answer::BBetter, Direction::Lower) => Change::Worse,
            (Answer::Equivalent, _) => Change::Equivalent,
            (Answer::Inconclusive, _) => Change::Inconclusive,
        };
        let [old, new] = self.figure.values.each_ref().map(|values| manycore_stats::median(values));
        Some(FigureDifference {
            topic: self.figure.topic,
            what: self.figure.what,
            unit: self.figure.unit,
            better: self.figure.better,
            medians: [old?, new?],
            ratio: ratio.median,
            interval: ratio.interval,
            change,
            stretches: [first.len(), second.len()],
            disturbed: self.disturbed,
        })
    }
}

/// Returns the median of each stretch of consecutive values, as a logarithm.
fn stretch_medians(values: &[f64]) -> Vec<f64> {
    let stretches = values.len().min(STRETCHES);
    // Ends of the stretches, whose lengths differ by at most one.
    let end = |stretch: usize| stretch * values.len() / stretches.max(1);
    let medians = (0..stretches).filter_map(|one| manycore_stats::median(&values[end(one)..end(one + 1)]));
    medians.map(|median| median.ln().max(-MAX_LOG)).collect()
}

/// Returns what exceeded the limits of advice in one of the runs of an experiment.
fn disturbance(runs: [(&Experiment, &Record); 2]) -> Vec<String> {
    let names = ["first", "second"];
    let of = |(name, (experiment, record)): (&str, (&Experiment, &Record))| {
        let exceeded = Disturbance::of_experiments([experiment], record).exceeded_limits();
        exceeded.into_iter().map(|what| format!("{name} record: {what}")).collect::<Vec<_>>()
    };
    names.into_iter().zip(runs).flat_map(of).collect()
}

#[cfg(test)]
mod tests;

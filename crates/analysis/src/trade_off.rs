//! A variant that is better by one figure of its distribution and worse by another one.

use crate::{deciding::Compared, distribution::WorseRuns};
use manycore_experiment::record::{Direction, Experiment};
use manycore_stats::{
    Estimate, Estimator, FAMILY_LEVEL,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;

/// Two-sided level of an interval that makes a trade-off likely: the true ratio is on the other side in one of ten cases.
const LIKELY_LEVEL: f64 = 0.2;

/// Two-sided level of a trade-off where the deciding figure shows no difference. Then the trade-off is a claim of its own,
/// which must add next to nothing to the false claims of a comparison.
const ALONE_LEVEL: f64 = 0.005;

/// The figures that are held against the deciding one, the most important first.
const OTHERS: [Estimator; 5] =
    [Estimator::Mean, Estimator::P99, Estimator::P95, Estimator::P90, Estimator::Median];

/// Another figure that contradicts the deciding one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TradeOff {
    /// The figure that contradicts.
    pub estimator: Estimator,
    /// Value of B over value of A by that figure, with its interval.
    pub ratio: Estimate,
    /// Confidence of that interval: 0.95 where the contradiction is proven, 0.8 where it is likely, 0.995 where the
    /// deciding figure shows no difference.
    pub confidence: f64,
    /// Whether B is the worse one by that figure.
    pub b_is_worse: bool,
    /// Whether it is proven and not only likely.
    pub is_proven: bool,
    /// Rate of B over rate of A in the median pair, with its exact interval at the level of the verdict, where that shows
    /// the opposite and the deciding estimate is inconclusive: it is pulled by the runs that make the difference.
    pub median_pair: Option<Estimate>,
    /// The runs that make the difference, of the variant with the worse tail: see [`TradeOff::b_has_worse_tail`].
    pub worse_runs: Option<WorseRuns>,
}

impl TradeOff {
    /// Returns whether the runs that make the difference are those of B. The variant that is worse by the mean or a
    /// quantile has them; where the median contradicts one of these, the other variant has.
    pub fn b_has_worse_tail(&self) -> bool {
        b_has_worse_tail(self.estimator, self.b_is_worse)
    }
}

fn b_has_worse_tail(estimator: Estimator, b_is_worse: bool) -> bool {
    b_is_worse != (estimator == Estimator::Median)
}

/// Returns the figure that most clearly contradicts `verdict`, which compares `a` and `b` in the primary metric.
/// `worse_runs` are those of a treatment. `None` where no other figure does.
pub(crate) fn find(
    experiment: &Experiment,
    (a, b): (usize, usize),
    verdict: &Verdict,
    worse_runs: impl Fn(usize) -> Option<WorseRuns>,
) -> Option<TradeOff> {
    verdict.interval?;
    let found = |level: f64, is_proven: bool| {
        let others = OTHERS.into_iter().filter(|other| *other != verdict.estimator);
        let (estimator, other, b_is_worse) = others
            .filter_map(|estimator| {
                let rule = DecisionRule { level, ..verdict.rule };
                let other = Compared::by(experiment, (a, b), 0, estimator).verdict(rule, None)?;
                Some((estimator, contradicts(verdict.answer, &other)?, other))
            })
            .map(|(estimator, b_is_worse, other)| (estimator, other, b_is_worse))
            .next()?;
        let is_rate = experiment.metrics.first().is_none_or(|metric| metric.better == Direction::Higher);
        let in_values = |ratio: f64| if is_rate { ratio } else { 1.0 / ratio };
        Some(TradeOff {
            estimator,
            ratio: Estimate { median: other.ratio, interval: other.interval, n: other.pairs }.map(in_values),
            confidence: 1.0 - level,
            b_is_worse,
            is_proven,
            median_pair: (verdict.answer == Answer::Inconclusive)
                .then(|| median_pair(experiment, (a, b), b_is_worse, verdict.rule.level))
                .flatten(),
            worse_runs: worse_runs(if b_has_worse_tail(estimator, b_is_worse) { b } else { a }),
        })
    };
    if verdict.is_different() {
        found(FAMILY_LEVEL, true).or_else(|| found(LIKELY_LEVEL, false))
    } else {
        found(ALONE_LEVEL, true)
    }
}

/// Returns the ratio of rates in the median pair where it shows the opposite of a figure by which B is the worse one, or
/// not: the order-statistic interval at the level of the verdict, which the pairs of a fifth do not pull.
fn median_pair(
    experiment: &Experiment,
    (a, b): (usize, usize),
    b_is_worse: bool,
    level: f64,
) -> Option<Estimate> {
    let ratios = experiment.log_ratios(a, b);
    let found = Estimate {
        median: manycore_stats::median(&ratios)?,
        interval: manycore_stats::median_interval(&ratios, 1.0 - level),
        n: ratios.len(),
    };
    let (low, high) = found.interval?;
    let is_opposite = if b_is_worse { low > 0.0 } else { high < 0.0 };
    is_opposite.then(|| found.map(f64::exp))
}

/// Returns whether B is the worse one by another figure that says something else than the deciding answer, by more than
/// the margin. `None` where it does not contradict.
fn contradicts(answer: Answer, other: &Verdict) -> Option<bool> {
    let b_is_worse = match (answer, other.answer) {
        (Answer::BBetter | Answer::Equivalent | Answer::Inconclusive, Answer::ABetter) => true,
        (Answer::ABetter | Answer::Equivalent | Answer::Inconclusive, Answer::BBetter) => false,
        _ => return None,
    };
    let margin = 1.0 + other.rule.margin;
    let is_beyond = if b_is_worse { other.ratio < 1.0 / margin } else { other.ratio > margin };
    is_beyond.then_some(b_is_worse)
}

#[cfg(test)]
mod tests;

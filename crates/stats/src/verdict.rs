//! Decides whether B is better than A, and by how much: the one decision rule of all subcommands.
//!
//! The pairs give a ratio with an interval: that of Hodges and Lehmann, unless another [`Estimator`] was chosen. The
//! interval decides:
//!
//! 1. It excludes 1: one variant is **better**, however small the difference. Where the whole interval also
//!    lies within the margin, the difference is real and too small to matter ([`Verdict::is_within_margin`]).
//! 2. Otherwise, it lies within a margin that was fixed beforehand: the two are **equivalent**.
//! 3. Otherwise, the pairs are **inconclusive**, and the interval contains the ratios that remain possible.
//!
//! The margin does not depend on the data. It is not the noise floor: noisy pairs would widen
//! that until their own interval fits.

use crate::{Estimate, Estimator, WorseTail, interim_level, signed_rank_p};
use manycore_text::units::{interval, percent};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Margin of equivalence, unless another one is requested.
pub const EQUIVALENCE_MARGIN: f64 = 0.02;

/// Names of an experiment's parameters that hold the rule.
pub mod parameter {
    /// The margin of equivalence, as a share.
    pub const MARGIN: &str = "equivalent";
    /// Number of planned interim analyses, including the last one.
    pub const ANALYSES: &str = "analyses";
    /// The analysis at which the experiment ended, from 1.
    pub const ANALYSIS: &str = "analysis";
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A does more work per second.
    ABetter,
    /// B does more work per second.
    BBetter,
    /// Neither is shown to be better, and any difference is within the margin.
    Equivalent,
    /// There are too few pairs, or they scatter too much, for a decision.
    Inconclusive,
    /// One variant is better by the estimator that decides, and worse by another one: typically faster, and slower on
    /// average. No interval alone gives this answer.
    TradeOff,
}

/// The decision rule of a verdict, fixed before the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionRule {
    /// Largest difference that does not matter, as a share: 0.02 for ratios from 1/1.02 to 1.02.
    pub margin: f64,
    /// Two-sided level of the interval and its test, at this analysis and for this comparison.
    pub level: f64,
    /// Number of this planned interim analysis, from 1.
    pub analysis: usize,
    /// Number of planned interim analyses, including the last one.
    pub analyses: usize,
}

impl Default for DecisionRule {
    fn default() -> Self {
        Self::at_analysis(1, 1)
    }
}

impl DecisionRule {
    /// Returns the rule at one of the planned interim analyses, with the default margin.
    pub fn at_analysis(which: usize, analyses: usize) -> Self {
        Self { margin: EQUIVALENCE_MARGIN, level: interim_level(which, analyses), analysis: which, analyses }
    }

    /// Returns the rule with which an experiment with these `parameters` was planned, at its current or last
    /// analysis.
    pub fn from_parameters(parameters: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| parameters.get(name)?.parse::<usize>().ok();
        let margin = parameters.get(parameter::MARGIN).and_then(|margin| margin.parse().ok());
        let rule = number(parameter::ANALYSES).map_or_else(Self::default, |analyses| {
            let analyses = analyses.max(1);
            Self::at_analysis(number(parameter::ANALYSIS).unwrap_or(analyses).clamp(1, analyses), analyses)
        });
        Self { margin: margin.filter(|margin: &f64| *margin > 0.0).unwrap_or(EQUIVALENCE_MARGIN), ..rule }
    }

    /// Returns the rule for one of several comparisons that must hold jointly, with the `divisor` from
    /// [`crate::holm_divisors`].
    pub fn divided_by(self, divisor: usize) -> Self {
        Self { level: self.level / divisor.max(1) as f64, ..self }
    }

    /// Returns whether all ratios from `low` to `high` are within the margin.
    pub fn covers(&self, (low, high): (f64, f64)) -> bool {
        low >= 1.0 / (1.0 + self.margin) && high <= 1.0 + self.margin
    }

    /// Returns the answer that an interval of the ratio gives.
    pub fn decide(&self, interval: Option<(f64, f64)>) -> Answer {
        match interval {
            Some((low, _)) if low > 1.0 => Answer::BBetter,
            Some((_, high)) if high < 1.0 => Answer::ABetter,
            Some(ends) if self.covers(ends) => Answer::Equivalent,
            _ => Answer::Inconclusive,
        }
    }
}

/// The result of a comparison of B with A.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The answer.
    pub answer: Answer,
    /// What was compared: the typical pair, the mean, or a tail.
    #[serde(default)]
    pub estimator: Estimator,
    /// Rate of B over rate of A, by the estimator: for the median, the Hodges-Lehmann estimate over the pairs.
    pub ratio: f64,
    /// Interval of the ratio, from the deciding test at its level. `None` where there are too few pairs.
    pub interval: Option<(f64, f64)>,
    /// Number of pairs.
    pub pairs: usize,
    /// Two-sided p-value of the deciding test: the smallest level at which the interval would exclude 1.
    pub p: f64,
    /// The decision rule. Together with the interval it reproduces the answer.
    pub rule: DecisionRule,
    /// Largest relative difference that this machine shows between two identical variants, where it was
    /// measured. It does not affect verdicts.
    pub noise_floor: Option<f64>,
}

impl Verdict {
    /// Evaluates pairs given as ln(rate of B / rate of A). Returns `None` where there are none.
    pub fn new(log_ratios: &[f64], rule: DecisionRule, noise_floor: Option<f64>) -> Option<Self> {
        let ratio = Estimate::from_differences(log_ratios, rule.level)?.map(f64::exp);
        Some(Self {
            answer: rule.decide(ratio.interval),
            estimator: Estimator::Median,
            ratio: ratio.median,
            interval: ratio.interval,
            pairs: ratio.n,
            p: signed_rank_p(log_ratios),
            rule,
            noise_floor,
        })
    }

    /// Evaluates `pairs` (A, B) of values of a metric by an `estimator`. `worse` says which direction is worse, and so
    /// which tail is compared; the ratio is one of rates in any case, above 1 where B is better. Returns `None` where
    /// there is nothing to compare.
    pub fn by(
        estimator: Estimator,
        pairs: &[(f64, f64)],
        worse: WorseTail,
        rule: DecisionRule,
        noise_floor: Option<f64>,
    ) -> Option<Self> {
        let sign = if worse == WorseTail::Upper { -1.0 } else { 1.0 };
        let ratio = estimator.log_ratio(pairs, worse, rule.level)?.map(|log| (sign * log).exp());
        Some(Self {
            answer: rule.decide(ratio.interval),
            estimator,
            ratio: ratio.median,
            interval: ratio.interval,
            pairs: ratio.n,
            p: estimator.p(pairs, worse),
            rule,
            noise_floor,
        })
    }

    /// Returns whether one variant is shown to be better.
    pub fn is_different(&self) -> bool {
        matches!(self.answer, Answer::ABetter | Answer::BBetter)
    }

    /// Returns whether the whole interval is within the margin: equivalent, or different by too little to
    /// matter.
    pub fn is_within_margin(&self) -> bool {
        self.interval.is_some_and(|ends| self.rule.covers(ends))
    }

    /// Returns whether B is better by more than the margin for every ratio in the interval.
    pub fn is_better_beyond_margin(&self) -> bool {
        self.interval.is_some_and(|(low, _)| low > 1.0 + self.rule.margin)
    }

    /// Returns whether B is worse by more than the margin for every ratio in the interval.
    pub fn is_worse_beyond_margin(&self) -> bool {
        self.interval.is_some_and(|(_, high)| high < 1.0 / (1.0 + self.rule.margin))
    }

    /// Formats the ratio with its interval, pairs and floor:
    /// `1.031 (95 %: 1.022 to 1.040; 40 pairs; noise floor 0.4 %)`.
    pub fn ratio_in_words(&self) -> String {
        let ends = interval(self.interval, |end| format!("{end:.3}"));
        let floor = self.noise_floor.map(|floor| format!("; noise floor {}", percent(floor)));
        format!("{:.3} ({ends}; {} pairs{})", self.ratio, self.pairs, floor.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;

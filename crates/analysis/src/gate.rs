//! Gates: limits for a difference, which a pipeline checks, such as `slower > 3%`.
//!
//! A gate fails only where its interval lies beyond the limit, and passes only where it lies within. All other results
//! are inconclusive, and the user has decided beforehand what they count as.

use crate::{
    Comparison,
    differences::{RecordDifferences, TOO_FEW},
    wording::{ChangeWording, percent},
};
use manycore_experiment::{
    metric::MEMORY_ALIAS,
    record::{Direction, GateDecision, GateOutcome, Metric},
};
use manycore_stats::verdict::Answer;
use std::{fmt, str::FromStr};

/// The forms of a gate, for errors and help.
pub const GATE_FORMS: &str = "'slower > 3%' (the primary metric), 'p99 > 10%' (a metric of which less is better grows), \
                              'requests < -5%' (one of which more is better falls)";

/// Words for the primary metric.
const PRIMARY: [&str; 2] = ["slower", "worse"];

/// Another name of a metric, as other tools have it.
const ALIASES: [(&str, &str); 1] = [(MEMORY_ALIAS, "memory")];

/// A limit for a difference. Displayed ([`fmt::Display`]) as it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    given: String,
    /// `None` for the primary metric.
    metric: Option<String>,
    /// The ratio beyond which the gate fails: 1.03, or 0.95 for a fall.
    limit: f64,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what}; write {GATE_FORMS}");
        let at = given.rfind(['>', '<']).ok_or_else(|| wrong("a gate has a name, > or <, and a limit"))?;
        let (name, limit) = (given[..at].trim(), given[at + 1..].trim());
        let number = limit.strip_suffix('%').ok_or_else(|| wrong("the limit of a gate is in percent"))?;
        let share = number.trim().parse::<f64>().map_err(|_| wrong("the limit is not a number"))? / 100.0;
        let falls = given[at..].starts_with('<');
        let is_valid = if falls { -1.0 < share && share < 0.0 } else { (0.0..=100.0).contains(&share) };
        if !is_valid {
            return Err(wrong(if falls {
                "a limit behind < is between -100% and 0%"
            } else {
                "a limit behind > is from 0% to 10000%"
            }));
        }
        let is_primary = PRIMARY.contains(&name);
        match name {
            "" => return Err(wrong("the gate names no metric")),
            _ if is_primary && falls => return Err(wrong("a primary metric is 'slower > LIMIT'")),
            _ => {}
        }
        let metric = (!is_primary).then(|| name.to_owned());
        Ok(Self { given: given.trim().to_owned(), metric, limit: 1.0 + share })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.given)
    }
}

/// A difference to which gates apply.
#[derive(Clone, Debug)]
pub struct GatedFigure {
    what: String,
    metric: Metric,
    is_primary: bool,
    ratio: f64,
    interval: Option<(f64, f64)>,
    /// Why there is no interval.
    no_interval: String,
    /// Whether another figure of the distributions is worse: then the gate is not passed.
    is_worse_otherwise: bool,
}

impl GatedFigure {
    /// Returns the metrics of all variants against the reference.
    pub fn of_comparison(comparison: &Comparison) -> Vec<Self> {
        let reference = comparison.title(comparison.reference);
        let of_variant = |other: &crate::VariantComparison| {
            let what = format!("{} against {reference}", comparison.title(other.treatment));
            let figure = |(index, compared): (usize, &crate::MetricComparison)| Self {
                what: what.clone(),
                metric: compared.metric.clone(),
                is_primary: index == 0,
                ratio: compared.ratio.map_or(f64::NAN, |ratio| ratio.median),
                interval: compared.ratio.and_then(|ratio| ratio.interval),
                no_interval: TOO_FEW.to_owned(),
                is_worse_otherwise: index == 0
                    && other.verdict.answer == Answer::TradeOff
                    && other.trade_off.is_some_and(|found| found.b_is_worse),
            };
            other.metrics.iter().enumerate().map(figure).collect::<Vec<_>>()
        };
        comparison.others.iter().flat_map(of_variant).collect()
    }

    /// Returns the figures of stored records.
    pub fn of_records(differences: &RecordDifferences) -> Vec<Self> {
        let figure = |one: &crate::differences::FigureDifference| Self {
            what: format!("{}, against the baseline", one.what),
            metric: Metric { name: one.metric.clone(), unit: one.unit.clone(), better: one.better },
            is_primary: one.is_primary,
            ratio: one.ratio,
            interval: one.interval,
            no_interval: one.no_interval.clone().unwrap_or_default(),
            is_worse_otherwise: false,
        };
        differences.figures.iter().map(figure).collect()
    }
}

/// Decides all gates. An inconclusive one is a failure where `inconclusive_fails`.
///
/// # Errors
/// A gate that names no metric of the figures, or one whose direction is not that of its metric, in words.
pub fn decide(
    gates: &[Gate],
    figures: &[GatedFigure],
    inconclusive_fails: bool,
) -> Result<Vec<GateDecision>, String> {
    let mut decisions = Vec::new();
    for gate in gates {
        for figure in gate.figures(figures)? {
            decisions.push(gate.decide(figure, inconclusive_fails));
        }
    }
    Ok(decisions)
}

/// Checks that gates name one of these metrics, and in its direction, before anything is measured.
///
/// # Errors
/// The gate, and the names that there are or the right direction.
pub fn check(gates: &[Gate], metrics: &[Metric]) -> Result<(), String> {
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    gates.iter().try_for_each(|gate| {
        let Some(name) = &gate.metric else { return Ok(()) };
        let meant = metrics.iter().find(|metric| metric.name == resolved(name, &names));
        meant.map_or_else(|| Err(gate.unknown(&names)), |metric| gate.check_direction(metric.better))
    })
}

/// Returns the metric that a name stands for.
fn resolved<'a>(name: &'a str, names: &[&str]) -> &'a str {
    let alias = ALIASES.into_iter().find(|(alias, _)| *alias == name && !names.contains(alias));
    alias.map_or(name, |(_, metric)| metric)
}

impl Gate {
    fn unknown(&self, names: &[&str]) -> String {
        let mut known: Vec<&str> = Vec::new();
        for name in names.iter().filter(|name| !name.is_empty()) {
            if !known.contains(name) {
                known.push(name);
            }
        }
        let name = self.metric.as_deref().unwrap_or_default();
        let known = if known.is_empty() { "'slower' only".to_owned() } else { known.join(", ") };
        format!("the gate '{self}' names no metric: there is no {name} here; there is {known}")
    }

    /// Returns the figures to which the gate applies: at least one.
    fn figures<'a>(&self, figures: &'a [GatedFigure]) -> Result<Vec<&'a GatedFigure>, String> {
        let names: Vec<&str> = figures.iter().map(|figure| figure.metric.name.as_str()).collect();
        let is_meant = |figure: &&GatedFigure| match &self.metric {
            None => figure.is_primary,
            Some(name) => figure.metric.name == resolved(name, &names),
        };
        let found: Vec<&GatedFigure> = figures.iter().filter(is_meant).collect();
        let Some(first) = found.first() else { return Err(self.unknown(&names)) };
        self.check_direction(first.metric.better).map(|()| found)
    }

    fn check_direction(&self, better: Direction) -> Result<(), String> {
        let falls = self.limit < 1.0;
        match (&self.metric, better) {
            (Some(name), Direction::Higher) if !falls => Err(format!(
                "the gate '{self}' would fail where {name} improves, of which more is better: write '{name} < -5%'"
            )),
            (Some(name), Direction::Lower) if falls => Err(format!(
                "the gate '{self}' would fail where {name} improves, of which less is better: write '{name} > 5%'"
            )),
            _ => Ok(()),
        }
    }

    fn decide(&self, figure: &GatedFigure, inconclusive_fails: bool) -> GateDecision {
        // The ratio of the metric that is compared with the limit: slower is a longer time, or the reciprocal of a rate.
        let is_inverted = self.metric.is_none() && figure.metric.better == Direction::Higher;
        let limit = if is_inverted { 1.0 / self.limit } else { self.limit };
        let falls = is_inverted || self.limit < 1.0;
        let outcome = match figure.interval {
            Some((low, high)) if low.is_nan() || high.is_nan() => GateOutcome::Inconclusive,
            Some((_, high)) if falls && high < limit => GateOutcome::Failed,
            Some((low, _)) if falls && low >= limit => GateOutcome::Passed,
            Some((low, _)) if !falls && low > limit => GateOutcome::Failed,
            Some((_, high)) if !falls && high <= limit => GateOutcome::Passed,
            _ => GateOutcome::Inconclusive,
        };
        let outcome = match outcome {
            GateOutcome::Passed if figure.is_worse_otherwise => GateOutcome::Inconclusive,
            decided => decided,
        };
        let is_failure =
            outcome == GateOutcome::Failed || (outcome == GateOutcome::Inconclusive && inconclusive_fails);
        GateDecision {
            gate: self.given.clone(),
            what: figure.what.clone(),
            metric: figure.metric.name.clone(),
            outcome,
            is_failure,
            ratio: Some(figure.ratio).filter(|ratio| ratio.is_finite()),
            interval: figure.interval.filter(|(low, high)| low.is_finite() && high.is_finite()),
            limit,
            text: self.sentence(figure, outcome, is_failure),
        }
    }

    /// `Gate 'slower > 3%' failed, B against A: it takes 8.1 % longer (95 %: 6.9 % to 9.3 % longer).`
    fn sentence(&self, figure: &GatedFigure, outcome: GateOutcome, is_failure: bool) -> String {
        let change = ChangeWording::for_metric(Some(&figure.metric).filter(|metric| !metric.name.is_empty()));
        let measured = match figure.interval {
            Some(ends) => format!("it {} (95 %: {})", change.point(figure.ratio), change.bounds(ends)),
            None => figure.no_interval.clone(),
        };
        let decided = match outcome {
            GateOutcome::Passed => "passed".to_owned(),
            GateOutcome::Failed => "failed".to_owned(),
            GateOutcome::Inconclusive => {
                let counts_as = if is_failure { "failed" } else { "passed" };
                let limit = percent((self.limit - 1.0).abs());
                let why = figure.interval.map(|_| {
                    if figure.is_worse_otherwise {
                        ", because of a trade-off".to_owned()
                    } else {
                        format!(", because its interval contains {limit}")
                    }
                });
                format!("is inconclusive and counts as {counts_as}{}", why.unwrap_or_default())
            }
        };
        format!("Gate '{self}' {decided}; {}: {measured}.", figure.what)
    }
}

#[cfg(test)]
mod tests;

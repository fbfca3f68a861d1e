//! The answer of a comparison, in terms of the metric: one sentence for two variants, a ranking for more.

mod pair;
mod several;
mod trade_off;

use super::{Finding, FindingKind};
use crate::{
    Comparison, VariantComparison,
    wording::{ChangeWording, percent},
};
use manycore_experiment::{
    Record,
    record::{Experiment, id},
};
use manycore_stats::{
    Estimator,
    verdict::{Answer, DecisionRule, Verdict},
};
use manycore_text::units::{counted, decimals, duration};

pub(crate) fn find(record: &Record, comparison: &Comparison) -> Finding {
    let (text, figures) = match comparison.only_other() {
        Some(other) => (pair::answer(comparison, other), pair::evidence(other)),
        None => {
            let text = [Some(several::answer(comparison)), several::race(record, comparison)];
            (text.into_iter().flatten().collect::<Vec<_>>().join(" "), several::evidence(comparison))
        }
    };
    let mut evidence: Vec<String> =
        record.variants().into_iter().map(|(title, what)| format!("{title}: {what}")).collect();
    evidence.extend(figures);
    evidence.extend(conditions(record, comparison));
    Finding::new(FindingKind::Answer, "comparison", text, evidence)
}

/// Returns the first round of a race, in which all variants ran.
fn first_race(record: &Record) -> Option<&Experiment> {
    record.experiment(&format!("{}1", id::COMPARE_RACE))
}

/// Returns the answer of a race that ended before the best variants were compared with the reference.
pub(crate) fn unfinished_race(record: &Record, comparison: Option<&Comparison>) -> Option<Finding> {
    let first = first_race(record).filter(|_| comparison.is_none())?;
    let text = format!(
        "Inconclusive: the measurement ended during the race of {} variants, before the best ones were compared with {}.",
        first.variants().count(),
        first.reference().map_or("the reference", |reference| first.treatments[reference].title()),
    );
    Some(Finding::new(FindingKind::Answer, "comparison", text, Vec::new()))
}

/// Returns the question that a comparison answers.
pub(crate) fn question(comparison: &Comparison) -> String {
    if comparison.same_variants {
        return "How much do identical variants differ?".to_owned();
    }
    let primary = comparison.others.first().and_then(|other| other.metrics.first());
    let change = ChangeWording::for_metric(primary.map(|primary| &primary.metric)).by(comparison.estimator());
    match comparison.only_other() {
        Some(other) => change.question(Wording::new(comparison, other).titles),
        None => change.question_of_several(),
    }
}

/// One variant against the reference, in words.
struct Wording<'a> {
    other: &'a VariantComparison,
    /// The reference, and the variant.
    titles: [&'a str; 2],
    change: ChangeWording,
    /// In values of the metric, as in the table: 2.0 where the variant takes twice the time.
    ratio: f64,
    /// The ends of its interval.
    ends: Option<(f64, f64)>,
}

impl<'a> Wording<'a> {
    fn new(comparison: &'a Comparison, other: &'a VariantComparison) -> Self {
        let verdict = &other.verdict;
        let primary = other.metrics.first();
        let (ratio, ends) = primary
            .and_then(|primary| primary.ratio)
            .map_or((verdict.ratio, verdict.interval), |ratio| (ratio.median, ratio.interval));
        Self {
            other,
            titles: [comparison.title(comparison.reference), comparison.title(other.treatment)],
            change: ChangeWording::for_metric(primary.map(|primary| &primary.metric)).by(verdict.estimator),
            ratio,
            ends,
        }
    }

    /// `0.625x; 95 %: 37 to 38 % less time`; `None` where there are too few pairs.
    fn measured(&self) -> Option<String> {
        Some(format!("{}x; 95 %: {}", decimals(self.ratio), self.change.bounds(self.ends?)))
    }
}

/// Says how many pairs an answer needs. What was made is in `what`: `pair`, `round`.
fn too_few(comparison: &Comparison, what: &str) -> String {
    let made = comparison.others.iter().map(|other| other.verdict.pairs).min().unwrap_or(0);
    let needed = comparison
        .others
        .iter()
        .map(|other| other.verdict.estimator.least_pairs(other.verdict.rule.level))
        .max();
    let needed = needed.unwrap_or(1);
    let takes = duration(needed as f64 * comparison.pair_seconds);
    let by = comparison.estimator();
    let figure = if by == Estimator::Median { String::new() } else { format!(" for {by}") };
    format!(
        "Inconclusive: {} {} too few{figure}, an answer needs at least {needed} (--pairs {needed}, about {takes}).",
        counted(made, what),
        if made == 1 { "is" } else { "are" },
    )
}

/// Says how many `pairs` would give an answer: `about 80 pairs in total (2 min) would give an answer`.
fn more(comparison: &Comparison, pairs: usize, what: &str) -> String {
    if comparison.is_endless(pairs) {
        return "an answer would take more than a day".to_owned();
    }
    let seconds = pairs as f64 * comparison.pair_seconds;
    format!("about {} in total ({}) would give an answer", counted(pairs, what), duration(seconds))
}

/// Lines about the measurement.
fn conditions(record: &Record, comparison: &Comparison) -> Vec<String> {
    let verdicts = || comparison.others.iter().map(|other| &other.verdict);
    let has_interval = verdicts().any(|verdict| verdict.interval.is_some());
    let mut lines: Vec<String> =
        verdicts().next().and_then(|first| end(record, &first.rule, has_interval)).into_iter().collect();
    let floor = verdicts().next().and_then(|first| first.noise_floor);
    lines.extend(
        floor.map(|floor| format!("noise floor {} (runs of the same variant; informative)", percent(floor))),
    );
    // Beside an effect that was found, the smallest that would be found is no news.
    let undecided = comparison.others.iter().filter(|other| other.verdict.answer == Answer::Inconclusive);
    let smallest = undecided.filter_map(|other| other.minimum_detectable_effect).reduce(f64::max);
    lines.extend(
        smallest.map(|smallest| format!("minimum detectable effect at 80 % power: {}", percent(smallest))),
    );
    lines
}

/// Says at which of several planned analyses the measurement ended.
fn end(record: &Record, rule: &DecisionRule, has_interval: bool) -> Option<String> {
    let DecisionRule { analysis, analyses, .. } = *rule;
    if analyses < 2 {
        return None;
    }
    let ended = if record.interrupted {
        format!("interrupted before analysis {analysis} of the {analyses} planned ones")
    } else if analysis < analyses {
        format!("ended early, at analysis {analysis} of the {analyses} planned ones")
    } else {
        format!("ended at the last of {analyses} planned analyses")
    };
    let interval = if has_interval { "; the 95 % interval allows for all of them" } else { "" };
    Some(format!("{ended}{interval}"))
}

/// `30 pairs, p = 0.0123`. Without an interval of the deciding test there is no p either, and neither beside a trade-off:
/// its figures are of other tests.
fn pairs(verdict: &Verdict, what: &str) -> String {
    let count = counted(verdict.pairs, what);
    match verdict.p {
        _ if verdict.interval.is_none() || verdict.answer == Answer::TradeOff => count,
        p if p < 0.0001 => format!("{count}, p < 0.0001"),
        p => format!("{count}, p = {p:.4}"),
    }
}

#[cfg(test)]
mod tests;

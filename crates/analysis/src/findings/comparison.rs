//! The answer of a comparison, in one sentence in the terms of the metric.

use super::{Finding, FindingKind};
use crate::{
    Comparison,
    power_analysis::pairs_for_interval,
    wording::{ChangeWording, percent},
};
use manycore_experiment::Record;
use manycore_stats::verdict::{Answer, DecisionRule};
use manycore_text::units::{counted, decimals, duration};

pub(crate) fn find(record: &Record, comparison: &Comparison) -> Finding {
    let verdict = &comparison.verdict;
    let primary = comparison.metrics.first();
    let change = ChangeWording::for_metric(primary.map(|primary| &primary.metric));
    // In values of the metric, as in the table: 2.0 where B takes twice the time.
    let (ratio, ends) = primary
        .and_then(|primary| primary.ratio)
        .map_or((verdict.ratio, verdict.interval), |ratio| (ratio.median, ratio.interval));
    let text = match ends {
        None => too_few(comparison, &change, ratio),
        Some(ends) => {
            let measured = format!("{}x; 95 %: {}", decimals(ratio), change.bounds(ends));
            if comparison.same_variants {
                same(verdict.is_different(), &measured)
            } else {
                answer(comparison, &change, ratio, &measured)
            }
        }
    };
    Finding::new(FindingKind::Answer, "comparison", text, evidence(record, comparison))
}

fn answer(comparison: &Comparison, change: &ChangeWording, ratio: f64, measured: &str) -> String {
    let verdict = &comparison.verdict;
    let margin = percent(verdict.rule.margin);
    match verdict.answer {
        Answer::ABetter | Answer::BBetter => {
            let small = if verdict.is_within_margin() {
                format!(" The difference is real and within the margin of {margin}: too small to matter.")
            } else {
                String::new()
            };
            format!(
                "B is {} than A: it {}{} ({measured}).{small}",
                change.comparative(verdict.answer == Answer::BBetter),
                change.point(ratio),
                change.speed(ratio)
            )
        }
        Answer::Equivalent => {
            format!("A and B are equivalent within {margin}: B {} ({measured}).", change.point(ratio))
        }
        Answer::Inconclusive => {
            let more = comparison.pairs_needed.map(|pairs| {
                let seconds = pairs as f64 * comparison.pair_seconds;
                format!("; about {pairs} pairs in total ({}) would give an answer", duration(seconds))
            });
            format!("Inconclusive: {} ({measured}){}.", change.possible(ratio), more.unwrap_or_default())
        }
    }
}

/// Says what pairs of the same variant show, which is never that one is better.
fn same(is_different: bool, measured: &str) -> String {
    let rest = if is_different {
        "The difference is chance: about one of 20 such runs shows one."
    } else {
        "What remains is the noise of this machine."
    };
    format!("A and B are the same, so their true ratio is 1. Measured: {measured}. {rest}")
}

/// Says how many pairs an answer needs, without a claim about B.
fn too_few(comparison: &Comparison, change: &ChangeWording, ratio: f64) -> String {
    let made = comparison.verdict.pairs;
    let needed = pairs_for_interval(comparison.verdict.rule.level);
    let takes = duration(needed as f64 * comparison.pair_seconds);
    let so_far = if comparison.same_variants {
        "A and B are the same, so their true ratio is 1.".to_owned()
    } else {
        format!("So far, B {}.", change.point(ratio))
    };
    format!(
        "Inconclusive: {} {} too few, an answer needs at least {needed} (--pairs {needed}, about {takes}). {so_far}",
        counted(made, "pair"),
        if made == 1 { "is" } else { "are" },
    )
}

fn evidence(record: &Record, comparison: &Comparison) -> Vec<String> {
    let verdict = &comparison.verdict;
    let mut evidence: Vec<String> =
        record.variants().into_iter().map(|(label, what)| format!("{label}: {what}")).collect();
    evidence.push(format!("{}, {}", counted(verdict.pairs, "pair"), probability(verdict.p)));
    evidence.extend(end(record, &verdict.rule, verdict.interval.is_some()));
    evidence.extend(
        verdict
            .noise_floor
            .map(|floor| format!("noise floor {} (runs of the same variant; informative)", percent(floor))),
    );
    // Beside an effect that was found, the smallest that would be found is no news.
    let smallest = comparison.minimum_detectable_effect.filter(|_| verdict.answer == Answer::Inconclusive);
    evidence.extend(
        smallest.map(|smallest| format!("minimum detectable effect at 80 % power: {}", percent(smallest))),
    );
    evidence
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

fn probability(p: f64) -> String {
    if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") }
}

#[cfg(test)]
mod tests;

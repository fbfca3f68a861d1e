//! The answer of a comparison, in one sentence in the terms of the metric.

use super::{Finding, FindingKind};
use crate::{
    Comparison,
    wording::{ChangeWording, percent},
};
use manycore_stats::verdict::{Answer, DecisionRule};
use manycore_text::units::{decimals, duration};

pub(crate) fn find(comparison: &Comparison) -> Finding {
    let verdict = &comparison.verdict;
    let primary = comparison.metrics.first();
    let change = ChangeWording::for_metric(primary.map(|primary| &primary.metric));
    // In values of the metric, as in the table: 2.0 where B takes twice the time.
    let (ratio, ends) = primary
        .and_then(|primary| primary.ratio)
        .map_or((verdict.ratio, verdict.interval), |ratio| (ratio.median, ratio.interval));
    let margin = percent(verdict.rule.margin);
    let times = decimals(ratio);
    let bounds = |ends| change.bounds(ends);
    let text = match verdict.answer {
        Answer::ABetter | Answer::BBetter => {
            let small = if verdict.is_within_margin() {
                format!(" The difference is real and within the margin of {margin}: too small to matter.")
            } else {
                String::new()
            };
            format!(
                "B is {} than A: it {} ({times}x; 95 %: {}).{small}",
                change.comparative(verdict.answer == Answer::BBetter),
                change.point(ratio),
                ends.map_or_else(String::new, bounds)
            )
        }
        Answer::Equivalent => format!(
            "A and B are equivalent within {margin}: B {} ({times}x; 95 %: {}).",
            change.point(ratio),
            ends.map_or_else(String::new, bounds)
        ),
        Answer::Inconclusive => inconclusive(comparison, &change, ratio, ends.map(bounds)),
    };
    Finding::new(FindingKind::Answer, "comparison", text, evidence(comparison))
}

fn evidence(comparison: &Comparison) -> Vec<String> {
    let verdict = &comparison.verdict;
    let DecisionRule { level, analysis, analyses, .. } = verdict.rule;
    let mut evidence = vec![
        format!("A: {}", comparison.a),
        format!("B: {}", comparison.b),
        format!("{} pairs, p = {}", verdict.pairs, probability(verdict.p)),
    ];
    if analyses > 1 {
        evidence.push(format!(
            "interim analysis {analysis} of {analyses}, level {level}; the interval holds at 95 % over all of them"
        ));
    }
    evidence.extend(
        verdict
            .noise_floor
            .map(|floor| format!("noise floor {} (runs of the same variant; informative)", percent(floor))),
    );
    evidence.extend(
        comparison
            .minimum_detectable_effect
            .map(|smallest| format!("minimum detectable effect at 80 % power: {}", percent(smallest))),
    );
    evidence
}

fn probability(p: f64) -> String {
    if p < 0.0001 { "less than 0.0001".to_owned() } else { format!("{p:.4}") }
}

fn inconclusive(
    comparison: &Comparison,
    change: &ChangeWording,
    ratio: f64,
    bounds: Option<String>,
) -> String {
    let Some(bounds) = bounds else {
        return format!(
            "Inconclusive: {} ({} pairs; an interval needs at least six).",
            change.possible(ratio),
            comparison.verdict.pairs
        );
    };
    let more = comparison.pairs_needed.map(|pairs| {
        let seconds = pairs as f64 * comparison.pair_seconds;
        format!("; about {pairs} pairs in total ({}) would give an answer", duration(seconds))
    });
    format!(
        "Inconclusive: {} ({}x; 95 %: {bounds}){}.",
        change.possible(ratio),
        decimals(ratio),
        more.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests;

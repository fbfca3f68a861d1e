//! Lines of runs that answer one question: comparisons, searches, checks of limits, light processes.

use super::{Line, SummaryMark, next, ratio};
use crate::{
    Comparison, DensityAnswer, Evaluation, LightProcesses, VariantComparison, findings,
    limits::{LimitProof, LimitResult},
};
use manycore_experiment::{
    Record,
    spawning::capacity::{each, plural},
};
use manycore_stats::verdict::Answer;
use manycore_text::units::count;

/// Shares by which a run that tested a prediction may differ from it.
const PREDICTION_TOLERANCE: f64 = 0.1;

pub(super) fn comparison(record: &Record, evaluation: &Evaluation) -> Option<Line> {
    let comparison = evaluation.comparison.as_ref()?;
    let text = findings::comparison_finding(record, comparison).text;
    let mark = match comparison.only_other() {
        Some(other) => mark_of_pair(comparison, other),
        None if comparison.same_variants || comparison.pairs_needed().is_some() => SummaryMark::Neutral,
        None if comparison.others.iter().any(|other| other.verdict.answer == Answer::TradeOff) => {
            SummaryMark::Attention
        }
        None => SummaryMark::Good,
    };
    let is_advised = |pairs: &usize| !comparison.same_variants && !comparison.is_endless(*pairs);
    let pairs = comparison.pairs_needed().filter(is_advised);
    let again = pairs.and_then(|pairs| next::compare_again(record, comparison, pairs));
    Some(Line::new(mark, text).then(again))
}

/// Returns the mark of two variants: a worse B needs attention.
fn mark_of_pair(comparison: &Comparison, other: &VariantComparison) -> SummaryMark {
    match other.verdict.answer {
        Answer::ABetter | Answer::BBetter | Answer::TradeOff if comparison.same_variants => {
            SummaryMark::Neutral
        }
        Answer::BBetter | Answer::Equivalent => SummaryMark::Good,
        Answer::ABetter if other.verdict.is_within_margin() => SummaryMark::Good,
        Answer::ABetter | Answer::TradeOff => SummaryMark::Attention,
        Answer::Inconclusive => SummaryMark::Neutral,
    }
}

pub(super) fn tuning(evaluation: &Evaluation) -> Option<Line> {
    let tuning = evaluation.tuning.as_ref()?;
    let text = findings::tuning_finding(tuning).text;
    let undecided = tuning.finalists.is_empty()
        || tuning.finalists.iter().any(|one| one.verdict.answer == Answer::Inconclusive);
    Some(match tuning.winner.and_then(|winner| tuning.finalists.get(winner)) {
        Some(winner) => Line::new(SummaryMark::Good, text).then(next::from_record(&winner.command)),
        None if undecided => Line::new(SummaryMark::Neutral, text),
        None => Line::new(SummaryMark::Good, text),
    })
}

pub(super) fn density(evaluation: &Evaluation) -> Option<Line> {
    let density = evaluation.density.as_ref()?;
    let mut differences = density.differences.iter();
    let first = density.variants.first()?;
    let answers = || density.variants.iter().map(|variant| findings::density_answer(density, variant));
    let compared = density.differences.iter().map(|one| findings::density_difference(&first.label, one));
    let sentences: Vec<String> =
        if density.differences.is_empty() { answers().collect() } else { compared.collect() };
    let is_open = density
        .variants
        .iter()
        .any(|variant| !variant.is_complete || variant.answer.high.is_none() && density.is_open(variant))
        || differences.any(|difference| difference.answer == DensityAnswer::Inconclusive);
    let is_above_alone = density.variants.iter().any(|variant| variant.answer.high == Some(0));
    let mark = match () {
        () if is_above_alone => SummaryMark::Attention,
        () if is_open => SummaryMark::Neutral,
        () => SummaryMark::Good,
    };
    Some(Line::new(mark, sentences.join(" ")))
}

pub(super) fn limits(evaluation: &Evaluation) -> Option<Line> {
    let sentences: Vec<String> = evaluation.limits.iter().map(limit).collect();
    let mark = |proof: &LimitProof| match proof.shown {
        LimitResult::Holds => SummaryMark::Good,
        LimitResult::Fails(_) => SummaryMark::Attention,
        LimitResult::Inconclusive | LimitResult::CannotShow(_) => SummaryMark::Neutral,
    };
    let worst = evaluation.limits.iter().map(mark).max()?;
    let undecided = evaluation.limits.iter().find(|proof| proof.shown == LimitResult::Inconclusive);
    let again = undecided.map(|proof| format!("sudo manycore qos prove {} --budget 5m", proof.check.name()));
    let more = if again.is_some() { " A longer check decides it." } else { "" };
    Some(Line::new(worst, format!("{}{more}", sentences.join(" "))).then(again))
}

fn limit(proof: &LimitProof) -> String {
    let text = findings::limit_finding(proof).text;
    match &proof.verdict {
        Some(verdict) => {
            format!("{} Rate with over without: {}.", text, ratio(verdict))
        }
        None => text,
    }
}

pub(super) fn spawn(evaluation: &Evaluation) -> Option<Line> {
    let all = &evaluation.light_processes;
    let marks = all.iter().map(mark).max()?;
    let fits: Vec<String> = all.iter().map(fits).collect();
    Some(Line::new(marks, format!("{}.", fits.join("; "))))
}

fn mark(light: &LightProcesses) -> SummaryMark {
    let Some(capacity) = &light.capacity else { return SummaryMark::Neutral };
    let missed = capacity.tests.iter().any(|test| (test.ratio - 1.0).abs() > PREDICTION_TOLERANCE);
    match capacity.by_memory_range {
        _ if missed || light.mismatch.is_some() => SummaryMark::Attention,
        Some(_) => SummaryMark::Good,
        // Fewer than three counts do not show how straight the line is.
        None => SummaryMark::Neutral,
    }
}

fn fits(light: &LightProcesses) -> String {
    let Some(capacity) = &light.capacity else {
        return format!("{}: how many fit is unknown, because no run shows the memory of one", light.name);
    };
    let error = capacity.line.bytes_each_range.map_or_else(
        || "error unknown: three counts would show it".to_owned(),
        |(low, high)| format!("{} to {} between the counts", each(low), each(high)),
    );
    let what = plural(&light.unit);
    let fix = light.mismatch.as_ref().map(|mismatch| format!(", set {}", mismatch.fix)).unwrap_or_default();
    format!(
        "{}: {} {what} fit, {} each ({error}){fix}",
        light.name,
        count(capacity.count),
        each(capacity.line.bytes_each)
    )
}

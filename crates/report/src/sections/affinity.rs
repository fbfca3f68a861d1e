//! Unpinned processes compared with pinned ones.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::PinningComparison;
use manycore_render::{
    figure::{ABSENT, grouped, number, optional},
    table::Align,
};
use manycore_stats::{
    median, quantile,
    verdict::{Answer, Verdict},
};
use manycore_text::units::percent;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let Some(affinity) = &named.evaluation.affinity else { return Vec::new() };
    let mut table = Table::numeric(
        "Seconds of one process",
        ("", Align::Left),
        &["processes", "rounds", "median", "fastest", "slowest", "on other CPU"],
    );
    for (name, seconds, off_cpu) in [
        ("unpinned (A)", &affinity.unpinned_seconds, ABSENT.to_owned()),
        (
            "pinned (B)",
            &affinity.pinned_seconds,
            format!("{} of {} checks", affinity.off_cpu_checks, grouped(affinity.cpu_checks as f64)),
        ),
    ] {
        let all: Vec<f64> = seconds.iter().flatten().copied().collect();
        table.rows.push(vec![
            name.to_owned(),
            seconds.len().to_string(),
            seconds.first().map_or(0, Vec::len).to_string(),
            optional(median(&all), number),
            optional(quantile(&all, 0.0), number),
            optional(quantile(&all, 1.0), number),
            off_cpu,
        ]);
    }
    table.notes.extend(affinity.verdict.as_ref().map(|verdict| sentence(verdict, "pinned", "unpinned")));
    vec![table, rounds(affinity)]
}

/// Returns every process in every round. Rounds are rows, so that the table fits on paper.
fn rounds(affinity: &PinningComparison) -> Table {
    let processes = affinity.unpinned_seconds.len().max(affinity.pinned_seconds.len());
    let heads: Vec<String> = (1..=processes).map(|process| format!("P{process}")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let title = "Seconds of each process (P) in each unpinned (A) and pinned (B) round";
    let mut table = Table::numeric(title, ("round", Align::Left), &heads);
    table.is_detail = true;
    for (letter, side) in [('A', &affinity.unpinned_seconds), ('B', &affinity.pinned_seconds)] {
        for round in 0..side.first().map_or(0, Vec::len) {
            let cells = (0..processes).map(|process| {
                optional(side.get(process).and_then(|rounds| rounds.get(round)).copied(), number)
            });
            table.rows.push(std::iter::once(format!("{letter}{}", round + 1)).chain(cells).collect());
        }
    }
    table
}

/// Formats a verdict on `b` relative to `a` as a sentence.
pub(super) fn sentence(verdict: &Verdict, b: &str, a: &str) -> String {
    let answer = match verdict.answer {
        Answer::ABetter => format!("{a} faster"),
        Answer::BBetter => format!("{b} faster"),
        Answer::Equivalent => format!("equivalent within {}", percent(verdict.rule.margin)),
        Answer::Inconclusive => "inconclusive".to_owned(),
        Answer::TradeOff => "a trade-off".to_owned(),
    };
    format!(
        "Verdict: {answer}. Rate of {b} over {a}: {}; {}.",
        verdict.ratio_in_words(),
        probability(verdict.p)
    )
}

/// Formats a p-value with the digits that matter.
fn probability(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let rows = |named: &NamedEvaluation| {
        let Some(affinity) = &named.evaluation.affinity else { return Vec::new() };
        let mid =
            |side: &[Vec<f64>]| optional(median(&side.iter().flatten().copied().collect::<Vec<_>>()), number);
        let mut rows = vec![
            ((0, "seconds of an unpinned process, median"), mid(&affinity.unpinned_seconds)),
            ((1, "seconds of a pinned process, median"), mid(&affinity.pinned_seconds)),
        ];
        if let Some(verdict) = &affinity.verdict {
            let (low, high) = verdict.interval.unwrap_or((f64::NAN, f64::NAN));
            rows.push(((2, "pinned over unpinned"), format!("{:.3} ({low:.3} to {high:.3})", verdict.ratio)));
            rows.push(((3, "verdict"), answer(verdict.answer).to_owned()));
        }
        rows.push(((4, "on other CPU"), affinity.off_cpu_checks.to_string()));
        rows
    };
    vec![compare(
        "Unpinned and pinned",
        ("", Align::Left),
        all,
        |(_, name): &(u8, &str)| (*name).to_owned(),
        rows,
    )]
}

fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::ABetter => "unpinned faster",
        Answer::BBetter => "pinned faster",
        Answer::Equivalent => "equivalent",
        Answer::Inconclusive => "inconclusive",
        Answer::TradeOff => "a trade-off",
    }
}

//! Free against bound.

use crate::sections::{Named, Table, compare};
use manycore_analysis::Affinity;
use manycore_render::{
    figure::{ABSENT, grouped, number, optional},
    table::Align,
};
use manycore_stats::{
    median, quantile,
    verdict::{Answer, Verdict},
};
use manycore_text::units::percent;

pub(super) fn own(named: &Named) -> Vec<Table> {
    let Some(affinity) = &named.evaluation.affinity else { return Vec::new() };
    let mut table = Table::figures(
        "Seconds of one process",
        ("", Align::Left),
        &["processes", "rounds", "median", "fastest", "slowest", "elsewhere"],
    );
    for (name, seconds, elsewhere) in [
        ("free (A)", &affinity.free, ABSENT.to_owned()),
        (
            "bound (B)",
            &affinity.bound,
            format!("{} of {} looks", affinity.elsewhere, grouped(affinity.checks as f64)),
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
            elsewhere,
        ]);
    }
    table.notes.extend(affinity.verdict.as_ref().map(|verdict| sentence(verdict, "bound", "free")));
    vec![table, rounds(affinity)]
}

/// Every process in every round; rounds are rows, so that it fits on paper.
fn rounds(affinity: &Affinity) -> Table {
    let processes = affinity.free.len().max(affinity.bound.len());
    let heads: Vec<String> = (1..=processes).map(|process| format!("P{process}")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let title = "Seconds of each process (P) in each free (A) and bound (B) round";
    let mut table = Table::figures(title, ("round", Align::Left), &heads);
    table.raw = true;
    for (letter, side) in [('A', &affinity.free), ('B', &affinity.bound)] {
        for round in 0..side.first().map_or(0, Vec::len) {
            let cells = (0..processes).map(|process| {
                optional(side.get(process).and_then(|rounds| rounds.get(round)).copied(), number)
            });
            table.rows.push(std::iter::once(format!("{letter}{}", round + 1)).chain(cells).collect());
        }
    }
    table
}

/// A verdict on `b` against `a` in a sentence.
pub(super) fn sentence(verdict: &Verdict, b: &str, a: &str) -> String {
    let answer = match verdict.verdict {
        Answer::ABetter => format!("{a} faster"),
        Answer::BBetter => format!("{b} faster"),
        Answer::Equivalent => format!("equivalent within {}", percent(verdict.rule.margin)),
        Answer::Inconclusive => "inconclusive".to_owned(),
    };
    format!(
        "Verdict: {answer}. Rate of {b} over {a}: {}; {}.",
        verdict.ratio_in_words(),
        probability(verdict.p)
    )
}

/// A p-value with the digits that anybody reads.
fn probability(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

pub(super) fn beside(all: &[Named]) -> Vec<Table> {
    let rows = |named: &Named| {
        let Some(affinity) = &named.evaluation.affinity else { return Vec::new() };
        let mid =
            |side: &[Vec<f64>]| optional(median(&side.iter().flatten().copied().collect::<Vec<_>>()), number);
        let mut rows = vec![
            ((0, "seconds of a free process, median"), mid(&affinity.free)),
            ((1, "seconds of a bound process, median"), mid(&affinity.bound)),
        ];
        if let Some(verdict) = &affinity.verdict {
            let (low, high) = verdict.interval.unwrap_or((f64::NAN, f64::NAN));
            rows.push(((2, "bound over free"), format!("{:.3} ({low:.3} to {high:.3})", verdict.ratio)));
            rows.push(((3, "verdict"), answer(verdict.verdict).to_owned()));
        }
        rows.push(((4, "seen elsewhere"), affinity.elsewhere.to_string()));
        rows
    };
    vec![compare("Free and bound", ("", Align::Left), all, |(_, name): &(u8, &str)| (*name).to_owned(), rows)]
}

fn answer(answer: Answer) -> &'static str {
    match answer {
        Answer::ABetter => "free faster",
        Answer::BBetter => "bound faster",
        Answer::Equivalent => "equivalent",
        Answer::Inconclusive => "inconclusive",
    }
}

//! The requests of each variant over all of its runs.

use crate::sections::Table;
use manycore_analysis::{Evaluation, REQUEST_QUANTILES, RequestDistribution, RequestQuantile};
use manycore_render::{
    figure::{ABSENT, number},
    table::Align,
};
use manycore_stats::verdict::Answer;
use manycore_text::names::list;

pub(super) fn tables(evaluation: &Evaluation) -> Vec<Table> {
    let mut tables = Vec::new();
    for of_kind in kinds(&evaluation.requests) {
        tables.extend([figures(of_kind), compared(of_kind)]);
    }
    tables
}

/// Returns the variants of each kind of requests.
pub fn kinds(all: &[RequestDistribution]) -> impl Iterator<Item = &[RequestDistribution]> {
    all.chunk_by(|a, b| (&a.name, &a.unit) == (&b.name, &b.unit))
}

/// Returns what latencies of these requests are called: `Latency of all requests (get) in ms`.
pub fn title(of_kind: &[RequestDistribution]) -> String {
    let kind = of_kind.first().map(|one| one.name.as_str()).filter(|name| !name.is_empty());
    let unit = of_kind.first().map(|one| one.unit.as_str()).filter(|unit| !unit.is_empty());
    format!(
        "Latency of all requests{}{}",
        kind.map_or_else(String::new, |kind| format!(" ({kind})")),
        unit.map_or_else(|| ", unit unknown".to_owned(), |unit| format!(" in {unit}")),
    )
}

/// Returns the quantile of this name.
fn quantile<'a>(one: &'a RequestDistribution, name: &str) -> Option<&'a RequestQuantile> {
    one.quantiles.iter().find(|quantile| quantile.name == name)
}

fn resolved(of_kind: &[RequestDistribution]) -> impl Iterator<Item = &'static str> {
    let names = REQUEST_QUANTILES.map(|(name, _)| name);
    names.into_iter().filter(|name| of_kind.iter().any(|one| quantile(one, name).is_some()))
}

fn figures(of_kind: &[RequestDistribution]) -> Table {
    let names: Vec<&str> = resolved(of_kind).collect();
    let head: Vec<&str> =
        ["runs", "requests"].into_iter().chain(names.iter().copied()).chain(["max"]).collect();
    let mut table = Table::numeric(title(of_kind), ("variant", Align::Left), &head);
    let row = |one: &RequestDistribution| {
        let mut row = vec![one.label.clone(), one.runs.to_string(), one.requests.to_string()];
        let figure =
            |name: &&str| quantile(one, name).map_or(ABSENT.to_owned(), |found| number(found.merged));
        row.extend(names.iter().map(figure));
        row.push(number(one.max));
        row
    };
    table.rows = of_kind.iter().map(row).collect();
    let missing: Vec<String> = REQUEST_QUANTILES
        .into_iter()
        .map(|(name, _)| name.to_owned())
        .filter(|name| of_kind.iter().any(|one| one.unresolved.contains(name)))
        .collect();
    if !missing.is_empty() {
        table.notes.push(format!(
            "The output of the load generator does not resolve {} in every run.",
            list(&missing)
        ));
    }
    table
}

fn compared(of_kind: &[RequestDistribution]) -> Table {
    let head = ["median of runs", "95 % interval", "over the reference", "joint interval", "is"];
    let mut table = Table::numeric("Latency of the requests of each run", ("variant", Align::Left), &[]);
    table.head.push(("quantile".to_owned(), Align::Left));
    table.head.extend(head.map(|name| (name.to_owned(), Align::Right)));
    table.verdict_column = Some(table.head.len() - 1);
    for one in of_kind {
        table.rows.extend(one.quantiles.iter().map(|quantile| {
            let ratio = quantile.ratio;
            vec![
                one.label.clone(),
                quantile.name.clone(),
                number(quantile.per_run.value),
                ends(quantile.per_run.interval, number),
                ratio.map_or(ABSENT.to_owned(), |ratio| format!("{:.3}", ratio.median)),
                ends(ratio.and_then(|ratio| ratio.interval), |end| format!("{end:.3}")),
                quantile.answer.map_or(ABSENT, word).to_owned(),
            ]
        }));
    }
    table.notes.push(
        "Requests of one run share its conditions, so each run counts once, with the quantile of its requests. The ratios \
         of all variants and quantiles hold jointly (Holm)."
            .to_owned(),
    );
    table
}

fn ends(interval: Option<(f64, f64)>, shown: impl Fn(f64) -> String) -> String {
    interval.map_or_else(|| ABSENT.to_owned(), |(low, high)| format!("{} to {}", shown(low), shown(high)))
}

/// Returns what a variant is, relative to the reference.
pub fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::ABetter => "worse",
        Answer::BBetter => "better",
        Answer::Equivalent => "equivalent",
        Answer::Inconclusive | Answer::TradeOff => "inconclusive",
    }
}

//! Variants A and B, metric by metric.

use crate::sections::{NamedEvaluation, Table};
use manycore_analysis::{Comparison, MetricComparison};
use manycore_render::{
    figure::{ABSENT, interval, number},
    table::Align,
};
use manycore_stats::verdict::{Answer, DecisionRule};
use manycore_text::units::decimals;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    named.evaluation.comparison.iter().map(of_comparison).collect()
}

fn of_comparison(comparison: &Comparison) -> Table {
    let mut table = Table::numeric(
        "Metrics",
        ("metric", Align::Left),
        &["A", "95 % interval", "B", "95 % interval", "B over A", "95 % interval", "B is"],
    );
    table.verdict_column = Some(table.head.len() - 1);
    table.rows = comparison.metrics.iter().map(row).collect();
    let DecisionRule { analysis, analyses, .. } = comparison.verdict.rule;
    let interim = match analyses {
        1 => String::new(),
        _ => format!(
            " It ended at interim analysis {analysis} of {analyses}; its interval holds over all of them."
        ),
    };
    table.notes.push(format!(
        "{} pairs in random order; the first metric decides.{interim} The other intervals are at 95 % each.",
        comparison.verdict.pairs
    ));
    table
}

fn row(compared: &MetricComparison) -> Vec<String> {
    let metric = &compared.metric;
    let unit = if metric.unit.is_empty() { String::new() } else { format!(" in {}", metric.unit) };
    let is = match compared.answer {
        Answer::BBetter => "better",
        Answer::ABetter => "worse",
        Answer::Equivalent => "equivalent",
        Answer::Inconclusive => "inconclusive",
    };
    vec![
        format!("{}{unit}", metric.name),
        number(compared.a.median),
        interval(&compared.a, number),
        number(compared.b.median),
        interval(&compared.b, number),
        compared.ratio.map_or_else(|| ABSENT.to_owned(), |estimate| decimals(estimate.median)),
        compared.ratio.map_or_else(|| ABSENT.to_owned(), |estimate| interval(&estimate, decimals)),
        is.to_owned(),
    ]
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let names: Vec<&str> = all.iter().map(|named| named.name.as_str()).collect();
    let mut table = Table::numeric("B over A, higher is better", ("", Align::Left), &names);
    let cells: Vec<Option<String>> = all
        .iter()
        .map(|named| named.evaluation.comparison.as_ref().map(|c| c.verdict.ratio_in_words()))
        .collect();
    if cells.iter().any(Option::is_some) {
        let row = cells.into_iter().map(|cell| cell.unwrap_or_else(|| ABSENT.to_owned()));
        table.rows.push(std::iter::once("primary metric".to_owned()).chain(row).collect());
    }
    vec![table]
}

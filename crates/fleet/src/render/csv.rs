//! All figures of all nodes as comma-separated values.

use super::{view::kind_name, words::verdict};
use crate::evaluation::{FleetEvaluation, KindFigure, Node, NodeFigure};
use manycore_render::{
    document::Document,
    table::{Align, Table},
};

const HEAD: [&str; 17] = [
    "node",
    "kind",
    "started",
    "verdict",
    "mean_deficit",
    "topic",
    "figure",
    "unit",
    "value",
    "kind_median",
    "deficit",
    "deficit_low",
    "deficit_high",
    "p",
    "figure_verdict",
    "causes",
    "why_missing",
];

/// Returns a row for each figure of each node. A node without figures has one row, also one without a record, whose
/// `verdict` is why it is missing. Deficits are shares; what is unknown is empty.
pub fn csv(evaluation: &FleetEvaluation) -> String {
    let mut table = Table::new("", &HEAD.map(|name| (name, Align::Left)));
    for node in &evaluation.nodes {
        let known = evaluation.kinds.get(node.kind).map_or(&[][..], |kind| &kind.figures);
        let before = table.rows.len();
        for (figure, one) in
            known.iter().zip(&node.figures).filter_map(|(figure, one)| Some((figure, (*one)?)))
        {
            table.rows.push(row(evaluation, node, Some((figure, one))));
        }
        if table.rows.len() == before {
            table.rows.push(row(evaluation, node, None));
        }
    }
    for node in &evaluation.missing {
        let mut row = vec![String::new(); HEAD.len()];
        (row[0], row[3], row[HEAD.len() - 1]) = (node.name.clone(), node.state.clone(), node.why.clone());
        table.rows.push(row);
    }
    let mut document = Document::new();
    document.table(table);
    document.csv()
}

fn row(evaluation: &FleetEvaluation, node: &Node, figure: Option<(&KindFigure, NodeFigure)>) -> Vec<String> {
    let words =
        |of: fn(&KindFigure) -> &str| figure.map_or_else(String::new, |(known, _)| of(known).to_owned());
    let of = |value: fn(&KindFigure, NodeFigure) -> f64| {
        figure.map_or_else(String::new, |(known, one)| number(value(known, one)))
    };
    vec![
        node.name.clone(),
        kind_name(evaluation, node.kind).to_owned(),
        node.started.clone(),
        verdict(node.verdict).to_owned(),
        number(node.mean_deficit),
        words(|known| &known.topic),
        words(|known| &known.what),
        words(|known| &known.unit),
        of(|_, one| one.value),
        of(|known, _| known.median),
        of(|_, one| one.deficit),
        of(|_, one| one.interval.0),
        of(|_, one| one.interval.1),
        of(|_, one| one.p),
        figure.map_or_else(String::new, |(_, one)| verdict(one.verdict).to_owned()),
        node.causes.join("; "),
        String::new(),
    ]
}

/// Returns a number with all digits that distinguish it; empty where it is none.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

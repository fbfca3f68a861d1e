//! The tables of the text, of which the page uses some.

use super::{
    view::{View, worst},
    words::{self, deficit, deficit_of, figure_name, list, list_within, p_value, short, worst_name},
};
use crate::evaluation::{Change, Drift, FleetEvaluation, Kind, KindFigure, MissingNode, Node};
use manycore_render::{
    figure::{self, grouped, optional, percent},
    table::{Align, Table},
};
use std::collections::BTreeMap;

/// Longest value of a property, and longest cause.
const VALUE: usize = 60;

/// Adds rows to a table, at most so many, and says how many more there are and where.
pub(super) fn limited(table: Table, rows: Vec<Vec<String>>, most: usize, hint: &str) -> Table {
    let more = rows.len().saturating_sub(most);
    let mut table = table.with_rows(rows.into_iter().take(most).collect());
    if more > 0 {
        table.notes.push(format!("{} more: {hint}", grouped(more as f64)));
    }
    table
}

/// Slow nodes: the worst figure, its deficit, and the likely cause.
pub(super) fn slow(view: &View, most: usize, hint: &str) -> Table {
    let head = [
        ("node", Align::Left),
        ("figure", Align::Left),
        ("slower by", Align::Right),
        ("likely cause", Align::Left),
    ];
    let row = |node: &&Node| {
        let (figure, by) = worst_cells(view.evaluation, node);
        let others = match node.causes.len() {
            0 | 1 => String::new(),
            count => format!(" (+{})", count - 1),
        };
        let cause =
            words::first_cause(node).map_or_else(|| "unknown".to_owned(), |cause| short(cause, VALUE));
        let cause = cause + &others;
        vec![short(&node.name, VALUE), figure, by, cause]
    };
    limited(Table::new("", &head), view.slow.iter().map(row).collect(), most, hint)
}

fn worst_cells(evaluation: &FleetEvaluation, node: &Node) -> (String, String) {
    match worst(evaluation, node) {
        Some((figure, one)) => (worst_name(evaluation, node, figure), deficit_of(one)),
        None => (figure::ABSENT.to_owned(), figure::ABSENT.to_owned()),
    }
}

/// Nodes whose scatter is too wide to tell.
pub(super) fn inconclusive(view: &View, most: usize, hint: &str) -> Table {
    let head = [("node", Align::Left), ("figure", Align::Left), ("slower by", Align::Right)];
    let row = |node: &&Node| {
        let (figure, by) = worst_cells(view.evaluation, node);
        vec![short(&node.name, VALUE), figure, by]
    };
    limited(Table::new("", &head), view.inconclusive.iter().map(row).collect(), most, hint)
}

/// Nodes without a record, those with the same reason together.
pub(super) fn missing(evaluation: &FleetEvaluation, most: usize, hint: &str) -> Table {
    let head =
        [("state", Align::Left), ("count", Align::Right), ("nodes", Align::Left), ("why", Align::Left)];
    let mut groups: BTreeMap<(&str, String), Vec<&MissingNode>> = BTreeMap::new();
    for node in &evaluation.missing {
        groups.entry((&node.state, without_name(&node.why, &node.name))).or_default().push(node);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let row = |((state, why), nodes): ((&str, String), Vec<&MissingNode>)| {
        let names = list(nodes.iter().map(|node| node.name.as_str()));
        let why = if nodes.len() == 1 { &nodes[0].why } else { &why };
        vec![short(state, VALUE), grouped(nodes.len() as f64), names, short(why, 2 * VALUE)]
    };
    limited(Table::new("", &head), groups.into_iter().map(row).collect(), most, hint)
}

/// Replaces a node's name where it is a word of a text, so that nodes with the same reason have the same text.
fn without_name(why: &str, name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut text = String::new();
    let mut rest = why;
    while let Some((before, after)) = rest.split_once(name).filter(|_| !name.is_empty()) {
        let is_word = !before.ends_with(is_part) && !after.starts_with(|c| c != '.' && is_part(c));
        text.extend([before, if is_word { "HOST" } else { name }]);
        rest = after;
    }
    text + rest
}

/// Properties that differ within a kind.
pub(super) fn drift(evaluation: &FleetEvaluation, most: usize, hint: &str) -> Table {
    let head = [
        ("property", Align::Left),
        ("most nodes", Align::Left),
        ("other nodes", Align::Left),
        ("p", Align::Right),
    ];
    let row = |drift: &Drift| {
        let (usual, others) = match drift.values.split_first() {
            Some(((value, nodes), others)) => {
                (format!("{} ({})", short(value, VALUE), grouped(nodes.len() as f64)), others)
            }
            None => (String::new(), &[][..]),
        };
        let kind =
            if evaluation.kinds.len() > 1 { format!(", kind {}", drift.kind + 1) } else { String::new() };
        let property = format!("{}{kind}", short(&drift.property, VALUE));
        vec![property, usual, other_values(evaluation, others), optional(drift.slow_p, p_value)]
    };
    let rows = evaluation.drift.iter().map(row).collect();
    let mut table = limited(Table::new("", &head), rows, most, hint);
    if evaluation.drift.iter().any(|drift| drift.slow_p.is_some()) {
        table.notes.push("p: how often chance separates slow nodes from others so well.".to_owned());
    }
    table
}

/// Lists values with their nodes: `powersave (4): n[3,7-9]`.
fn other_values(evaluation: &FleetEvaluation, values: &[(String, Vec<usize>)]) -> String {
    const VALUES: usize = 3;
    let one = |(value, nodes): &(String, Vec<usize>)| {
        let names =
            nodes.iter().filter_map(|&node| evaluation.nodes.get(node)).map(|node| node.name.as_str());
        format!(
            "{} ({}): {}",
            short(value, VALUE),
            grouped(nodes.len() as f64),
            list_within(names, VALUE / 2, 2)
        )
    };
    let mut words: Vec<String> = values.iter().take(VALUES).map(one).collect();
    if values.len() > VALUES {
        words.push(format!("{} more values", grouped((values.len() - VALUES) as f64)));
    }
    words.join("; ")
}

/// The column of names in [`ranking`].
pub(super) const RANKING_NAME: usize = 1;

/// The places of the rows of [`ranking`].
pub(super) fn places(view: &View, ends: usize) -> impl Iterator<Item = usize> {
    let count = view.ranking.len();
    (0..count).filter(move |&place| place < ends || place + ends >= count)
}

/// The slowest and the fastest nodes by their mean deficit.
pub(super) fn ranking(view: &View, ends: usize) -> Table {
    let head = [
        ("place", Align::Right),
        ("node", Align::Left),
        ("slower by, mean", Align::Right),
        ("verdict", Align::Left),
    ];
    let count = view.ranking.len();
    let row = |place: usize| {
        let node = view.ranking[place];
        vec![
            grouped((place + 1) as f64),
            short(&node.name, VALUE),
            percent(node.mean_deficit),
            words::verdict(node.verdict).to_owned(),
        ]
    };
    let mut table = Table::new("", &head).with_rows(places(view, ends).map(row).collect());
    table.verdict_column = Some(3);
    table.notes.push("Mean: over all figures. Negative: faster.".to_owned());
    let more = count.saturating_sub(2 * ends);
    if more > 0 {
        table.notes.push(format!("Between them: {}.", counted_nodes(more)));
    }
    table
}

/// The figures of a kind over its nodes. Brief: without the error of a node. The number of nodes has a column where some
/// lack a figure.
pub(super) fn kind(
    evaluation: &FleetEvaluation,
    at: usize,
    is_brief: bool,
    (most, hint): (usize, &str),
) -> Table {
    let kind = &evaluation.kinds[at];
    let some_lack = kind.figures.iter().any(|figure| figure.nodes != kind.nodes);
    let columns = [
        (true, "median"),
        (true, "spread"),
        (!is_brief, "node error"),
        (true, "detectable"),
        (some_lack, "nodes"),
    ];
    let row = |figure: &KindFigure| {
        let detectable = figure.detectable.filter(|share| share.is_finite());
        let cells = [
            value(figure.median, &figure.unit),
            percent(figure.spread),
            percent(figure.node_error),
            optional(detectable, percent),
            grouped(figure.nodes as f64),
        ];
        let shown = cells.into_iter().zip(columns).filter(|(_, column)| column.0).map(|(cell, _)| cell);
        std::iter::once(figure_name(figure)).chain(shown).collect()
    };
    let names: Vec<&str> = columns.into_iter().filter(|column| column.0).map(|column| column.1).collect();
    let table = Table::numeric(kind_title(evaluation, at), ("figure", Align::Left), &names);
    let mut table = limited(table, kind.figures.iter().map(row).collect(), most, hint);
    table.notes.extend(not_judged(kind));
    table
}

/// Says why a kind is not judged, if it is not.
pub(super) fn not_judged(kind: &Kind) -> Option<String> {
    kind.not_judged.as_ref().map(|why| format!("Not judged: {}.", short(why, 2 * VALUE)))
}

/// Returns the name of a kind with its number, where there are several, and its nodes.
pub(super) fn kind_title(evaluation: &FleetEvaluation, at: usize) -> String {
    let kind = &evaluation.kinds[at];
    let number = if evaluation.kinds.len() > 1 { format!("{}: ", at + 1) } else { String::new() };
    format!("{number}{}, {}", short(&kind.name, 2 * VALUE), counted_nodes(kind.nodes))
}

/// Returns a value with its unit, shortened: `75.50 GB/s`, `75.50 G products/s`.
pub(super) fn value(value: f64, unit: &str) -> String {
    let number = figure::short(value);
    let unit = match unit {
        "bytes/s" => "B/s",
        "flops/s" => "flop/s",
        other => other,
    };
    let space = if number.ends_with(['k', 'M', 'G']) && matches!(unit, "B/s" | "flop/s") { "" } else { " " };
    format!("{number}{space}{}", short(unit, VALUE)).trim_end().to_owned()
}

pub(super) fn counted_nodes(count: usize) -> String {
    format!("{} {}", grouped(count as f64), if count == 1 { "node" } else { "nodes" })
}

/// Changes over dated runs, the largest first.
pub(super) fn changes(evaluation: &FleetEvaluation, most: usize, hint: &str) -> Table {
    let head = [
        ("since", Align::Left),
        ("node", Align::Left),
        ("figure", Align::Left),
        ("slower by", Align::Right),
        ("changed at the same time", Align::Left),
    ];
    let mut changes: Vec<&Change> = evaluation.changes.iter().collect();
    changes.sort_by(|a, b| b.deficit.abs().total_cmp(&a.deficit.abs()));
    let row = |change: &&Change| {
        let node =
            if change.node.is_empty() { changed_kinds(evaluation, change) } else { change.node.clone() };
        vec![
            words::since(&change.between),
            short(&node, VALUE),
            short(&change.what, VALUE),
            deficit((change.deficit, change.interval)),
            changed_properties(change),
        ]
    };
    let mut table = limited(Table::new("", &head), changes.iter().map(row).collect(), most, hint);
    table.notes.push("Since: the first run after the change. Negative: faster.".to_owned());
    table
}

/// Returns the kinds that have changed. Changes do not tell kinds apart by what updates change, which is at the end of names.
fn changed_kinds(evaluation: &FleetEvaluation, change: &Change) -> String {
    let is_among = |kind: &Kind| {
        let rest = kind.name.strip_prefix(&change.kind);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
    };
    let kinds = evaluation.kinds.iter().enumerate().filter(|(_, kind)| is_among(kind));
    let numbers: Vec<String> = kinds.map(|(at, _)| (at + 1).to_string()).collect();
    match numbers.len() {
        0 => format!("all: {}", change.kind),
        all if all == evaluation.kinds.len() => "all".to_owned(),
        1 => format!("all of kind {}", numbers[0]),
        _ => format!("all of kinds {}", numbers.join(", ")),
    }
}

fn changed_properties(change: &Change) -> String {
    const PROPERTIES: usize = 3;
    let one = |(name, before, after): &(String, String, String)| {
        format!("{}: {} -> {}", short(name, VALUE / 2), short(before, VALUE / 2), short(after, VALUE / 2))
    };
    let mut words: Vec<String> = change.properties.iter().take(PROPERTIES).map(one).collect();
    match change.properties.len() {
        0 => words.push("nothing that is known".to_owned()),
        count if count > PROPERTIES => words.push(format!("{} more", count - PROPERTIES)),
        _ => {}
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_of_several_nodes_is_one_row() {
        let said = |name: &str, why: &str| without_name(why, name);
        assert_eq!(
            said("h3", "connect to host h3 port 22: refused"),
            "connect to host HOST port 22: refused"
        );
        assert_eq!(
            said("h3", "h30 and fresh3-h3 do not answer, h3: no."),
            "h30 and fresh3-h3 do not answer, HOST: no."
        );
        assert_eq!(said("", "down"), "down");
        let node = |name: &str| MissingNode {
            name: name.to_owned(),
            state: "unreachable".to_owned(),
            why: format!("no route to {name}"),
        };
        let text = |names: &[&str]| {
            let missing = names.iter().map(|name| node(name)).collect();
            let evaluation = crate::evaluate(Vec::new(), missing, &crate::Options::default());
            missing_rows(&evaluation)
        };
        assert_eq!(text(&["a"]), [["unreachable", "1", "a", "no route to a"]]);
        assert_eq!(text(&["a", "b"]), [["unreachable", "2", "a,b", "no route to HOST"]]);
    }

    fn missing_rows(evaluation: &FleetEvaluation) -> Vec<Vec<String>> {
        missing(evaluation, 10, "").rows
    }
}

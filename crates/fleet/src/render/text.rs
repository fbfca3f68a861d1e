//! The document: the answer, and tables of bounded length.

use super::{
    tables,
    view::View,
    words::{answer, unchanged},
};
use crate::evaluation::FleetEvaluation;
use manycore_render::{
    document::{Document, Extent},
    figure::percent,
    table::Table,
    terminal::Mark,
};

/// Rows of each table.
struct Limits<'a> {
    is_brief: bool,
    slow: usize,
    inconclusive: usize,
    missing: usize,
    drift: usize,
    ranking: usize,
    kinds: usize,
    figures: usize,
    changes: usize,
    /// Where the others are.
    hint: &'a str,
}

impl<'a> Limits<'a> {
    fn new(extent: Extent<'a>) -> Self {
        match extent {
            Extent::Full => {
                let all = usize::MAX;
                Self {
                    is_brief: false,
                    slow: all,
                    inconclusive: all,
                    missing: all,
                    drift: all,
                    ranking: 10,
                    kinds: all,
                    figures: all,
                    changes: all,
                    hint: "",
                }
            }
            Extent::Brief { hint } => Self {
                is_brief: true,
                slow: 6,
                inconclusive: 3,
                missing: 3,
                drift: 2,
                ranking: 2,
                kinds: 2,
                figures: 3,
                changes: 2,
                hint,
            },
        }
    }
}

/// Lays out an evaluation. A brief document has less than 100 lines whatever the number of nodes; its hint says where the
/// others are: `see fleet.html`.
pub fn document(evaluation: &FleetEvaluation, extent: Extent) -> Document {
    let (view, limits) = (View::new(evaluation), Limits::new(extent));
    let mut document = Document::new();
    let mark = if view.slow.is_empty() { Mark::Strong } else { Mark::Bad };
    for (at, line) in answer(evaluation).into_iter().enumerate() {
        if at == 0 { document.marked(mark, line) } else { document.paragraph(line) }
    }
    let mut add = |title: &str, table: Table| {
        if !table.rows.is_empty() {
            document.gap();
            document.heading(title);
            document.table(table);
        }
    };
    add("Slow nodes", tables::slow(&view, limits.slow, limits.hint));
    add("Inconclusive nodes", tables::inconclusive(&view, limits.inconclusive, limits.hint));
    add("Missing nodes", tables::missing(evaluation, limits.missing, limits.hint));
    add("Properties that differ", tables::drift(evaluation, limits.drift, limits.hint));
    add("Changes over time", tables::changes(evaluation, limits.changes, limits.hint));
    add("Ranking", tables::ranking(&view, limits.ranking));
    kinds(evaluation, &limits, &mut document);
    document.gap();
    if let Some(text) = unchanged(evaluation) {
        document.paragraph(text);
    }
    let [rule, columns] = reading(evaluation);
    document.paragraph(if limits.is_brief { rule } else { format!("{rule} {columns}") });
    document
}

fn kinds(evaluation: &FleetEvaluation, limits: &Limits, document: &mut Document) {
    if evaluation.kinds.is_empty() {
        return;
    }
    document.gap();
    document.heading("Kinds of nodes");
    for (at, kind) in evaluation.kinds.iter().enumerate().take(limits.kinds) {
        match tables::not_judged(kind) {
            Some(why) if kind.figures.is_empty() => {
                document.paragraph(format!("{}. {why}", tables::kind_title(evaluation, at)));
            }
            _ => document.table(tables::kind(evaluation, at, limits.is_brief, (limits.figures, limits.hint))),
        }
    }
    let more = evaluation.kinds.len().saturating_sub(limits.kinds);
    if more > 0 {
        document.paragraph(format!(
            "{more} more {}: {}",
            if more == 1 { "kind" } else { "kinds" },
            limits.hint
        ));
    }
}

/// Says when a node is slow, and what the columns of other figures are.
pub(super) fn reading(evaluation: &FleetEvaluation) -> [String; 2] {
    let rule = format!(
        "Slower by: relative to the median of nodes of the same kind, with the 95 % interval. Slow: beyond {} and beyond \
         chance, with at most {} false discoveries expected.",
        percent(evaluation.least_deficit),
        percent(evaluation.false_discovery_level),
    );
    let columns = "Spread: robust standard deviation between nodes. Node error: standard error of a node. Detectable: the \
                   deficit from which a node is found. (+1): one more figure of the node with the same verdict, or one more cause.";
    [rule, columns.to_owned()]
}

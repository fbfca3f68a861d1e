//! The page of a fleet: one file with nothing from elsewhere. Its only script searches nodes by name.
//!
//! Slow, inconclusive and missing nodes have rows of their own up to a limit. Others are joined in bands, so that the page of
//! 10,000 nodes is as usable as that of 100: `map` draws figures by node, `distributions` the nodes by figure, and `nodes`
//! lists all of them with links to their pages.

mod distributions;
mod map;
mod nodes;

use super::{
    tables,
    text::reading,
    view::{View, of_kind},
    words::{answer, moment, short, unchanged},
};
use crate::evaluation::{FleetEvaluation, Verdict};
use manycore_analysis::summary::SummaryMark;
use manycore_render::table::Table;
use manycore_report::page::{Page, PageAddition, PageSection, table_html};
use manycore_text::names::printable_text;
use maud::{Markup, html};

/// Most rows of a table.
const ROWS: usize = 300;
/// Nodes at each end of the ranking.
const RANKED: usize = 20;
/// Where the rows are that a table does not have.
const HINT: &str = "the list of all nodes and the file of comma-separated values have them.";

const ADDITION: PageAddition = PageAddition {
    style: include_str!("page/style.css"),
    script: include_str!("page/search.js"),
    script_hash: "sha256-c0ox73UkKPMh1bf12U97AS8j0P+jCHh0GL3rMKZBmDM=",
};

/// Lays out the page. Links lead to [`crate::evaluation::Node::page`], relative to the page.
pub fn page(evaluation: &FleetEvaluation, title: &str) -> String {
    let view = View::new(evaluation);
    let title = format!("manycore fleet: {}", short(title, 120));
    let page = Page {
        heading: title.clone(),
        title,
        first: first(&view),
        sections: sections(&view),
        footer: "from the records alone. Intervals are at 95 %.",
        addition: Some(ADDITION),
    };
    printable_text(&page.draw().into_string())
}

fn first(view: &View) -> Markup {
    let evaluation = view.evaluation;
    let started =
        || evaluation.nodes.iter().map(|node| node.started.as_str()).filter(|time| !time.is_empty());
    html! {
        p.conditions {
            (tables::counted_nodes(evaluation.nodes.len())) " with a record, of "
            (evaluation.kinds.len()) @if evaluation.kinds.len() == 1 { " kind" } @else { " kinds" }
            @if let (Some(first), Some(last)) = (started().min(), started().max()) {
                "; measured " (moment(first)) @if moment(last) != moment(first) { " to " (moment(last)) } " UTC"
            }
        }
        section.answer aria-label="The answer" {
            @for line in answer(evaluation) { p { (hard(&line)) } }
        }
        (nodes::search())
    }
}

fn sections(view: &View) -> Vec<PageSection> {
    let evaluation = view.evaluation;
    let mut sections = Vec::new();
    let mut add = |id: &str, name: &str, heading: &str, mark, body: Markup| {
        sections.push(PageSection {
            id: id.to_owned(),
            name: name.to_owned(),
            heading: heading.to_owned(),
            mark,
            body,
        });
    };
    if !view.slow.is_empty() {
        let mark = Some(SummaryMark::Attention);
        add(
            "slow",
            "Slow nodes",
            "Which nodes are slow, and why?",
            mark,
            nodes::flagged(view, &view.slow, true),
        );
    }
    if !view.inconclusive.is_empty() {
        let (mark, body) = (Some(SummaryMark::Neutral), nodes::flagged(view, &view.inconclusive, false));
        add("inconclusive", "Inconclusive nodes", "Which nodes should be measured again?", mark, body);
    }
    if !evaluation.missing.is_empty() {
        let (mark, table) = (Some(SummaryMark::Neutral), tables::missing(evaluation, ROWS, HINT));
        add("missing", "Missing nodes", "Which nodes have no record?", mark, table_html(&table, false));
    }
    if evaluation.nodes.iter().any(|node| !node.figures.is_empty()) {
        add("map", "Map", "Which nodes are slow in which figures?", None, map::maps(view));
        let charts = distributions::charts(evaluation);
        add("distributions", "Distributions", "How do nodes scatter around the median?", None, charts);
    }
    if !evaluation.drift.is_empty() {
        let table = tables::drift(evaluation, ROWS, HINT);
        add(
            "drift",
            "Properties that differ",
            "What is not the same on all nodes?",
            None,
            table_html(&table, false),
        );
    }
    if !evaluation.changes.is_empty() {
        let table = tables::changes(evaluation, ROWS, HINT);
        add("changes", "Changes over time", "What changed, and since when?", None, table_html(&table, false));
    } else if let Some(text) = unchanged(evaluation) {
        add("changes", "Changes over time", "What changed, and since when?", None, html! { p { (text) } });
    }
    if !view.ranking.is_empty() {
        add(
            "ranking",
            "Ranking",
            "Which nodes are the slowest and the fastest?",
            None,
            nodes::ranking(view, RANKED),
        );
    }
    add("kinds", "Kinds of nodes", "Which nodes are compared with each other?", None, kinds(evaluation));
    add("nodes", "All nodes", "Where is each node?", None, nodes::all(view));
    sections
}

fn kinds(evaluation: &FleetEvaluation) -> Markup {
    const KINDS: usize = 60;
    let count = evaluation.kinds.len().min(KINDS);
    let tables: Vec<Table> = (0..count).map(|at| tables::kind(evaluation, at, false, (ROWS, HINT))).collect();
    html! {
        @for table in &tables { (table_html(table, true)) }
        @if evaluation.kinds.len() > KINDS { p.note { (evaluation.kinds.len() - KINDS) " more kinds." } }
        p.reading { (hard(&reading(evaluation).join(" "))) }
    }
}

/// Replaces the space before each percent sign by a non-breaking one.
fn hard(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

/// Returns kinds whose nodes were compared, with their indices.
fn compared(evaluation: &FleetEvaluation) -> impl Iterator<Item = (usize, &crate::evaluation::Kind)> {
    let has_figures = move |&(at, _): &(usize, &_)| {
        of_kind(evaluation, at).any(|node| node.verdict != Verdict::NotJudged || !node.figures.is_empty())
    };
    evaluation.kinds.iter().enumerate().filter(|(_, kind)| !kind.figures.is_empty()).filter(has_figures)
}

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
    let kinds =
        section("kinds", "Kinds of nodes", "Which nodes are compared with each other?", kinds(evaluation));
    let nodes = section("nodes", "All nodes", "Where is each node?", nodes::all(view));
    let to_act = [slow(view), inconclusive(view), missing(evaluation)];
    let figures = [map(view), distributions(evaluation)];
    let differences = [drift(evaluation), changes(evaluation), ranking(view), Some(kinds), Some(nodes)];
    to_act.into_iter().chain(figures).chain(differences).flatten().collect()
}

fn section(id: &str, name: &str, heading: &str, body: Markup) -> PageSection {
    let [id, name, heading] = [id, name, heading].map(str::to_owned);
    PageSection { id, name, heading, mark: None, body }
}

fn slow(view: &View) -> Option<PageSection> {
    (!view.slow.is_empty()).then(|| {
        let body = nodes::flagged(view, &view.slow, true);
        let section = section("slow", "Slow nodes", "Which nodes are slow, and why?", body);
        PageSection { mark: Some(SummaryMark::Attention), ..section }
    })
}

fn inconclusive(view: &View) -> Option<PageSection> {
    (!view.inconclusive.is_empty()).then(|| {
        let body = nodes::flagged(view, &view.inconclusive, false);
        let heading = "Which nodes should be measured again?";
        let section = section("inconclusive", "Inconclusive nodes", heading, body);
        PageSection { mark: Some(SummaryMark::Neutral), ..section }
    })
}

fn missing(evaluation: &FleetEvaluation) -> Option<PageSection> {
    (!evaluation.missing.is_empty()).then(|| {
        let body = table_html(&tables::missing(evaluation, ROWS, HINT), false);
        let section = section("missing", "Missing nodes", "Which nodes have no record?", body);
        PageSection { mark: Some(SummaryMark::Neutral), ..section }
    })
}

fn has_figures(evaluation: &FleetEvaluation) -> bool {
    evaluation.nodes.iter().any(|node| !node.figures.is_empty())
}

fn map(view: &View) -> Option<PageSection> {
    let heading = "Which nodes are slow in which figures?";
    has_figures(view.evaluation).then(|| section("map", "Map", heading, map::maps(view)))
}

fn distributions(evaluation: &FleetEvaluation) -> Option<PageSection> {
    let heading = "How do nodes scatter around the median?";
    has_figures(evaluation)
        .then(|| section("distributions", "Distributions", heading, distributions::charts(evaluation)))
}

fn drift(evaluation: &FleetEvaluation) -> Option<PageSection> {
    (!evaluation.drift.is_empty()).then(|| {
        let body = table_html(&tables::drift(evaluation, ROWS, HINT), false);
        section("drift", "Properties that differ", "What is not the same on all nodes?", body)
    })
}

fn changes(evaluation: &FleetEvaluation) -> Option<PageSection> {
    let body = if evaluation.changes.is_empty() {
        let text = unchanged(evaluation)?;
        html! { p { (text) } }
    } else {
        table_html(&tables::changes(evaluation, ROWS, HINT), false)
    };
    Some(section("changes", "Changes over time", "What changed, and since when?", body))
}

fn ranking(view: &View) -> Option<PageSection> {
    let heading = "Which nodes are the slowest and the fastest?";
    (!view.ranking.is_empty()).then(|| section("ranking", "Ranking", heading, nodes::ranking(view, RANKED)))
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

//! One section: its line, its findings, each chart beside its table, and the rest folded.

use crate::{
    NamedEvaluation, SessionComparison,
    html::{
        charts::{self, ChartFigure},
        kind,
        page::{PageSection, dot},
        with_hard_spaces,
    },
    sections::Section,
};
use manycore_analysis::{
    Evaluation, Finding,
    differences::{Change, FigureDifference},
    summary::{SectionSummary, SummaryMark, question},
};
use manycore_render::table::{Align, Table};
use maud::{Markup, html};

/// Columns of text from which a table does not fit beside a chart.
const WIDE_TABLE: usize = 92;

/// Makes a section of the page. `summary` is its line, where the page is about one record.
pub(super) fn section(
    section: &Section,
    all: &[NamedEvaluation],
    summary: Option<&SectionSummary>,
) -> PageSection {
    PageSection {
        id: section.id.to_owned(),
        name: section.title.to_owned(),
        heading: heading(section, all),
        mark: summary.map(|summary| summary.mark).or_else(|| baseline_mark(section, all)),
        body: body(section, all, summary),
    }
}

/// Returns what the answers of stored records mean.
fn baseline_mark(section: &Section, all: &[NamedEvaluation]) -> Option<SummaryMark> {
    let found = all.iter().find_map(|named| named.baseline.as_ref()).filter(|_| section.id == "baseline")?;
    let primary = found.differences.figures.iter().filter(|figure| figure.is_primary);
    let mark = |figure: &FigureDifference| match figure.change {
        Change::Worse => SummaryMark::Attention,
        Change::Inconclusive => SummaryMark::Neutral,
        Change::Better | Change::Equivalent => SummaryMark::Good,
    };
    primary.map(mark).max()
}

/// Returns the question that a section answers, or its title.
fn heading(section: &Section, all: &[NamedEvaluation]) -> String {
    let evaluations: Vec<&Evaluation> = all.iter().map(|named| &named.evaluation).collect();
    let of_baseline =
        || all.iter().find_map(|named| named.baseline.as_ref()).map(SessionComparison::question);
    let asked = if section.id == "baseline" { of_baseline() } else { question(section.id, &evaluations) };
    asked.unwrap_or_else(|| section.title.to_owned())
}

fn body(section: &Section, all: &[NamedEvaluation], summary: Option<&SectionSummary>) -> Markup {
    let (details, shown): (Vec<&Table>, Vec<&Table>) =
        section.tables.iter().partition(|table| table.is_detail || section.id == "conditions");
    // A finding that is the section's line is shown once, as the finding with its evidence.
    let is_finding =
        |line: &str| all.iter().flat_map(|one| &one.evaluation.findings).any(|one| one.text == line);
    html! {
        @if let Some(summary) = summary.filter(|summary| !is_finding(&summary.line)) {
            p.line { (dot(Some(summary.mark))) span { (with_hard_spaces(&summary.line)) } }
        }
        @if let Some(summary) = summary {
            @if let Some(command) = &summary.next { p.then { "Next: " code { (command) } } }
        }
        @for named in all { (findings(section.id, named, all.len() > 1)) }
        @if section.tables.is_empty() { p.faint { "Not measured in this record." } }
        (rows(&charts::figures(section.id, all), &shown))
        @if !section.reading.is_empty() {
            details { summary { "How to read this" } p.reading { (with_hard_spaces(section.reading)) } }
        }
        @for table in details {
            details {
                summary { @if table.title.is_empty() { (section.title) } @else { (table.title) } }
                (table_html(table, false))
            }
        }
    }
}

/// Topics of findings that are shown in another section.
fn section_of(topic: &str) -> &str {
    if topic == "failures" { "conditions" } else { topic }
}

/// Lists the findings of a section, each with its evidence folded.
fn findings(section: &str, named: &NamedEvaluation, several: bool) -> Markup {
    let found: Vec<&Finding> =
        named.evaluation.findings.iter().filter(|finding| section_of(finding.topic) == section).collect();
    html! {
        @if !found.is_empty() {
            @if several { h3 { (named.name) } }
            ul.findings { @for finding in found { li { (finding_html(finding)) } } }
        }
    }
}

fn finding_html(finding: &Finding) -> Markup {
    let text = with_hard_spaces(&finding.text);
    html! {
        (kind(finding.kind))
        @if finding.evidence.is_empty() {
            p { (text) }
        } @else {
            details {
                summary { (text) }
                ul.evidence { @for evidence in &finding.evidence { li { (with_hard_spaces(evidence)) } } }
            }
        }
    }
}

/// Puts each chart beside the table of the same place. What is left over fills the width two by two.
fn rows(figures: &[ChartFigure], tables: &[&Table]) -> Markup {
    let wide = |table: &Table| width(table) > WIDE_TABLE;
    let (broad, narrow): (Vec<&Table>, Vec<&Table>) = tables.iter().copied().partition(|table| wide(table));
    let pairs = if broad.len() == tables.len() { 0 } else { figures.len().min(narrow.len()) };
    html! {
        @for (figure, table) in figures.iter().zip(&narrow).take(pairs) {
            div.row { (figure_html(figure)) (table_html(table, true)) }
        }
        @if figures.len() > pairs {
            div.row.charts { @for figure in &figures[pairs..] { (figure_html(figure)) } }
        }
        @if narrow.len() > pairs {
            div.row.tables { @for table in &narrow[pairs..] { (table_html(table, true)) } }
        }
        @for table in broad { (table_html(table, true)) }
    }
}

/// Returns the characters of the longest cells of all columns, with the space between them.
fn width(table: &Table) -> usize {
    let longest = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .chain([table.head[column].0.chars().count()])
            .max()
            .unwrap_or(0)
    };
    (0..table.head.len()).map(|column| longest(column) + 3).sum()
}

/// Lays out a chart with its title, legend and caption.
pub fn figure_html(figure: &ChartFigure) -> Markup {
    html! {
        figure {
            h3 { (figure.title) }
            @if !figure.legend.is_empty() {
                ul.legend { @for (sign, name) in &figure.legend { li { (sign) span { (name) } } } }
            }
            (figure.drawing)
            @if !figure.caption.is_empty() { figcaption { (with_hard_spaces(&figure.caption)) } }
        }
    }
}

/// Lays out a table.
pub fn table_html(table: &Table, with_title: bool) -> Markup {
    linked_table_html(table, with_title, &|_, _| None)
}

/// As [`table_html`]; `link` returns where a cell leads, from its row and column.
pub fn linked_table_html(
    table: &Table,
    with_title: bool,
    link: &dyn Fn(usize, usize) -> Option<String>,
) -> Markup {
    let linked = |row: usize, column: usize, cell: &str| match link(row, column) {
        Some(href) => html! { a href=(href) { (cell) } },
        None => html! { (cell) },
    };
    let class = |column: usize| match table.head.get(column).map(|head| head.1) {
        Some(Align::Right) => "figure",
        _ => "words",
    };
    let label = if table.title.is_empty() { "Table" } else { table.title.as_str() };
    html! {
        div.block {
            @if with_title && !table.title.is_empty() { h3 { (table.title) } }
            div.table tabindex="0" role="region" aria-label=(label) {
                table {
                    thead {
                        tr { @for (column, (name, _)) in table.head.iter().enumerate() {
                            th scope="col" class=(class(column)) { (name) }
                        } }
                    }
                    tbody {
                        @for (at, row) in table.rows.iter().enumerate() {
                            tr { @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" class=(class(0)) { (linked(at, 0, cell)) } }
                                @else { td class=(class(column)) { (linked(at, column, cell)) } }
                            } }
                        }
                    }
                }
            }
            @for note in &table.notes { p.note { (with_hard_spaces(note)) } }
        }
    }
}

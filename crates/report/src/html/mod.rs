//! The report as one self-contained HTML page: no scripts, fonts or images from elsewhere.

mod charts;

use crate::{
    NamedEvaluation,
    record_text::{self, SIDE_BY_SIDE},
    sections::{self, Section},
};
use charts::ChartFigure;
use manycore_analysis::{Finding, FindingKind};
use manycore_render::table::{Align, Table};
use manycore_text::names::printable_text;
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

const STYLE: &str = include_str!("style.css");

/// Makes the browser refuse to load anything from elsewhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Renders the page of one record, or of several side by side.
pub fn html(all: &[NamedEvaluation]) -> String {
    let sections = sections::sections(all);
    let title = title(all);
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    @for named in all { (summary(named, all.len() > 1)) }
                    @if all.len() > 1 { p.aside { (SIDE_BY_SIDE) } }
                }
                main {
                    (findings(all))
                    (contents(&sections))
                    @for section in &sections { (section_html(section, all)) }
                }
                footer {
                    p {
                        "Rendered by manycore " (env!("CARGO_PKG_VERSION")) " from the record alone. Figures are \
                         medians; intervals are at 95 %."
                    }
                }
            }
        }
    };
    // A record may come from elsewhere. `maud` escapes HTML, but not characters that change the direction
    // of text.
    printable_text(&page.into_string())
}

fn title(all: &[NamedEvaluation]) -> String {
    match all {
        [one] => {
            let host = one.record.machine.system.hostname.as_deref().unwrap_or("unknown host");
            format!("manycore {}: {host}", one.record.subcommand)
        }
        _ => format!("manycore: {} records side by side", all.len()),
    }
}

fn summary(named: &NamedEvaluation, several: bool) -> Markup {
    let [machine, run] = record_text::summary(&named.record);
    markup! {
        p.summary {
            @if several { strong { (named.name) } " " }
            (machine) br; span.faint { (run) }
        }
    }
}

fn contents(sections: &[Section]) -> Markup {
    markup! {
        nav aria-label="Sections" {
            @for section in sections {
                a href={ "#" (section.id) } { (section.title) }
            }
        }
    }
}

fn findings(all: &[NamedEvaluation]) -> Markup {
    markup! {
        section #findings {
            h2 { "Findings" }
            @for named in all {
                @if all.len() > 1 { h3 { (named.name) } }
                ul.findings { @for finding in &named.evaluation.findings { (finding_html(finding)) } }
                @if named.evaluation.findings.is_empty() { p { "None: too few measurements." } }
                @if !named.record.not_measured.is_empty() {
                    h3 { "Not measured" }
                    ul.missed {
                        @for missed in &named.record.not_measured { li { strong { (missed.what) } ": " (missed.why) } }
                    }
                }
            }
        }
    }
}

fn finding_html(finding: &Finding) -> Markup {
    let (class, sign) = match finding.kind {
        FindingKind::Answer => ("answer", "★"),
        FindingKind::Warning => ("warning", "▲"),
        FindingKind::Advice => ("advice", "➜"),
        FindingKind::Fact => ("fact", "●"),
        FindingKind::Doubtful => ("doubtful", "○"),
    };
    markup! {
        li class=(class) {
            span.kind { span aria-hidden="true" { (sign) } " " (record_text::kind(finding.kind)) }
            div {
                p { (with_hard_spaces(&finding.text)) }
                ul.evidence { @for evidence in &finding.evidence { li { (with_hard_spaces(evidence)) } } }
            }
        }
    }
}

fn section_html(section: &Section, all: &[NamedEvaluation]) -> Markup {
    let (details, shown): (Vec<&Table>, Vec<&Table>) =
        section.tables.iter().partition(|table| table.is_detail);
    let figures = charts::figures(section.id, all);
    markup! {
        section id=(section.id) {
            h2 { (section.title) }
            @if !section.reading.is_empty() { p.reading { (with_hard_spaces(section.reading)) } }
            @if section.tables.is_empty() { p.faint { "Not measured in this record." } }
            @if !figures.is_empty() {
                div.figures { @for figure in &figures { (figure_html(figure)) } }
            }
            div.tables { @for table in shown { (table_html(table, true)) } }
            @for table in details {
                details { summary { (table.title) } (table_html(table, false)) }
            }
        }
    }
}

fn figure_html(figure: &ChartFigure) -> Markup {
    markup! {
        figure {
            h3 { (figure.title) }
            @if !figure.legend.is_empty() {
                ul.legend { @for (sign, name) in &figure.legend { li { (sign) span { (name) } } } }
            }
            (figure.drawing)
            figcaption { (with_hard_spaces(&figure.caption)) }
        }
    }
}

fn table_html(table: &Table, with_title: bool) -> Markup {
    let class = |column: usize| match table.head.get(column).map(|head| head.1) {
        Some(Align::Right) => "figure",
        _ => "words",
    };
    markup! {
        div.block {
            @if with_title && !table.title.is_empty() { h3 { (table.title) } }
            div.table {
                table aria-label=(table.title) {
                    thead {
                        tr { @for (column, (name, _)) in table.head.iter().enumerate() {
                            th scope="col" class=(class(column)) { (name) }
                        } }
                    }
                    tbody {
                        @for row in &table.rows {
                            tr { @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" class=(class(0)) { (cell) } }
                                @else { td class=(class(column)) { (cell) } }
                            } }
                        }
                    }
                }
            }
            @for note in &table.notes { p.note { (with_hard_spaces(note)) } }
        }
    }
}

/// Replaces the space before each percent sign by a non-breaking one.
fn with_hard_spaces(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

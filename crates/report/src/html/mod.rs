//! The report as one self-contained HTML page: no scripts, fonts or images from elsewhere.

mod charts;

use crate::{
    Named,
    eval_text::{self, SIDE_BY_SIDE},
    sections::{self, Section},
};
use charts::Figure;
use manycore_analysis::{Finding, Kind};
use manycore_render::table::{Align, Table};
use manycore_text::names::printable_text;
use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

const STYLE: &str = include_str!("style.css");

/// Makes the browser refuse to load anything from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Renders the page of one record, or of several side by side.
pub fn html(all: &[Named]) -> String {
    let sections = sections::of(all);
    let title = title(all);
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
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
                    @for section in &sections { (lay_out(section, all)) }
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

fn title(all: &[Named]) -> String {
    match all {
        [one] => {
            let host = one.record.machine.system.hostname.as_deref().unwrap_or("unknown host");
            format!("manycore {}: {host}", one.record.verb)
        }
        _ => format!("manycore: {} runs side by side", all.len()),
    }
}

fn summary(named: &Named, several: bool) -> Markup {
    let [machine, run] = eval_text::summary(&named.record);
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

fn findings(all: &[Named]) -> Markup {
    markup! {
        section #findings {
            h2 { "Findings" }
            @for named in all {
                @if all.len() > 1 { h3 { (named.name) } }
                ul.findings { @for finding in &named.evaluation.findings { (lay_out_finding(finding)) } }
                @if named.evaluation.findings.is_empty() { p { "None: too few measurements." } }
                @if !named.record.missed.is_empty() {
                    h3 { "Not measured" }
                    ul.missed {
                        @for missed in &named.record.missed { li { strong { (missed.what) } ": " (missed.why) } }
                    }
                }
            }
        }
    }
}

fn lay_out_finding(finding: &Finding) -> Markup {
    let (class, sign) = match finding.kind {
        Kind::Answer => ("answer", "★"),
        Kind::Warning => ("warning", "▲"),
        Kind::Advice => ("advice", "➜"),
        Kind::Fact => ("fact", "●"),
        Kind::Doubtful => ("doubtful", "○"),
    };
    markup! {
        li class=(class) {
            span.kind { span aria-hidden="true" { (sign) } " " (eval_text::kind(finding.kind)) }
            div {
                p { (glued(&finding.text)) }
                ul.evidence { @for evidence in &finding.evidence { li { (glued(evidence)) } } }
            }
        }
    }
}

fn lay_out(section: &Section, all: &[Named]) -> Markup {
    let (raw, shown): (Vec<&Table>, Vec<&Table>) = section.tables.iter().partition(|table| table.raw);
    let figures = charts::of(section.id, all);
    markup! {
        section id=(section.id) {
            h2 { (section.title) }
            @if !section.reading.is_empty() { p.reading { (glued(section.reading)) } }
            @if section.tables.is_empty() { p.faint { "Not measured in this record." } }
            @if !figures.is_empty() {
                div.figures { @for figure in &figures { (lay_out_figure(figure)) } }
            }
            div.tables { @for table in shown { (lay_out_table(table, true)) } }
            @for table in raw {
                details { summary { (table.title) } (lay_out_table(table, false)) }
            }
        }
    }
}

fn lay_out_figure(figure: &Figure) -> Markup {
    markup! {
        figure {
            h3 { (figure.title) }
            @if !figure.legend.is_empty() {
                ul.legend { @for (sign, name) in &figure.legend { li { (sign) span { (name) } } } }
            }
            (figure.drawing)
            figcaption { (glued(&figure.caption)) }
        }
    }
}

fn lay_out_table(table: &Table, with_title: bool) -> Markup {
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
            @for note in &table.notes { p.note { (glued(note)) } }
        }
    }
}

/// Replaces the space before each percent sign by a non-breaking one.
fn glued(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

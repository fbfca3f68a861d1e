//! The report as one self-contained HTML page: no scripts, fonts or images from elsewhere.
//!
//! `page` lays out what it is given: a first screen and sections. `first` makes the first screen: the answer, what to do
//! next, and one line for each section. `section` makes a section: its line, its findings, and each chart beside its
//! table. `charts` draws.

pub(crate) mod charts;
mod first;
pub(crate) mod page;
pub(crate) mod section;

use crate::{NamedEvaluation, record_text, sections};
use manycore_analysis::summary::{SectionSummary, summarize};
use manycore_text::names::printable_text;
use maud::{Markup, html as markup};
use page::{Page, PageSection};

/// Renders the page of one record, or of several side by side.
pub fn html(all: &[NamedEvaluation]) -> String {
    // The lines of several records would not fit beside each other: their sections have none.
    let summaries: Vec<SectionSummary> = match all {
        [one] => summarize(&one.record, &one.evaluation),
        _ => Vec::new(),
    };
    let mut sections: Vec<PageSection> = sections::sections(all)
        .iter()
        .map(|section| section::section(section, all, summaries.iter().find(|one| one.section == section.id)))
        .collect();
    sections.extend(missing(all));
    let title = title(all);
    // The answer names the variants of a comparison: the heading does not repeat them.
    let heading = match all {
        [one] if !one.record.variants().is_empty() => format!("manycore {}", one.record.subcommand),
        _ => title.clone(),
    };
    let footer =
        "from the record alone. Figures are medians where no other figure is named; intervals are at 95 %.";
    let first = first::first_screen(all, &summaries);
    let page = Page { title, heading, first, sections, footer, addition: None };
    // A record may come from elsewhere. `maud` escapes HTML, but not characters that change the direction
    // of text.
    printable_text(&page.draw().into_string())
}

/// Returns what was measured: the variants of a comparison, another command or load, or the machine.
fn title(all: &[NamedEvaluation]) -> String {
    match all {
        [one] => {
            let record = &one.record;
            let host = || record.machine.system.hostname.as_deref().unwrap_or("unknown host");
            match &record.variants()[..] {
                [(a, of_a), (b, of_b)] => {
                    format!("manycore {}: {a} is {of_a}, {b} is {of_b}", record.subcommand)
                }
                [(titles, both)] => format!("manycore {}: {titles} are {both}", record.subcommand),
                [_, _, _, ..] => {
                    format!("manycore {}: {} variants", record.subcommand, record.variants().len())
                }
                _ if !record.subject.is_empty() => {
                    format!("manycore {}: {}", record.subcommand, record.subject)
                }
                _ => format!("manycore {}: {}", record.subcommand, host()),
            }
        }
        _ => format!("manycore: {} records side by side", all.len()),
    }
}

/// Returns the section of what could not be measured. `None` where nothing is missing.
fn missing(all: &[NamedEvaluation]) -> Option<PageSection> {
    if all.iter().all(|named| named.record.not_measured.is_empty()) {
        return None;
    }
    let body = markup! {
        @for named in all.iter().filter(|named| !named.record.not_measured.is_empty()) {
            @if all.len() > 1 { h3 { (named.name) } }
            ul.missed {
                @for missed in &named.record.not_measured { li { strong { (missed.what) } ": " (missed.why) } }
            }
        }
    };
    Some(PageSection {
        id: "not-measured".to_owned(),
        name: "Not measured".to_owned(),
        heading: "What was not measured, and why?".to_owned(),
        mark: None,
        body,
    })
}

/// Returns the label of a finding's kind with a sign.
fn kind(kind: manycore_analysis::FindingKind) -> Markup {
    use manycore_analysis::FindingKind;
    let (class, sign) = match kind {
        FindingKind::Answer => ("answer", "★"),
        FindingKind::Warning => ("warning", "▲"),
        FindingKind::Advice => ("advice", "➜"),
        FindingKind::Fact => ("fact", "●"),
        FindingKind::Doubtful => ("doubtful", "○"),
    };
    markup! {
        span class={ "kind " (class) } { span aria-hidden="true" { (sign) } " " (record_text::kind(kind)) }
    }
}

/// Replaces the space before each percent sign by a non-breaking one.
fn with_hard_spaces(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

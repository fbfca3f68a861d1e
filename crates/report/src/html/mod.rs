//! The report as one self-contained HTML page: no scripts, fonts or images from elsewhere.
//!
//! `page` lays out what it is given: a first screen and sections. `first` makes the first screen: the answer, what to do
//! next, and one line for each section. `section` makes a section: its line, its findings, and each chart beside its
//! table. `charts` draws.

mod charts;
mod first;
mod page;
mod section;

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
    let page = Page { title: title(all), first: first::first_screen(all, &summaries), sections };
    // A record may come from elsewhere. `maud` escapes HTML, but not characters that change the direction
    // of text.
    printable_text(&page.draw().into_string())
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

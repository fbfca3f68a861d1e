//! The page of a recording: one file, without scripts and with nothing from elsewhere.
//!
//! [`Courses`] are read from the samples once, with at most 240 moments each; from them `sections` are made.

mod course;
mod groups;
mod sections;
mod time;
mod uses;

use crate::history::{RecordingEnd, Replay};
pub use course::{Courses, EndedProcess};
use manycore_report::page::Page;
use manycore_text::{
    names::{printable, printable_text},
    units::{counted, duration},
};
use maud::{Markup, html};
use std::time::{Duration, UNIX_EPOCH};

/// Lays out the page of a recording and its courses. `findings` are shown first, one on each line.
pub fn page(replay: &Replay, courses: &Courses, findings: &[String]) -> String {
    let host = replay.head().machine.system.hostname.as_deref().map_or("unknown host".to_owned(), printable);
    let page = Page {
        title: format!("manycore top: {host}"),
        heading: format!("manycore top: {host}"),
        first: first(replay, courses, findings),
        sections: sections::all(courses, &replay.head().machine),
        footer: "from the recording alone. Figures are means over time where no other figure is named.",
        addition: None,
    };
    printable_text(&page.draw().into_string())
}

/// Returns a time in milliseconds since 1970 as text.
fn moment(unix_ms: u64) -> String {
    // The year 9999 is the last one that the format has.
    let time = UNIX_EPOCH + Duration::from_millis(unix_ms.min(253_402_300_799_000));
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC")
}

fn first(replay: &Replay, courses: &Courses, findings: &[String]) -> Markup {
    let machine = &replay.head().machine;
    let began = replay.unix_ms().map_or_else(String::new, |(first, _)| moment(first));
    let end = match replay.end() {
        RecordingEnd::Finished => None,
        RecordingEnd::Interrupted => {
            Some("The recording was not finished: up to a minute is missing.".to_owned())
        }
        RecordingEnd::Damaged { offset, why } => {
            Some(format!("The recording is damaged at byte {offset} ({why}) and was read up to there."))
        }
    };
    html! {
        p.conditions {
            (counted(machine.online.len(), "CPU")) ", kernel "
            (machine.system.kernel.as_deref().map_or("unknown".to_owned(), printable)) "; "
            (counted(replay.len(), "sample"))
            @if courses.seconds() > 0.0 { " in " (duration(courses.seconds())) }
            @if !replay.is_empty() { " from " (began) }
            @if courses.stride() > 1 { "; each " (courses.stride()) " samples are one interval here" }
        }
        section.answer aria-label="The answer" {
            @for line in sections::summary(courses, machine) { p { (line) } }
        }
        @for line in end.iter().map(String::as_str).chain(courses.stopped.as_deref()) { p.note { (line) } }
        @if !findings.is_empty() {
            h2.label { "Findings" }
            ul.missed { @for finding in findings { li { (finding) } } }
        }
    }
}

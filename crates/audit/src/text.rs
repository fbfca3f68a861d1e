//! An audit as text: each finding with its evidence and its fix, then what was examined.

use crate::{Audit, Finding, Severity, Unexamined, UnexaminedKind};
use manycore_render::table::paragraph;
use manycore_text::names::printable_text;

/// Width of the severity column, without the space after it.
const LEAD: usize = 7;

/// Returns the audit in lines of at most 100 columns.
pub fn render(audit: &Audit) -> String {
    let mut text = String::new();
    for finding in &audit.findings {
        write_finding(finding, &mut text);
        text.push('\n');
    }
    for unexamined in &audit.unexamined {
        paragraph("not examined: ", &unexamined_text(unexamined), 0, &mut text);
    }
    let found = match audit.findings.len() {
        0 => "nothing found".to_owned(),
        1 => "1 finding".to_owned(),
        several => format!("{several} findings"),
    };
    let examined = &audit.examined;
    let of = |count: usize, one: &str, several: &str| {
        format!("{count} {}", if count == 1 { one } else { several })
    };
    text.push_str(&format!(
        "{found}; examined {} with {} for {:.1} s\n",
        of(examined.processes, "process", "processes"),
        of(examined.threads, "thread", "threads"),
        examined.seconds
    ));
    // Processes choose their own names, which may hold control characters.
    printable_text(&text)
}

fn write_finding(finding: &Finding, text: &mut String) {
    let severity = match finding.severity {
        Severity::Problem => "PROBLEM",
        Severity::Risk => "risk",
    };
    paragraph(&format!("{severity:<LEAD$} "), &finding.headline, 0, text);
    for evidence in &finding.evidence {
        paragraph(" - ", evidence, LEAD, text);
    }
    paragraph(" fix: ", &finding.fix, LEAD, text);
}

fn unexamined_text(unexamined: &Unexamined) -> String {
    let Unexamined { what, count } = unexamined;
    let (one, several) = if *count == 1 { ("process", "group") } else { ("processes", "groups") };
    match what {
        UnexaminedKind::Ended => format!("{count} {one} that ended during the audit"),
        UnexaminedKind::Groups => format!(
            "limits of {count} control {several} outside of this container: run the audit on the host"
        ),
        UnexaminedKind::Environment => format!("environment of {count} {one}: run the audit as root"),
        UnexaminedKind::Program => format!("program and libraries of {count} {one}: run the audit as root"),
        UnexaminedKind::Hidden => {
            "processes of other users: /proc is mounted with hidepid; run the audit as root".to_owned()
        }
        UnexaminedKind::Memory => format!("memory of {count} {one}: run the audit as root"),
    }
}

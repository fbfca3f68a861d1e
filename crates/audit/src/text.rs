//! An audit as text: each finding with its evidence and its cure, then what was looked at.

use crate::{Audit, Finding, NotSeen, Severity, Unseen};
use manycore_render::table::paragraph;
use manycore_text::names::printable_text;

/// Room of a finding's severity.
const LEAD: usize = 7;

/// Lines of at most 100 columns.
pub fn render(audit: &Audit) -> String {
    let mut text = String::new();
    for finding in &audit.findings {
        lay_out(finding, &mut text);
        text.push('\n');
    }
    for not_seen in &audit.unseen {
        paragraph("not looked at: ", &why(not_seen), 0, &mut text);
    }
    let found = match audit.findings.len() {
        0 => "nothing found".to_owned(),
        1 => "1 finding".to_owned(),
        several => format!("{several} findings"),
    };
    let looked = &audit.looked_at;
    let of = |count: usize, one: &str, several: &str| {
        format!("{count} {}", if count == 1 { one } else { several })
    };
    text.push_str(&format!(
        "{found}; looked at {} with {} for {:.1} s\n",
        of(looked.processes, "process", "processes"),
        of(looked.threads, "thread", "threads"),
        looked.seconds
    ));
    // Processes name themselves.
    printable_text(&text)
}

fn lay_out(finding: &Finding, text: &mut String) {
    let severity = match finding.severity {
        Severity::Harm => "HARM",
        Severity::Risk => "risk",
    };
    paragraph(&format!("{severity:<LEAD$}"), &finding.headline, 0, text);
    for evidence in &finding.evidence {
        paragraph("- ", evidence, LEAD, text);
    }
    paragraph("cure: ", &finding.cure, LEAD, text);
}

fn why(not_seen: &NotSeen) -> String {
    let NotSeen { what, count } = not_seen;
    let (one, several) = if *count == 1 { ("process", "group") } else { ("processes", "groups") };
    match what {
        Unseen::Ended => format!("{count} {one} that ended meanwhile"),
        Unseen::Groups => format!(
            "limits of {count} control {several} that cannot be seen from here: run it outside of the container"
        ),
        Unseen::Environment => format!("environment of {count} {one}: run it as root"),
        Unseen::Program => format!("program and libraries of {count} {one}: run it as root"),
        Unseen::Hidden => {
            "processes of other users: /proc is mounted with hidepid; run it as root".to_owned()
        }
        Unseen::Memory => format!("memory of {count} {one}: run it as root"),
    }
}

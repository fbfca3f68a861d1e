//! An audit for reading: how many findings there are, each with its evidence and its fix, then what was examined.

use crate::{Audit, Finding, PinnedTenant, Severity, Unexamined, UnexaminedKind, words};
use manycore_render::{
    document::{Document, Extent, Item},
    terminal::Mark,
};
use manycore_text::units::counted;

/// Width of the column of severities.
const LABEL_COLUMNS: usize = 7;

/// Returns the audit; a brief one has its most important findings.
pub fn render(audit: &Audit, extent: Extent) -> Document {
    let mut document = Document::new();
    let (mark, found) = conclusion(audit);
    let examined = &audit.examined;
    let processes = if examined.processes == 1 { "process" } else { "processes" };
    document.item(Item::new(
        format!("{found};"),
        Some(mark),
        format!(
            "examined {} {processes} with {} for {:.1} s",
            examined.processes,
            counted(examined.threads, "thread"),
            examined.seconds
        ),
    ));
    // Problems come first: the order of the findings within a severity is kept.
    let mut findings: Vec<&Finding> = audit.findings.iter().collect();
    findings.sort_by_key(|finding| matches!(finding.severity, Severity::Risk));
    for finding in findings.iter().take(extent.findings()) {
        document.gap();
        document.item(item(finding));
    }
    document.left_out(findings.len(), extent);
    if !audit.pinned.is_empty() {
        document.gap();
    }
    for tenant in audit.pinned.iter().take(extent.findings()) {
        document.item(pinned_item(tenant));
    }
    if !audit.unexamined.is_empty() {
        document.gap();
    }
    for unexamined in &audit.unexamined {
        document.item(Item::new("not examined:", None, unexamined_text(unexamined)));
    }
    document
}

/// Returns how many findings there are of each severity.
fn conclusion(audit: &Audit) -> (Mark, String) {
    let problems = audit.findings.iter().filter(|one| matches!(one.severity, Severity::Problem)).count();
    let risks = audit.findings.len() - problems;
    let risks_counted = counted(risks, "risk");
    match (problems, risks) {
        (0, 0) => (Mark::Good, "nothing found".to_owned()),
        (0, _) => (Mark::Warning, risks_counted),
        (_, 0) => (Mark::Bad, counted(problems, "problem")),
        _ => (Mark::Bad, format!("{}, {risks_counted}", counted(problems, "problem"))),
    }
}

fn item(finding: &Finding) -> Item {
    let (label, mark) = match finding.severity {
        Severity::Problem => ("PROBLEM", Mark::Bad),
        Severity::Risk => ("risk", Mark::Warning),
    };
    let mut item = Item { label_columns: LABEL_COLUMNS, ..Item::new(label, Some(mark), &finding.headline) };
    item.details.extend(finding.evidence.iter().map(|evidence| ("", evidence.clone())));
    item.with_detail("fix", &finding.fix)
}

fn pinned_item(tenant: &PinnedTenant) -> Item {
    let PinnedTenant { claim, why, more } = tenant;
    let words = format!(
        "{} to {}, used {:.2} CPUs: {why}",
        words::owner(claim),
        words::cpus(&claim.cpus),
        claim.busy_cpus
    );
    let mut item = Item::new("pinned:", None, words);
    item.details.extend(more.iter().map(|more| ("", more.clone())));
    item
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
            "processes of other users: /proc is mounted with hidepid; run the audit as root with CAP_SYS_PTRACE".to_owned()
        }
        UnexaminedKind::Memory => format!("memory of {count} {one}: run the audit as root"),
    }
}

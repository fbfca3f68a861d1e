//! The report as text: the machine in two lines, the findings, then compact tables.

use crate::{
    NamedEvaluation,
    sections::{self, Section},
};
use manycore_analysis::{Finding, FindingKind};
use manycore_experiment::Record;
use manycore_render::table::{Table, WIDTH, wrap};
use manycore_text::{names::printable_text, units::bytes};

/// Width of the column for a finding's kind.
const KIND_WIDTH: usize = 9;

/// Renders one record, or several side by side, in lines of at most 100 columns.
pub fn text(all: &[NamedEvaluation]) -> String {
    let mut text = String::new();
    for named in all {
        record_summary(named, all.len() > 1, &mut text);
    }
    if all.len() > 1 {
        paragraph(SIDE_BY_SIDE, 0, &mut text);
        text.push('\n');
    }
    // For a comparison of commands the machine is less relevant. It is on the HTML page and in the record.
    let about_machine = all.iter().any(|named| named.record.subcommand == "eval");
    for section in
        sections::sections(all).iter().filter(|section| about_machine || section.id != "conditions")
    {
        section_text(section, all, &mut text);
    }
    printable_text(&text)
}

/// Note for records that are shown side by side.
pub const SIDE_BY_SIDE: &str = "The records in the columns were not interleaved: a difference between them may also \
                                be due to anything else that changed in between.";

fn record_summary(named: &NamedEvaluation, several: bool, text: &mut String) {
    let record = &named.record;
    if several {
        paragraph(&format!("=== {} ===", named.name), 0, text);
    }
    let [machine, run] = summary(record);
    paragraph(&machine, 0, text);
    paragraph(&run, 0, text);
    text.push('\n');
    heading("Findings", text);
    for finding in &named.evaluation.findings {
        finding_text(finding, text);
    }
    if named.evaluation.findings.is_empty() {
        text.push_str("  none: too few measurements\n");
    }
    text.push('\n');
    if !record.not_measured.is_empty() {
        heading("Not measured", text);
        for missed in &record.not_measured {
            paragraph(&format!("{}: {}", missed.what, missed.why), 2, text);
        }
        text.push('\n');
    }
}

/// Returns the machine and the run, one line each.
pub fn summary(record: &Record) -> [String; 2] {
    let system = &record.machine.system;
    let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let guest = system.hypervisor.as_ref().map(|name| format!(", {name} guest")).unwrap_or_default();
    let memory = system.memory_bytes.map(|size| format!(", {}", bytes(size))).unwrap_or_default();
    let interrupted = if record.interrupted { ", INTERRUPTED" } else { "" };
    [
        format!(
            "{}: {}, {} CPUs{memory}{guest}",
            or_unknown(&system.hostname),
            or_unknown(&system.cpu_model),
            record.machine.online.len()
        ),
        format!(
            "{}, Linux {}; {}, {}, {:.0} s{interrupted}",
            or_unknown(&system.os),
            or_unknown(&system.kernel),
            record.command(),
            record.started,
            record.seconds
        ),
    ]
}

fn finding_text(finding: &Finding, text: &mut String) {
    let kind = kind(finding.kind);
    let indent = " ".repeat(KIND_WIDTH + 2);
    for (index, line) in wrap(&finding.text, WIDTH - KIND_WIDTH - 2).iter().enumerate() {
        let lead = if index == 0 { format!("  {kind:<KIND_WIDTH$}") } else { indent.clone() };
        text.push_str(&format!("{lead}{line}\n"));
    }
    for evidence in &finding.evidence {
        for (index, line) in wrap(evidence, WIDTH - KIND_WIDTH - 4).iter().enumerate() {
            text.push_str(&format!("{indent}{} {line}\n", if index == 0 { "-" } else { " " }));
        }
    }
}

/// Returns the label of a kind of finding.
pub fn kind(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Answer => "ANSWER",
        FindingKind::Warning => "WARNING",
        FindingKind::Advice => "advice",
        FindingKind::Fact => "found",
        FindingKind::Doubtful => "doubtful",
    }
}

fn section_text(section: &Section, all: &[NamedEvaluation], text: &mut String) {
    heading(section.title, text);
    let tables: Vec<&Table> = section.tables.iter().filter(|table| !table.is_detail).collect();
    if tables.is_empty() {
        text.push_str(match all.len() {
            1 => "  not in this record\n\n",
            _ => "  in none of these records\n\n",
        });
    }
    for table in tables {
        if !table.title.is_empty() {
            paragraph(&format!("{}:", table.title), 2, text);
        }
        text.push_str(&table.text());
        for note in &table.notes {
            paragraph(note, 2, text);
        }
        text.push('\n');
    }
}

fn heading(title: &str, text: &mut String) {
    text.push_str(&format!("{}\n", title.to_uppercase()));
}

fn paragraph(words: &str, indent: usize, text: &mut String) {
    for line in wrap(words, WIDTH - indent) {
        text.push_str(&format!("{:indent$}{line}\n", ""));
    }
}

//! The report for reading: the findings, then compact tables, then the machine and the run.

use crate::{
    NamedEvaluation,
    importance::most_important,
    sections::{self, Section, differences::headlines},
    session_comparison::gate_items,
};
use manycore_analysis::{
    Finding, FindingKind,
    summary::{SectionSummary, SummaryMark, summarize},
};
use manycore_experiment::Record;
use manycore_render::{
    document::{Document, Extent, Item},
    table::Table,
    terminal::Mark,
};
use manycore_text::units::bytes;

/// Width of the column for a finding's kind.
const KIND_COLUMNS: usize = 9;

/// Indentation below a heading.
const INDENT: usize = 2;

/// Returns the report of one record, or of several side by side.
pub fn document(all: &[NamedEvaluation], extent: Extent) -> Document {
    let mut document = Document::new();
    // An evaluation answers many questions; other records answer one, with their first finding.
    if let [one] = all
        && one.record.subcommand == "eval"
    {
        summary_lines(one, &mut document);
    }
    for named in all {
        findings(named, all.len() > 1, extent, &mut document);
    }
    if all.len() > 1 {
        for headline in headlines(all) {
            document.marked(Mark::Strong, headline);
        }
        document.paragraph(SIDE_BY_SIDE);
        document.gap();
    }
    // For a comparison of commands the machine is less relevant. It is on the HTML page and in the record.
    let about_machine = all.iter().any(|named| named.record.subcommand == "eval");
    let sections = sections::sections(all);
    // The tables of stored records are beside their answers.
    let is_shown = |section: &&Section| match section.id {
        "conditions" => about_machine,
        id => id != "baseline",
    };
    for section in sections.iter().filter(is_shown) {
        section_tables(section, all.len(), extent, &mut document);
    }
    for named in all {
        conditions(named, all.len() > 1, &mut document);
    }
    document
}

/// Note for records that are shown side by side.
pub const SIDE_BY_SIDE: &str = "The records in the columns were not interleaved: a difference between them may also \
                                be due to anything else that changed in between.";

/// Adds a line for each section with its mark: `ok`, `!` for attention, `-` for neither; and the command to run next.
fn summary_lines(named: &NamedEvaluation, document: &mut Document) {
    document.heading("Summary");
    for SectionSummary { mark, question, line, next, .. } in summarize(&named.record, &named.evaluation) {
        let (label, mark) = match mark {
            SummaryMark::Good => ("ok", Some(Mark::Good)),
            SummaryMark::Neutral => ("-", None),
            SummaryMark::Attention => ("!", Some(Mark::Warning)),
        };
        let item =
            Item { indent: INDENT, label_columns: 2, ..Item::new(label, mark, format!("{question} {line}")) };
        document.item(match next {
            Some(next) => item.with_detail("next", next),
            None => item,
        });
    }
    document.gap();
}

fn findings(named: &NamedEvaluation, several: bool, extent: Extent, document: &mut Document) {
    if several {
        document.strong(format!("=== {} ===", named.name));
    }
    if let Some(baseline) = &named.baseline {
        baseline.context(document);
    }
    document.heading("Findings");
    let findings = &named.evaluation.findings;
    for finding in most_important(findings, extent.findings()) {
        document.item(finding_item(finding));
    }
    if findings.is_empty() {
        document.indented(INDENT, "none: too few measurements");
    }
    gate_items(named.gates(), document);
    document.left_out(findings.len(), extent);
    document.gap();
    if let Some(baseline) = &named.baseline {
        baseline.figures(document);
    }
}

/// Adds what was not measured, the machine and the run.
fn conditions(named: &NamedEvaluation, several: bool, document: &mut Document) {
    let record = &named.record;
    if several {
        document.strong(format!("=== {} ===", named.name));
    }
    if !record.not_measured.is_empty() {
        document.heading("Not measured");
        for missed in &record.not_measured {
            document.indented(INDENT, format!("{}: {}", missed.what, missed.why));
        }
        document.gap();
    }
    for line in summary(record) {
        document.paragraph(line);
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

fn finding_item(finding: &Finding) -> Item {
    let evidence = finding.evidence.iter().map(|evidence| ("", evidence.clone()));
    Item {
        is_answer: finding.kind == FindingKind::Answer,
        details: evidence.collect(),
        indent: INDENT,
        label_columns: KIND_COLUMNS - 1,
        ..Item::new(kind(finding.kind), mark(finding.kind), &finding.text)
    }
}

/// Returns the weight of the label of a finding.
fn mark(kind: FindingKind) -> Option<Mark> {
    match kind {
        FindingKind::Answer => Some(Mark::Strong),
        FindingKind::Warning | FindingKind::Doubtful => Some(Mark::Warning),
        FindingKind::Advice => Some(Mark::Info),
        FindingKind::Fact => None,
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

fn section_tables(section: &Section, records: usize, extent: Extent, document: &mut Document) {
    document.heading(section.title);
    let tables: Vec<&Table> =
        section.tables.iter().filter(|table| !table.is_detail || extent == Extent::Full).collect();
    if tables.is_empty() {
        document.indented(
            INDENT,
            match records {
                1 => "not in this record",
                _ => "in none of these records",
            },
        );
        document.gap();
    }
    for table in tables {
        document.table(table.clone());
        document.gap();
    }
}

//! `JUnit` XML, which GitLab, Jenkins and others show: a test case for each gate, or for each answer without gates.

use super::Exported;
use crate::NamedEvaluation;
use manycore_analysis::FindingKind;
use manycore_experiment::record::{GateDecision, GateOutcome};
use manycore_text::names::printable;
use std::fmt::Write;

/// A test case: its name, and what it shows.
struct Case {
    name: String,
    text: String,
    result: CaseResult,
}

#[derive(PartialEq)]
enum CaseResult {
    Passed,
    Failed,
    /// Neither, where that counts as passed.
    Skipped,
}

pub(super) fn text(exported: &Exported) -> String {
    let cases = cases(exported);
    let count = |result: CaseResult| cases.iter().filter(|case| case.result == result).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
        cases.len(),
        count(CaseResult::Failed),
        count(CaseResult::Skipped)
    );
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"manycore\" {counts}>\n"
    );
    for case in &cases {
        let _ = writeln!(text, "    <testcase classname=\"manycore\" name=\"{}\">", escaped(&case.name));
        let said = escaped(&case.text);
        let _ = match case.result {
            CaseResult::Passed => writeln!(text, "      <system-out>{said}</system-out>"),
            CaseResult::Failed => {
                writeln!(text, "      <failure message=\"{said}\" type=\"gate\">{said}</failure>")
            }
            CaseResult::Skipped => writeln!(text, "      <skipped message=\"{said}\"/>"),
        };
        text.push_str("    </testcase>\n");
    }
    text + "  </testsuite>\n</testsuites>\n"
}

fn cases(exported: &Exported) -> Vec<Case> {
    let of_sessions = exported.sessions.into_iter().flat_map(|sessions| &sessions.gates);
    // Beside a comparison of records, the gates of their own runs are not the result.
    let of_records =
        exported.all.iter().filter(|_| exported.sessions.is_none()).flat_map(NamedEvaluation::gates);
    let gates: Vec<Case> = of_records.chain(of_sessions).map(of_gate).collect();
    if !gates.is_empty() {
        return gates;
    }
    let answer = |text: &String| Case { name: text.clone(), text: text.clone(), result: CaseResult::Passed };
    if let Some(sessions) = exported.sessions {
        return sessions.answers.iter().map(answer).collect();
    }
    let findings = exported.all.iter().flat_map(|named| &named.evaluation.findings);
    findings
        .filter(|finding| finding.kind == FindingKind::Answer)
        .map(|finding| answer(&finding.text))
        .collect()
}

fn of_gate(gate: &GateDecision) -> Case {
    let result = match gate.outcome {
        _ if gate.is_failure => CaseResult::Failed,
        GateOutcome::Inconclusive => CaseResult::Skipped,
        _ => CaseResult::Passed,
    };
    Case { name: format!("{}: {}", gate.gate, gate.what), text: gate.text.clone(), result }
}

/// Escapes text for an attribute or an element. XML has no control characters.
fn escaped(text: &str) -> String {
    let text = printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

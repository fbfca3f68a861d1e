//! What a run found, for the head of a page and for a list of results.

use super::summarize;
use crate::{Evaluation, FindingKind};
use manycore_experiment::Record;

/// Maximum number of conclusions of a run that does not have one answer.
const MAX_CONCLUSIONS: usize = 3;

/// Sections about the measurement itself: their lines are no conclusions.
const ABOUT_THE_RUN: [&str; 3] = ["conditions", "noise", "counters"];

/// Returns the answers of a run. Where it has no single question: what it advises and found, at most three. Where
/// nothing is certain, what is doubtful, marked as such, or the lines of its sections. Where there is nothing at all,
/// why. Never empty.
pub fn conclusions(record: &Record, evaluation: &Evaluation) -> Vec<String> {
    let of = |kind: FindingKind| {
        let findings = evaluation.findings.iter();
        findings.filter(move |finding| finding.kind == kind).map(|finding| finding.text.clone())
    };
    let answers: Vec<String> = of(FindingKind::Answer).collect();
    let advice = || of(FindingKind::Advice).chain(of(FindingKind::Fact));
    let doubtful = || of(FindingKind::Doubtful).map(|text| format!("Doubtful: {text}"));
    let lines = || {
        let all = summarize(record, evaluation).into_iter();
        all.filter(|summary| !ABOUT_THE_RUN.contains(&summary.section)).map(|summary| summary.line)
    };
    let none = || match of(FindingKind::Warning).next() {
        Some(warning) => format!("No reliable answer. {warning}"),
        None => "No answer: too few measurements.".to_owned(),
    };
    if answers.is_empty() {
        let first = |found: Vec<String>| Some(found).filter(|found| !found.is_empty());
        first(advice().take(MAX_CONCLUSIONS).collect())
            .or_else(|| first(doubtful().take(MAX_CONCLUSIONS).collect()))
            .or_else(|| first(lines().take(MAX_CONCLUSIONS).collect()))
            .unwrap_or_else(|| vec![none()])
    } else {
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;

    fn of(record: &Record) -> Vec<String> {
        conclusions(record, &Evaluation::from_record(record))
    }

    #[test]
    fn the_answer_is_the_conclusion_and_an_evaluation_has_three() {
        let [answer] = &of(&SyntheticMachine::guest().compare(1.2))[..] else { panic!() };
        assert!(answer.starts_with("B is faster than A"), "{answer}");
        assert_eq!(of(&SyntheticMachine::server().record()).len(), 3);
    }

    /// Regression test: pages of runs with doubtful facts, or with a line and no finding, said "No answer: too few
    /// measurements."
    #[test]
    fn there_is_no_answer_only_where_nothing_was_found() {
        let guest = || SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.record();
        let evaluation = |kind: FindingKind| {
            let mut evaluation = Evaluation::from_record(&guest());
            evaluation.findings.retain(|finding| finding.kind == kind);
            evaluation
        };
        let doubtful =
            Evaluation::from_record(&SyntheticMachine { steal: 0.4, ..SyntheticMachine::guest() }.record());
        let only_doubtful = Evaluation {
            findings: doubtful.findings.into_iter().filter(|one| one.kind == FindingKind::Doubtful).collect(),
            ..Evaluation::default()
        };
        let found = conclusions(&guest(), &only_doubtful);
        assert!(found[0].starts_with("Doubtful: "), "{found:?}");
        let lines = conclusions(&guest(), &evaluation(FindingKind::Answer));
        assert!(!lines.is_empty() && lines.iter().all(|line| !line.contains("No answer")), "{lines:?}");
        assert_eq!(of(&Record::default()), ["No answer: too few measurements."]);
        let warned = Evaluation {
            findings: evaluation(FindingKind::Warning).findings.into_iter().take(1).collect(),
            ..Evaluation::default()
        };
        let found = conclusions(&Record::default(), &warned);
        assert_eq!(found, [format!("No reliable answer. {}", warned.findings[0].text)]);
    }
}

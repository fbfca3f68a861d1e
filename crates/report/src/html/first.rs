//! The first screen: the answer, what to do next, one line for each section, and the conditions.

use crate::{
    NamedEvaluation,
    html::{page::dot, with_hard_spaces},
    record_text::{self, SIDE_BY_SIDE},
    sections::differences::headlines,
};
use manycore_analysis::{
    FindingKind,
    summary::{SectionSummary, next_steps},
};
use maud::{Markup, html};

/// Maximum number of conclusions of a run that does not have one answer.
const MAX_CONCLUSIONS: usize = 3;

/// Maximum number of commands.
const MAX_COMMANDS: usize = 3;

pub(super) fn first_screen(all: &[NamedEvaluation], summaries: &[SectionSummary]) -> Markup {
    html! {
        @for named in all { (conditions(named, all.len() > 1)) }
        @if let [one] = all {
            (answer(one))
            (next(summaries))
            (lines(one, summaries))
        } @else {
            section.answer aria-label="What differs" {
                @for headline in headlines(all) { p { (with_hard_spaces(&headline)) } }
            }
            p.aside { (SIDE_BY_SIDE) }
            @for named in all { (answer_of(named)) }
        }
    }
}

fn conditions(named: &NamedEvaluation, several: bool) -> Markup {
    let [machine, run] = record_text::summary(&named.record);
    html! {
        p.conditions { @if several { strong { (named.name) } " " } (machine) "; " (run) }
    }
}

/// Returns the answers; where the run has no single question, what it advises.
fn conclusions(named: &NamedEvaluation) -> Vec<&str> {
    let of = |kind: FindingKind| {
        let findings = named.evaluation.findings.iter();
        findings.filter(move |finding| finding.kind == kind).map(|finding| finding.text.as_str())
    };
    let answers: Vec<&str> = of(FindingKind::Answer).collect();
    if !answers.is_empty() {
        return answers;
    }
    of(FindingKind::Advice).chain(of(FindingKind::Fact)).take(MAX_CONCLUSIONS).collect()
}

fn answer(named: &NamedEvaluation) -> Markup {
    let conclusions = conclusions(named);
    html! {
        section.answer aria-label="The answer" {
            @for conclusion in &conclusions { p { (with_hard_spaces(conclusion)) } }
            @if conclusions.is_empty() { p { (with_hard_spaces(&no_answer(named))) } }
        }
    }
}

/// Says why a run has no answer: the first warning, or too few measurements.
fn no_answer(named: &NamedEvaluation) -> String {
    let mut findings = named.evaluation.findings.iter();
    match findings.find(|finding| finding.kind == FindingKind::Warning) {
        Some(warning) => format!("No reliable answer. {}", warning.text),
        None => "No answer: too few measurements.".to_owned(),
    }
}

fn answer_of(named: &NamedEvaluation) -> Markup {
    html! {
        h2.label { (named.name) }
        (answer(named))
    }
}

/// Lists the commands that follow, each with the sections from which it follows: those that need attention first.
fn next(summaries: &[SectionSummary]) -> Markup {
    let steps = next_steps(summaries);
    html! {
        @if !steps.is_empty() {
            section.next aria-labelledby="next-heading" {
                h2.label id="next-heading" { "What to do next" }
                ul {
                    @for step in steps.iter().take(MAX_COMMANDS) {
                        li { code { (step.command) } span.why { (step.questions.join(" ")) } }
                    }
                }
            }
        }
    }
}

/// Lists the sections, without those whose line is the answer above.
fn lines(named: &NamedEvaluation, summaries: &[SectionSummary]) -> Markup {
    let answers = conclusions(named);
    let others: Vec<&SectionSummary> =
        summaries.iter().filter(|summary| !answers.contains(&summary.line.as_str())).collect();
    html! {
        @if !others.is_empty() {
            section.lines aria-labelledby="lines-heading" {
                h2.label id="lines-heading" { "Section by section" }
                ul {
                    @for summary in others {
                        li {
                            (dot(Some(summary.mark)))
                            a href={ "#" (summary.section) } { (summary.question) }
                            p { (with_hard_spaces(&summary.line)) }
                        }
                    }
                }
            }
        }
    }
}

//! One line for each section of a record: the answer to the question of the section with its figure and interval, a
//! mark, and the next command where one follows from the evidence.
//!
//! A line is never stronger than its interval. What the interval leaves open has the mark [`SummaryMark::Neutral`], and
//! the line says what would decide it. What the conditions do not support is not marked as good.

mod conclusions;
mod machine;
mod next;
mod sharing;
mod study;
mod workers;

pub use conclusions::conclusions;

use crate::{Evaluation, FindingKind, disturbance, findings};
use manycore_experiment::Record;
use manycore_stats::verdict::Verdict;
use manycore_text::{names::list, units::interval};
use serde::Serialize;

/// What a line means for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SummaryMark {
    /// The interval shows a good result, or that nothing needs to be done.
    Good,
    /// Inconclusive, or a figure that is neither good nor bad.
    Neutral,
    /// The interval shows something that costs performance, or the figures of the section are doubtful.
    Attention,
}

impl SummaryMark {
    /// Returns the mark as a word: `good`, `neutral`, `attention`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Neutral => "neutral",
            Self::Attention => "attention",
        }
    }
}

/// The summary of one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SectionSummary {
    /// Id of the section in reports: `scaling`, `comparison`.
    pub section: &'static str,
    /// The question that the section answers. It may contain names from the record.
    pub question: String,
    /// What the line means.
    pub mark: SummaryMark,
    /// The answer, with its figure and interval. It may contain names from the record.
    pub line: String,
    /// The command to run next, as typed in a shell. `COMMAND` stands for a command of the reader's choice. `None`
    /// where nothing follows from the evidence.
    pub next: Option<String>,
}

/// The sections in the order of reports, each with its question.
const QUESTIONS: [(&str, &str); 16] = [
    ("conditions", "Was the machine quiet?"),
    ("noise", "How much do two identical variants differ?"),
    ("scaling", "How does the work scale over workers?"),
    ("counters", "Did the workers get their CPU time?"),
    ("modes", "Are threads or processes faster than one task after another?"),
    ("matrix", "How fast is floating-point arithmetic?"),
    ("affinity", "Does pinning processes to CPUs help?"),
    ("latency", "How long does a cache line take from CPU to CPU?"),
    ("stream", "How fast is memory?"),
    ("sysbench", "Do the figures agree with those of sysbench?"),
    ("contention", "How much work is lost when workers share something?"),
    ("comparison", "Which variant is better?"),
    ("tuning", "Which placement is best?"),
    ("density", "How many instances fit?"),
    ("limits", "Are the limits enforced?"),
    ("spawn", "How many light processes fit?"),
];

/// Returns the question that a section answers, of one record or of several side by side. `None` for an unknown section.
pub fn question(section: &str, evaluations: &[&Evaluation]) -> Option<String> {
    let (_, usual) = QUESTIONS.iter().find(|(id, _)| *id == section)?;
    let comparisons = evaluations.iter().filter_map(|evaluation| evaluation.comparison.as_ref());
    let mut own: Vec<String> =
        comparisons.filter(|_| section == "comparison").map(findings::comparison_question).collect();
    own.dedup();
    match <[String; 1]>::try_from(own) {
        Ok([question]) => Some(question),
        Err(_) => Some((*usual).to_owned()),
    }
}

/// A line before it belongs to a section.
struct Line {
    mark: SummaryMark,
    text: String,
    next: Option<String>,
}

impl Line {
    fn new(mark: SummaryMark, text: impl Into<String>) -> Self {
        Self { mark, text: text.into(), next: None }
    }

    fn then(self, next: impl Into<Option<String>>) -> Self {
        Self { next: next.into(), ..self }
    }
}

/// Returns one line for each section that was measured, in the order of reports. Lines that answer the question of a
/// run (a comparison, a search, a check of limits, light processes) come first.
pub fn summarize(record: &Record, evaluation: &Evaluation) -> Vec<SectionSummary> {
    let line = |section: &str| -> Option<Line> {
        match section {
            "conditions" => Some(machine::conditions(record, evaluation)),
            "noise" => machine::noise(record, evaluation),
            "scaling" => workers::scaling(record, evaluation),
            "counters" => workers::counters(evaluation),
            "modes" => workers::modes(record, evaluation),
            "matrix" => machine::matrix(evaluation),
            "affinity" => workers::affinity(record, evaluation),
            "latency" => machine::latency(evaluation),
            "stream" => machine::stream(record, evaluation),
            "sysbench" => machine::sysbench(evaluation),
            "contention" => sharing::contention(record, evaluation),
            "comparison" => study::comparison(record, evaluation),
            "tuning" => study::tuning(evaluation),
            "density" => study::density(evaluation),
            "limits" => study::limits(evaluation),
            "spawn" => study::spawn(evaluation),
            _ => None,
        }
    };
    let mut summaries: Vec<SectionSummary> = QUESTIONS
        .iter()
        .filter_map(|&(section, _)| {
            let Line { mark, text, next } = supported(line(section)?, section, record);
            let question = question(section, &[evaluation])?;
            Some(SectionSummary { section, question, mark, line: text, next })
        })
        .collect();
    summaries.sort_by_key(|summary| {
        !["comparison", "tuning", "density", "limits", "spawn"].contains(&summary.section)
    });
    summaries
}

/// A command to run next, with the questions from whose answers it follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// The command, as typed in a shell.
    pub command: String,
    /// What it does, as a phrase behind it.
    pub why: &'static str,
    /// The questions of the sections.
    pub questions: Vec<String>,
}

/// Returns the commands of all lines, each once: first those of sections that need attention. Sections that are to be
/// measured again are one command.
pub fn next_steps(summaries: &[SectionSummary]) -> Vec<NextStep> {
    let mut steps: Vec<(SummaryMark, NextStep)> = Vec::new();
    for summary in summaries {
        let Some(next) = &summary.next else { continue };
        let again = next.strip_prefix(next::AGAIN);
        let same = |step: &NextStep| {
            step.command == *next || again.is_some() && step.command.starts_with(next::AGAIN)
        };
        match steps.iter_mut().find(|(_, step)| same(step)) {
            Some((mark, step)) => {
                *mark = (*mark).max(summary.mark);
                step.questions.push(summary.question.clone());
                if let Some(section) = again {
                    step.command = format!("{},{section}", step.command);
                }
            }
            None => steps.push((
                summary.mark,
                NextStep {
                    command: next.clone(),
                    why: next::purpose(next),
                    questions: vec![summary.question.clone()],
                },
            )),
        }
    }
    steps.sort_by_key(|(mark, _)| std::cmp::Reverse(*mark));
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Takes the mark `Good` from a line that the conditions do not support, and says why.
fn supported(line: Line, section: &str, record: &Record) -> Line {
    let why = findings::doubts(section, record);
    if line.mark != SummaryMark::Good || why.is_empty() {
        return line;
    }
    let disturbance = findings::experiment_ids(section).map(|ids| disturbance::of_topic(record, ids));
    let audit = disturbance.and_then(|disturbance| next::audit(&disturbance));
    let text = format!("{} This is doubtful: {}.", line.text, list(&why));
    Line { mark: SummaryMark::Neutral, text, next: audit.or(line.next) }
}

/// Returns the text of the first finding of a topic that is of this kind.
fn found<'a>(evaluation: &'a Evaluation, kind: FindingKind, topic: &str) -> Option<&'a str> {
    let of = |finding: &&findings::Finding| finding.kind == kind && finding.topic == topic;
    evaluation.findings.iter().find(of).map(|finding| finding.text.as_str())
}

/// Formats the ratio of a verdict: `1.10x (95 %: 1.08 to 1.12)`.
fn ratio(verdict: &Verdict) -> String {
    format!("{:.2}x ({})", verdict.ratio, interval(verdict.interval, |end| format!("{end:.2}")))
}

/// `one worker`, `64 workers`.
fn workers(count: usize) -> String {
    if count == 1 { "one worker".to_owned() } else { format!("{count} workers") }
}

#[cfg(test)]
mod tests;

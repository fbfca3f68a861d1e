//! Plain sentences, each with the figures that it rests on. What the record does not show is not said.

mod comparison;
mod conditions;
mod contention;
mod failures;
mod latency;
mod limits;
mod placement;
mod scaling;
mod spawning;
mod stream;
mod tuning;

use super::Evaluation;
use crate::Record;
use serde::Serialize;

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What was asked.
    Answer,
    /// Something that makes figures of this record doubtful.
    Warning,
    /// Something to do.
    Advice,
    /// Something that was found.
    Fact,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// How it is meant.
    pub kind: Kind,
    /// What it is about: `comparison`, `conditions`, `failures`, `noise`, `scaling`, `modes`, `matrix`, `affinity`,
    /// `latency`, `limits`, `stream`, `peer`, `contention`, `tuning`, `spawn`.
    pub topic: &'static str,
    /// The sentence.
    pub text: String,
    /// The figures behind it.
    pub evidence: Vec<String>,
}

impl Finding {
    fn new(kind: Kind, topic: &'static str, text: String, evidence: Vec<String>) -> Self {
        Self { kind, topic, text, evidence }
    }
}

/// Everything that the record supports: the answer, warnings, advice, facts.
pub(crate) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let mut findings = conditions::find(record, evaluation);
    findings.extend(failures::find(record));
    findings.extend(scaling::find(record, evaluation));
    findings.extend(placement::find(record, evaluation));
    findings.extend(evaluation.latency.iter().flat_map(|found| latency::find(record, found)));
    findings.extend(evaluation.stream.iter().flat_map(stream::find));
    findings.extend(contention::find(evaluation, super::usable_cpus(&record.machine)));
    findings.extend(evaluation.comparison.as_ref().map(comparison::find));
    findings.extend(evaluation.tuning.as_ref().map(tuning::find));
    findings.extend(evaluation.limits.iter().map(limits::find));
    findings.extend(spawning::find(&evaluation.light_processes));
    findings.sort_by_key(|finding| finding.kind);
    findings
}

//! Findings: plain sentences, each with the figures that it rests on. A finding states nothing that the
//! record does not show.

mod comparison;
mod conditions;
mod contention;
mod density;
mod distribution;
mod failures;
mod latency;
mod limits;
mod load;
mod placement;
mod scaling;
mod spawning;
mod stream;
mod support;
mod tuning;

pub(crate) use comparison::{find as comparison_finding, question as comparison_question};
pub(crate) use contention::widest_point;
pub(crate) use density::{answer as density_answer, difference_text as density_difference};
pub(crate) use limits::find as limit_finding;
pub(crate) use placement::program as program_name;
pub(crate) use scaling::{GOOD_EFFICIENCY, most_telling_point, on_placement};
pub(crate) use support::{doubts, experiment_ids};
pub(crate) use tuning::find as tuning_finding;

use super::Evaluation;
use manycore_experiment::Record;
use manycore_stats::{Estimate, verdict::Verdict};
use serde::Serialize;

/// What a finding is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FindingKind {
    /// The answer to the question of the run.
    Answer,
    /// A condition that makes figures of this record doubtful.
    Warning,
    /// Something to do.
    Advice,
    /// A measured fact.
    Fact,
    /// A fact that the conditions, or the number of samples, do not support.
    Doubtful,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of finding.
    pub kind: FindingKind,
    /// Its topic: `comparison`, `conditions`, `failures`, `scaling`, `modes`, `matrix`, `affinity`,
    /// `latency`, `limits`, `stream`, `sysbench`, `contention`, `tuning`, `density`, `spawn`.
    pub topic: &'static str,
    /// The finding, in one sentence or a few.
    pub text: String,
    /// The figures on which it is based, as text.
    pub evidence: Vec<String>,
}

impl Finding {
    fn new(kind: FindingKind, topic: &'static str, text: String, evidence: Vec<String>) -> Self {
        Self { kind, topic, text, evidence }
    }
}

/// Returns the kind of a finding that rests on an estimate: a fact, or doubtful where there were too few
/// samples for an interval.
fn kind_of_estimate(estimate: &Estimate) -> FindingKind {
    if estimate.interval.is_some() { FindingKind::Fact } else { FindingKind::Doubtful }
}

/// Returns the kind of a finding that rests on a difference: advice where the whole interval is beyond the
/// margin, a fact otherwise.
fn kind_of_difference(verdict: &Verdict) -> FindingKind {
    let is_beyond =
        |(low, high): (f64, f64)| low > 1.0 + verdict.rule.margin || high < 1.0 / (1.0 + verdict.rule.margin);
    if verdict.interval.is_some_and(is_beyond) { FindingKind::Advice } else { FindingKind::Fact }
}

/// Returns everything that the record supports: answers, warnings, advice, facts and doubtful facts, in
/// this order.
pub(crate) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let mut evaluated = scaling::find(record, evaluation);
    evaluated.extend(placement::find(record, evaluation));
    evaluated.extend(evaluation.latency.iter().flat_map(|found| latency::find(record, found)));
    evaluated.extend(evaluation.stream.iter().flat_map(stream::find));
    evaluated.extend(contention::find(evaluation, super::usable_cpus(&record.machine)));
    evaluated.extend(evaluation.comparison.as_ref().map(|found| comparison::find(record, found)));
    evaluated.extend(comparison::unfinished_race(record, evaluation.comparison.as_ref()));
    evaluated.extend(distribution::find(&evaluation.distributions));
    evaluated.extend(evaluation.tuning.as_ref().map(tuning::find));
    evaluated.extend(evaluation.density.iter().flat_map(density::find));
    let mut findings: Vec<Finding> = load::find(record).into_iter().collect();
    findings.extend(conditions::find(record));
    findings.extend(failures::find(record));
    findings.extend(support::supported(evaluated, record));
    findings.extend(evaluation.limits.iter().map(limits::find));
    findings.extend(spawning::find(&evaluation.light_processes));
    findings.sort_by_key(|finding| finding.kind);
    findings
}

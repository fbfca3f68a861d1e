//! Decides which findings the conditions support: advice that is not supported is withheld, facts are
//! marked.

use super::{Finding, FindingKind};
use crate::disturbance;
use manycore_experiment::{Record, record::id};
use manycore_text::names::list;

/// Returns the ids, or their prefixes, of the experiments on which the findings of a topic rest.
pub(crate) fn experiment_ids(topic: &str) -> Option<&'static [&'static str]> {
    Some(match topic {
        "scaling" => &[id::SCALING],
        "modes" => &[id::MODES],
        "matrix" => &[id::MATRIX, id::MODES],
        "affinity" => &[id::AFFINITY],
        "latency" => &[id::LATENCY],
        "stream" => &[id::STREAM],
        "sysbench" => &[id::SYSBENCH],
        "contention" => &[id::CONTENTION],
        "comparison" => &[id::COMPARE],
        "tuning" => &[id::TUNE],
        "density" => &[id::DENSITY],
        _ => return None,
    })
}

/// Topics whose answers come from pairs of runs in random order: what disturbs A disturbs B as well, and the interval
/// shows by how much. Such an answer holds under the conditions in which it was measured.
const FROM_PAIRS: [&str; 3] = ["comparison", "tuning", "density"];

/// Returns what exceeded the limits of advice while a topic was measured.
fn exceeded(topic: &str, record: &Record) -> Vec<String> {
    experiment_ids(topic).map_or_else(Vec::new, |ids| disturbance::of_topic(record, ids).exceeded_limits())
}

/// Returns why the conditions make what a topic shows doubtful; empty where they do not. Findings and the summary
/// follow this one decision.
pub(crate) fn doubts(topic: &str, record: &Record) -> Vec<String> {
    if FROM_PAIRS.contains(&topic) { Vec::new() } else { exceeded(topic, record) }
}

/// Returns the findings that the conditions support, and marks facts that they do not. Unsupported advice
/// is replaced by a warning.
pub(super) fn supported(findings: Vec<Finding>, record: &Record) -> Vec<Finding> {
    let mut kept = Vec::new();
    let mut withheld: Vec<(String, Vec<String>)> = Vec::new();
    for mut finding in findings {
        let why = exceeded(finding.topic, record);
        if why.is_empty() {
            kept.push(finding);
            continue;
        }
        match finding.kind {
            FindingKind::Advice => {
                match withheld.iter_mut().find(|(known, _)| *known == list(&why)) {
                    Some((_, topics)) => topics.push(finding.topic.to_owned()),
                    None => withheld.push((list(&why), vec![finding.topic.to_owned()])),
                }
                continue;
            }
            FindingKind::Fact | FindingKind::Answer if !doubts(finding.topic, record).is_empty() => {
                finding.kind = FindingKind::Doubtful;
            }
            FindingKind::Answer | FindingKind::Warning | FindingKind::Fact | FindingKind::Doubtful => {}
        }
        finding.evidence.push(format!("during the measurement {}", list(&why)));
        kept.push(finding);
    }
    kept.extend(withheld.into_iter().map(|(why, mut topics)| {
        topics.dedup();
        let text = format!("No advice on {}: {why}. Measure again on a quieter machine.", list(&topics));
        Finding::new(FindingKind::Warning, "conditions", text, Vec::new())
    }));
    kept
}

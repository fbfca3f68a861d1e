//! The results of `qos prove` for reading.

use crate::{
    enforcement::{EnforcementCheck, EnforcementReport},
    limit_outcome::{LimitOutcome, format_value},
    text::table,
};
use manycore_analysis::limits::{LimitProof, LimitResult};
use manycore_linux::resctrl::dialect::Capabilities;
use manycore_render::{
    document::{Document, Item},
    figure::{factor, short, with_interval},
    table::Align,
    terminal::Mark,
};
use manycore_stats::{Estimate, verdict::Verdict};
use manycore_text::units::counted;

/// Returns the results of all checks.
pub fn enforcement(report: &EnforcementReport) -> Document {
    let cpus = counted(report.cpus.len(), "CPU");
    let place = report.node.map_or_else(|| cpus.clone(), |node| format!("node {node} ({cpus})"));
    let mut document = Document::new();
    document.strong(format!("Are limits enforced? {}, {place}", report.dialect.name()));
    for proof in &report.proofs {
        document.gap();
        one(proof, &report.capabilities, &mut document);
    }
    document
}

fn one(proof: &EnforcementCheck, capabilities: &Capabilities, document: &mut Document) {
    let LimitProof { check, shown, with, without, alone, verdict } = &proof.measured;
    let (answer, mark, why) = match shown {
        LimitResult::Holds => ("HOLDS", Mark::Good, None),
        LimitResult::Fails(why) => ("DOES NOT HOLD", Mark::Bad, Some(why.as_str())),
        LimitResult::Inconclusive => {
            ("INCONCLUSIVE", Mark::Warning, Some("too few pairs or too much noise: measure for longer"))
        }
        LimitResult::CannotShow(why) => ("CANNOT BE SHOWN", Mark::Warning, Some(why.as_str())),
    };
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    document.item(Item::new(answer, Some(mark), format!("{}{why}", check.name())));
    let mut rows: Vec<Vec<String>> =
        proof.limits.iter().map(|outcome| limit(outcome, capabilities)).collect();
    let rate = |what: &str, rates: &Option<Estimate>| {
        let bytes = |rate: f64| format!("{}B/s", short(rate));
        rates.as_ref().map(|rates| vec![what.to_owned(), with_interval(rates, bytes, bytes), String::new()])
    };
    rows.extend(rate("with", with));
    rows.extend(rate("without", without));
    rows.extend(rate("uncontended", alone));
    rows.extend(verdict.as_ref().map(ratio));
    if !rows.is_empty() {
        document.table(table(&[("what", Align::Left), ("value", Align::Left), ("note", Align::Left)], rows));
    }
}

fn limit(outcome: &LimitOutcome, capabilities: &Capabilities) -> Vec<String> {
    let in_force = outcome
        .in_force
        .map_or_else(|| "none".to_owned(), |value| format_value(capabilities, &outcome.line, value));
    let word = capabilities.dialect.domain_kind(&outcome.line).label();
    let why = outcome.why.as_ref().map(|why| format!("{}: {why}", outcome.requested));
    vec![format!("{} of {word} {}", outcome.line, outcome.domain), in_force, why.unwrap_or_default()]
}

fn ratio(verdict: &Verdict) -> Vec<String> {
    let ends = verdict.interval.map(|(low, high)| format!(" ({} to {})", factor(low), factor(high)));
    vec![
        "ratio with/without".to_owned(),
        format!("{}{}", factor(verdict.ratio), ends.unwrap_or_default()),
        format!("{} pairs", verdict.pairs),
    ]
}

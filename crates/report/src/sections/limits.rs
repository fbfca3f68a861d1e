//! Whether limits of memory bandwidth are enforced.

use crate::sections::{NamedEvaluation, Table};
use manycore_analysis::limits::{LimitProof, LimitResult};
use manycore_render::{figure::ABSENT, table::Align};
use manycore_stats::Estimate;
use manycore_text::units::{interval, rate};

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let proofs = &named.evaluation.limits;
    let mut table = Table::numeric(
        "Bandwidth with the limit and without",
        ("check", Align::Left),
        &["with", "without", "alone", "with over without", "pairs"],
    );
    table.head.push(("result".to_owned(), Align::Left));
    table.rows = proofs.iter().map(row).collect();
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

fn row(proof: &LimitProof) -> Vec<String> {
    let median = |estimate: &Option<Estimate>| {
        estimate.as_ref().map_or_else(|| ABSENT.to_owned(), |estimate| rate(estimate.median))
    };
    let verdict = proof.verdict.as_ref();
    let ratio = verdict.map_or_else(
        || ABSENT.to_owned(),
        |verdict| format!("{:.3} ({})", verdict.ratio, interval(verdict.interval, |end| format!("{end:.3}"))),
    );
    let result = match &proof.shown {
        LimitResult::Holds => "enforced".to_owned(),
        LimitResult::Fails(why) => format!("not enforced: {why}"),
        LimitResult::Inconclusive => "inconclusive".to_owned(),
        LimitResult::CannotShow(why) => format!("cannot be shown: {why}"),
    };
    vec![
        proof.check.name().to_owned(),
        median(&proof.with),
        median(&proof.without),
        median(&proof.alone),
        ratio,
        verdict.map_or(0, |verdict| verdict.pairs).to_string(),
        result,
    ]
}

/// The tables of the single records are enough: limits of different machines are not comparable.
pub(super) fn side_by_side(_: &[NamedEvaluation]) -> Vec<Table> {
    Vec::new()
}

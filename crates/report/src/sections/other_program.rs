//! The built-in load compared with sysbench.

use crate::sections::{NamedEvaluation, Table, by_workers};
use manycore_analysis::ProgramComparison;
use manycore_render::{
    figure::{ABSENT, interval, number, optional, with_interval},
    table::Align,
};
use manycore_stats::Estimate;

fn ratio(value: f64) -> String {
    format!("{value:.3}")
}

/// Returns a row for each number of workers: workers, built-in rate, other rate, ratio, its interval and
/// pairs.
pub(super) fn rows(peers: &[ProgramComparison]) -> Vec<Vec<String>> {
    let row = |peer: &ProgramComparison| {
        vec![
            peer.workers.to_string(),
            number(peer.built_in.median),
            number(peer.other.median),
            optional(peer.ratio.as_ref().map(|ratio| ratio.median), ratio),
            peer.ratio.as_ref().map_or_else(|| ABSENT.to_owned(), |over| interval(over, ratio)),
            peer.pairs.to_string(),
        ]
    };
    peers.iter().map(row).collect()
}

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let mut table = Table::numeric(
        "Events per second",
        ("workers", Align::Right),
        &["manycore", "sysbench", "ratio", "95 % interval", "pairs"],
    );
    table.rows = rows(&named.evaluation.sysbench);
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    vec![by_workers("Events per second of manycore over sysbench's (95 % interval)", all, |named| {
        let peers = named.evaluation.sysbench.iter();
        let cell = |over: &Estimate| with_interval(over, ratio, ratio);
        peers.filter_map(|peer| Some((peer.workers, cell(peer.ratio.as_ref()?)))).collect()
    })]
}

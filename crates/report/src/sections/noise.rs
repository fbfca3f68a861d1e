//! The noise floor: the ratio of two identical variants.

use crate::sections::{NamedEvaluation, Table, by_workers};
use manycore_render::{
    figure::{optional, percent},
    table::Align,
};

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let mut table = Table::numeric(
        "B over A, by number of workers",
        ("workers", Align::Right),
        &["B over A", "95 % interval", "pairs", "noise floor", "detectable"],
    );
    table.rows = named
        .evaluation
        .noise
        .iter()
        .map(|noise| {
            let interval = noise.ratio.interval.map(|(low, high)| format!("{low:.4} to {high:.4}"));
            vec![
                noise.workers.to_string(),
                format!("{:.4}", noise.ratio.median),
                interval.unwrap_or_else(|| "too few pairs".to_owned()),
                noise.ratio.n.to_string(),
                optional(noise.floor, percent),
                optional(noise.minimum_detectable_effect, percent),
            ]
        })
        .collect();
    table.notes.push(
        "Detectable is the minimum detectable effect at 80 % power of this many pairs. The noise floor does not affect \
         verdicts."
            .to_owned(),
    );
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    vec![
        by_workers("Noise floor (for information)", all, |named| {
            named
                .evaluation
                .noise
                .iter()
                .map(|noise| (noise.workers, optional(noise.floor, percent)))
                .collect()
        }),
        by_workers("Minimum detectable effect at 80 % power", all, |named| {
            named
                .evaluation
                .noise
                .iter()
                .map(|noise| (noise.workers, optional(noise.minimum_detectable_effect, percent)))
                .collect()
        }),
    ]
}

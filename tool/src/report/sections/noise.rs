//! What two identical things showed.

use super::{Named, Table, by_workers};
use crate::report::{figure::percent, table::Align};

pub(super) fn own(named: &Named) -> Vec<Table> {
    let mut table = Table::figures(
        "B over A by workers",
        ("workers", Align::Right),
        &["B over A", "95 % interval", "pairs", "noise floor", "smallest found"],
    );
    table.rows = named
        .evaluation
        .noise
        .iter()
        .map(|noise| {
            let (low, high) = noise.ratio.interval.unwrap_or((f64::NAN, f64::NAN));
            vec![
                noise.workers.to_string(),
                format!("{:.4}", noise.ratio.median),
                format!("{low:.4} to {high:.4}"),
                noise.ratio.n.to_string(),
                percent(noise.floor),
                percent(noise.detectable),
            ]
        })
        .collect();
    table.notes.push(
        "Smallest found: the true difference that this many pairs would find in four runs of five."
            .to_owned(),
    );
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

pub(super) fn beside(all: &[Named]) -> Vec<Table> {
    vec![
        by_workers("Noise floor: differences below are not believed", all, |named| {
            named.evaluation.noise.iter().map(|noise| (noise.workers, percent(noise.floor))).collect()
        }),
        by_workers("Smallest difference that would be found in four runs of five", all, |named| {
            named.evaluation.noise.iter().map(|noise| (noise.workers, percent(noise.detectable))).collect()
        }),
    ]
}

//! Core-to-core latency.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_analysis::{CoreLatency, DistanceLatency};
use manycore_render::{
    figure::{ABSENT, grouped, number, percent_number},
    table::Align,
};

/// Maximum number of CPUs for which the matrix is shown as a table.
const MAX_MATRIX_CPUS: usize = 16;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    let Some(latency) = &named.evaluation.latency else { return Vec::new() };
    let mut table = Table::numeric(
        "One-way latency in ns, by what the two CPUs share",
        ("", Align::Left),
        &["pairs", "median", "IQR", "min", "max"],
    );
    table.rows = latency.distances.iter().map(row).collect();
    table.notes.push(note(latency));
    let matrix = (3..=MAX_MATRIX_CPUS).contains(&latency.cpus.len()).then(|| matrix(latency));
    std::iter::once(table).chain(matrix).collect()
}

fn row(at: &DistanceLatency) -> Vec<String> {
    vec![
        at.distance.title().to_owned(),
        grouped(at.pairs as f64),
        number(at.median_ns),
        format!("{} to {}", number(at.quartiles_ns.0), number(at.quartiles_ns.1)),
        number(at.range_ns.0),
        number(at.range_ns.1),
    ]
}

fn note(latency: &CoreLatency) -> String {
    let measured = if latency.pairs.len() < latency.possible_pairs {
        format!("{} of {} pairs", grouped(latency.pairs.len() as f64), grouped(latency.possible_pairs as f64))
    } else if latency.possible_pairs == 1 {
        "The only pair".to_owned()
    } else {
        format!("All {} pairs", grouped(latency.possible_pairs as f64))
    };
    let rule = latency.pair_selection.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
    let visits = if latency.max_visits == 1 {
        "once".to_owned()
    } else {
        format!("up to {} times", latency.max_visits)
    };
    let noise = latency.noise.map_or_else(String::new, |noise| {
        format!("; 95 % of figures agree within {} %", percent_number(noise))
    });
    format!("{measured}{rule} were visited {visits}{noise}.")
        .replace("The only pair were", "The only pair was")
}

/// Returns every pair, in whole nanoseconds.
fn matrix(latency: &CoreLatency) -> Table {
    let cpus: Vec<u32> = latency.cpus.iter().collect();
    let heads: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::numeric("Latency from CPU to CPU, in ns", ("CPU", Align::Right), &heads);
    let figure = |a: u32, b: u32| {
        let ends = (a.min(b), a.max(b));
        let pair = latency.pairs.iter().find(|pair| (pair.a, pair.b) == ends);
        pair.map_or_else(|| ABSENT.to_owned(), |pair| format!("{:.0}", pair.latency_ns))
    };
    table.rows = cpus
        .iter()
        .map(|&a| std::iter::once(a.to_string()).chain(cpus.iter().map(|&b| figure(a, b))).collect())
        .collect();
    table
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    let title = "One-way latency in ns, median (min to max)";
    vec![compare(
        title,
        ("", Align::Left),
        all,
        |distance: &manycore_topology::TopologyDistance| distance.title().to_owned(),
        |named| {
            let distances = named.evaluation.latency.iter().flat_map(|latency| &latency.distances);
            let cell = |at: &DistanceLatency| {
                let (least, most) = at.range_ns;
                (at.distance, format!("{} ({} to {})", number(at.median_ns), number(least), number(most)))
            };
            distances.map(cell).collect()
        },
    )]
}

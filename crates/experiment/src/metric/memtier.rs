//! `memtier_benchmark`, which loads Redis and memcached.
//!
//! Tested with the format of published reports only, not with the program itself.

use crate::metric::{
    figures::{Figures, higher, lower, not_output_of},
    number,
};

/// Reads operations (primary), latencies and throughput from the row `Totals`. With `--run-count`, reads
/// those of the averages.
pub(super) fn read(text: &str) -> Result<Figures, String> {
    let part = text.split_once("AGGREGATED AVERAGE RESULTS").map_or(text, |(_, rest)| rest);
    let mut columns = Vec::new();
    let mut figures = Figures::new();
    for line in part.lines() {
        if line.trim_start().starts_with("Type ") {
            columns = headings(line);
        }
        if line.trim_start().starts_with("Totals ") {
            figures.extend(row(&columns, line));
        }
    }
    if figures.first().is_none_or(|(metric, _)| metric.name != "operations") {
        return Err(not_output_of("memtier_benchmark", "row \"Totals\" with \"Ops/sec\"", text));
    }
    Ok(figures)
}

/// Splits the headings, some of which have two words: `Avg. Latency`, `p99 Latency`.
fn headings(line: &str) -> Vec<&str> {
    let mut headings: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let second = word == "Latency"
            && headings.last().is_some_and(|last| {
                *last == "Avg." || last.strip_prefix('p').and_then(number::plain).is_some()
            });
        if !second {
            headings.push(word);
        }
    }
    headings
}

fn row(columns: &[&str], line: &str) -> Figures {
    let values: Vec<&str> = line.split_whitespace().collect();
    if values.len() != columns.len() {
        return Figures::new();
    }
    let pairs = columns.iter().zip(values);
    pairs
        .filter_map(|(&column, value)| {
            let value = number::plain(value)?;
            Some(match column {
                "Ops/sec" => higher("operations", "ops/s", value),
                "Avg." | "Latency" => lower("latency", "ms", value),
                "KB/sec" => higher("throughput", "KB/s", value),
                percentile if percentile.starts_with('p') => lower(percentile, "ms", value),
                _ => return None,
            })
        })
        .collect()
}

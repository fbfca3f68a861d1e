//! `memtier_benchmark`, which loads Redis and memcached.
//!
//! Tested with the format of published reports only, not with the program itself.

use crate::metric::{
    figures::{Figures, higher, lower, not_output_of},
    number,
    requests::PrintedTimes,
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

/// Returns the rows `GET  0.300  50.000` below `Request Latency Distribution`, by kind. The number of requests is that of the
/// table above: operations per second of the kind times the seconds, or its share of the requests of all clients.
pub(super) fn requests_of(text: &str) -> Vec<PrintedTimes> {
    let part = text.split_once("AGGREGATED AVERAGE RESULTS").map_or(text, |(_, rest)| rest);
    let Some((above, below)) = part.split_once("Request Latency Distribution") else { return Vec::new() };
    let Some(total) = rate(above, "totals").filter(|total| *total > 0.0) else { return Vec::new() };
    let mut kinds: Vec<PrintedTimes> = Vec::new();
    for line in below.lines() {
        let mut words = line.split_whitespace();
        let (Some(kind), Some(latency), Some(percent), None) = (
            words.next().map(str::to_ascii_lowercase),
            words.next().and_then(number::plain),
            words.next().and_then(number::plain),
            words.next(),
        ) else {
            continue;
        };
        if kinds.last().is_none_or(|last| last.name != kind) {
            let share = rate(above, &format!("{kind}s")).map(|rate| rate / total);
            let count = share.and_then(|share| Some(share * sent(text, total)?)).unwrap_or_default();
            kinds.push(PrintedTimes { name: kind, count, points: Vec::new() });
        }
        if let Some(last) = kinds.last_mut() {
            last.points.push((latency, percent / 100.0 * last.count));
        }
    }
    kinds.retain(|kind| kind.count >= 1.0);
    kinds
}

/// Returns the rate of a row: `Gets`, `Totals`.
fn rate(table: &str, row: &str) -> Option<f64> {
    let words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_row = |words: Vec<&str>| {
        let is_row = words.first().is_some_and(|first| first.eq_ignore_ascii_case(row));
        is_row.then(|| number::plain(words.get(1)?)).flatten()
    };
    words.filter(|words| words.len() > 2).find_map(of_row)
}

/// Returns the number of requests of all kinds.
fn sent(text: &str, rate: f64) -> Option<f64> {
    let setting =
        |label: &str| text.lines().find_map(|line| number::plain(line.trim().strip_suffix(label)?.trim()));
    let clients = || Some(setting("Threads")? * setting("Connections per thread")?);
    setting("Seconds")
        .map(|seconds| seconds * rate)
        .or_else(|| Some(setting("Requests per client")? * clients()?))
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

//! Percentile tables as `HdrHistogram` prints them (`.hgrm`), also by programs that use it, and its logs of encoded
//! histograms ([`log`]).
//!
//! The format is that of `outputPercentileDistribution`: value, percentile from 0 to 1, total count, 1/(1-percentile); the
//! values have the unit that the program chose, which the table does not name. Tested with the table in published output
//! of wrk2.

mod log;

use crate::metric::{
    figures::{Figures, lower, not_output_of},
    number,
    requests::PrintedTimes,
};

/// The title of the last column of a table.
const TITLE: &str = "1/(1-Percentile)";

/// The percentiles that are read, with their names.
const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// Reads p99 (primary), the other percentiles that the count of values reaches, the mean and the maximum, from a table or
/// a log.
pub(super) fn read(text: &str) -> Result<Figures, String> {
    if let Some((_, below)) = text.split_once(TITLE) {
        return read_table(below, text);
    }
    match log::read(text)? {
        Some(log) => Ok(log.figures()),
        None => Err(not_output_of(
            "HdrHistogram",
            "\"Value Percentile TotalCount 1/(1-Percentile)\" and no line of a log with an encoded histogram",
            text,
        )),
    }
}

/// Reads the same from what is `below` the titles of a table, in the output `text`.
fn read_table(below: &str, text: &str) -> Result<Figures, String> {
    let rows: Vec<(f64, f64, f64)> =
        below.lines().skip_while(|line| row(line).is_none()).map_while(row).collect();
    let Some(&(highest, _, total)) = rows.last() else {
        return Err(not_output_of("HdrHistogram", "row below \"Value Percentile TotalCount\"", text));
    };
    let at = |share| rows.iter().find(|(_, percentile, _)| *percentile >= share).map(|row| row.0);
    let max = field(below, "#[Max").unwrap_or(highest);
    Ok(figures(total, at, field(below, "#[Mean"), max))
}

/// Returns the figures of `total` values: the percentiles that they reach, the mean where it is known, and the maximum.
fn figures(total: f64, at: impl Fn(f64) -> Option<f64>, mean: Option<f64>, max: f64) -> Figures {
    let reached = PERCENTILES.into_iter().filter(|(share, _)| total * (1.0 - share) >= 1.0 - 1e-9);
    let mut figures: Figures =
        reached.filter_map(|(share, name)| Some(lower(name, "", at(share)?))).collect();
    // p99 decides, unless another figure is named.
    if let Some(at) = figures.iter().position(|(metric, _)| metric.name == "p99") {
        figures[..=at].rotate_right(1);
    }
    figures.extend(mean.map(|mean| lower("latency", "", mean)));
    figures.push(lower("max", "", max));
    figures
}

/// Returns the distributions of a table, or of each tag of a log.
pub(super) fn requests_of(text: &str) -> Result<Vec<PrintedTimes>, String> {
    if text.contains(TITLE) {
        return Ok(requests_of_table(text));
    }
    Ok(log::read(text)?.map_or_else(Vec::new, |log| log.requests()))
}

/// Returns the rows of the percentile table.
pub(super) fn requests_of_table(text: &str) -> Vec<PrintedTimes> {
    let below = text.split_once(TITLE).map_or("", |(_, below)| below);
    let rows = below.lines().skip_while(|line| row(line).is_none()).map_while(row);
    let points: Vec<(f64, f64)> = rows.map(|(value, _, count)| (value, count)).collect();
    let count = points.last().map_or(0.0, |last| last.1);
    vec![PrintedTimes { count, points, ..PrintedTimes::default() }]
}

/// Reads a row: value, percentile and count.
fn row(line: &str) -> Option<(f64, f64, f64)> {
    let mut words = line.split_whitespace();
    let mut next = || words.next().and_then(number::plain).filter(|number| *number >= 0.0);
    Some((next()?, next()?, next()?))
}

/// Reads `#[Mean    =        1.138, StdDeviation   =        0.356]`.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    let value = line.trim_start().strip_prefix('=')?;
    number::plain(value.split([',', ']']).next()?.trim())
}

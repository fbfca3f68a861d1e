//! The distribution of the requests of a run, from the output of load generators.
//!
//! | program | points of the distribution | number of requests |
//! |---|---|---|
//! | wrk | 50, 75, 90 and 99 % of `--latency`, and the maximum | `N requests in` |
//! | wrk2 | its detailed percentile spectrum | that of the spectrum |
//! | hey, ghz | their percentiles, the bars of the histogram above them, and the slowest request | successful responses |
//! | oha | its percentiles and the slowest request | successful responses |
//! | redis-benchmark | percentiles and the cumulative distribution of the default output, for each test | the last row |
//! | memtier | the rows of its distribution, for each kind of request | operations/s × seconds, or requests × clients |
//! | hdr | the rows of the percentile table, or the histograms of a log, for each tag | the last row, or all values |
//!
//! An output without a distribution (`wrk` without `--latency`, `redis-benchmark -q`) has none, which is no error.

use super::{
    MetricReader, ReaderSource, RunOutput,
    figures::after,
    hdr, memtier,
    number::{self, QuantityKind},
    redis, summary, wrk,
};
use crate::{
    error::{self, Error},
    record::RequestTimes,
};

/// Points of a distribution and the number of requests, before they are checked.
#[derive(Debug, Default)]
pub(super) struct PrintedTimes {
    /// Kind of the requests.
    pub name: String,
    /// Number of requests.
    pub count: f64,
    /// Latency in milliseconds (or in the unit of the program) and number of requests up to it.
    pub points: Vec<(f64, f64)>,
}

/// Returns the distributions of the requests in the output of one run, of the first reader that has any. Empty where
/// the output has none.
///
/// # Errors
/// [`Error::UnreadableOutput`] with the reader, what was expected and what was found.
pub fn requests(readers: &[MetricReader], output: &RunOutput) -> error::Result<Vec<RequestTimes>> {
    for reader in readers {
        let found = of_reader(reader, output).map_err(Error::UnreadableOutput)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn of_reader(reader: &MetricReader, output: &RunOutput) -> Result<Vec<RequestTimes>, String> {
    let ReaderSource::Builtin { reader: name, .. } = &reader.source else { return Ok(Vec::new()) };
    let read: fn(&str) -> Result<Vec<PrintedTimes>, String> = match *name {
        "wrk" => |text| Ok(wrk::requests_of(text)),
        "wrk2" => |text| Ok(hdr::requests_of_table(text)),
        "hdr" => hdr::requests_of,
        "hey" => |text| Ok(summary::requests_of(summary::HEY, text)),
        "oha" => |text| Ok(summary::requests_of(summary::OHA, text)),
        "ghz" => |text| Ok(summary::requests_of(summary::GHZ, text)),
        "redis-benchmark" => |text| Ok(redis::requests_of(text)),
        "memtier" => |text| Ok(memtier::requests_of(text)),
        _ => return Ok(Vec::new()),
    };
    let unit = if *name == "hdr" { "" } else { "ms" };
    let checked = |printed: PrintedTimes| {
        RequestTimes::new(&printed.name, unit, printed.count, printed.points)
            .map_err(|why| format!("{name}: the distribution of the requests cannot be used: {why}"))
    };
    read(&reader.from.text(output)?)?
        .into_iter()
        .filter(|printed| !printed.points.is_empty())
        .map(checked)
        .collect()
}

/// Returns the time at the start of `text` in milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<f64> {
    number::quantity(text)
        .filter(|quantity| quantity.kind == QuantityKind::Time)
        .map(|quantity| quantity.value)
}

/// Returns the time after a label, in milliseconds.
pub(super) fn time_after(text: &str, label: &str) -> Option<f64> {
    milliseconds(after(text, label)?)
}

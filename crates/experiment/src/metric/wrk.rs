//! wrk and wrk2, which load a web server.
//!
//! Tested with wrk 4.1.0, with and without `--latency`, and with published output of wrk2.

use crate::metric::{
    figures::{Figures, after, higher, lower, not_output_of, number_after},
    number::{self, QuantityKind},
    requests::PrintedTimes,
};

/// Largest share of failed requests. The rate counts failures as well, so with more of them it is
/// meaningless.
const MAX_FAILED_SHARE: f64 = 0.01;

/// Reads requests (primary), transfer, mean latency, percentiles with `--latency`, and errors of all kinds.
pub(super) fn read(text: &str) -> Result<Figures, String> {
    let (Some(rate), Some(latency)) = (number_after(text, "Requests/sec:"), latency(text)) else {
        return Err(not_output_of("wrk", "\"Requests/sec:\" and \"Latency\"", text));
    };
    let errors = errors(text);
    let requests = requests(text).unwrap_or_default();
    if errors > requests * MAX_FAILED_SHARE {
        return Err(format!(
            "wrk counted {errors} socket errors and responses other than 2xx and 3xx in {requests} requests, so its rate \
             is not that of successful responses; check that the server is up and the address is right"
        ));
    }
    let mut figures = vec![higher("requests", "requests/s", rate)];
    if let Some(transfer) = after(text, "Transfer/sec:").and_then(binary) {
        figures.push(higher("transfer", "MiB/s", transfer));
    }
    figures.push(lower("latency", "ms", latency));
    for (percentile, value) in percentiles(text) {
        figures.push(lower(&format!("p{percentile}"), "ms", value));
    }
    figures.push(lower("errors", "", errors));
    Ok(figures)
}

/// Reads the output of wrk2 with `--latency`: the same, with more percentiles of a histogram. Its latencies are those from
/// the planned start of each request (with `-U`, those measured without delayed starts are printed below and not read).
pub(super) fn read_wrk2(text: &str) -> Result<Figures, String> {
    if !text.contains("Latency Distribution (HdrHistogram - Recorded Latency)") {
        return Err(not_output_of("wrk2 --latency", "\"HdrHistogram - Recorded Latency\"", text));
    }
    let mut figures = read(text).map_err(|message| message.replacen("wrk ", "wrk2 ", 1))?;
    for (metric, _) in &mut figures {
        if metric.name == "p100" {
            "max".clone_into(&mut metric.name);
        }
    }
    Ok(figures)
}

/// Reads the mean latency in milliseconds, from the row `Latency` of `Thread Stats`.
fn latency(text: &str) -> Option<f64> {
    let (_, stats) = text.split_once("Thread Stats")?;
    milliseconds(after(stats, "Latency ")?.split_whitespace().next()?)
}

/// Reads the lines `99%  4.49ms` below `Latency Distribution`.
fn percentiles(text: &str) -> Vec<(f64, f64)> {
    let distribution = text.split_once("Latency Distribution").map_or("", |(_, rest)| rest);
    let mut rows = distribution.lines().skip(1);
    let row = |line: &str| {
        let (percentile, value) = line.trim().split_once('%')?;
        Some((number::plain(percentile)?, milliseconds(value.trim())?))
    };
    std::iter::from_fn(|| rows.next().and_then(row)).collect()
}

/// Returns the percentiles of `--latency` and the maximum of the line `Latency`.
pub(super) fn requests_of(text: &str) -> Vec<PrintedTimes> {
    let percentiles = percentiles(text);
    let Some(count) = requests(text).filter(|_| !percentiles.is_empty()) else { return Vec::new() };
    let mut points: Vec<(f64, f64)> =
        percentiles.into_iter().map(|(percent, latency)| (latency, percent / 100.0 * count)).collect();
    let largest =
        after(text, "Latency ").and_then(|row| row.split_whitespace().nth(2)).and_then(milliseconds);
    points.extend(largest.map(|latency| (latency, count)));
    vec![PrintedTimes { count, points, ..PrintedTimes::default() }]
}

fn milliseconds(text: &str) -> Option<f64> {
    number::quantity(text)
        .filter(|quantity| quantity.kind == QuantityKind::Time)
        .map(|quantity| quantity.value)
}

/// Converts a size as wrk prints it to MiB: wrk's `KB`, `MB` and `GB` are powers of 1024.
fn binary(text: &str) -> Option<f64> {
    let (number, power) = match text.strip_suffix('B')? {
        rest if rest.ends_with('K') => (&rest[..rest.len() - 1], -1),
        rest if rest.ends_with('M') => (&rest[..rest.len() - 1], 0),
        rest if rest.ends_with('G') => (&rest[..rest.len() - 1], 1),
        rest if rest.ends_with('T') => (&rest[..rest.len() - 1], 2),
        rest => (rest, -2),
    };
    number::plain(number).map(|number| number * 1024_f64.powi(power)).filter(|value| value.is_finite())
}

fn requests(text: &str) -> Option<f64> {
    text.lines().find_map(|line| number::plain(line.trim().split_once(" requests in ")?.0))
}

fn errors(text: &str) -> f64 {
    let sockets = after(text, "Socket errors:").map_or(0.0, |counts| {
        counts.split(',').filter_map(|count| number::plain(count.split_whitespace().last()?)).sum()
    });
    sockets + number_after(text, "Non-2xx or 3xx responses:").unwrap_or_default()
}

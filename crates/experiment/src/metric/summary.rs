//! Load generators with the summary of hey: hey for HTTP, oha after its model, and ghz for gRPC.
//!
//! Tested with hey 0.1.4. The outputs of oha 1 and ghz 0.1 were not available for tests: theirs have the format of their
//! sources and documentation, with invented or published figures.

use crate::metric::{
    figures::{Figures, after, higher, lower, not_output_of, number_after},
    number::{self, QuantityKind},
    requests::{PrintedTimes, time_after},
};

/// Largest share of failed requests: see `wrk`.
const MAX_FAILED_SHARE: f64 = 0.01;

/// A program with this summary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program {
    /// Its name.
    pub name: &'static str,
    /// A line that the others do not have.
    own_line: Option<&'static str>,
    /// The heading of its percentiles.
    distribution: &'static str,
}

pub(super) const HEY: Program =
    Program { name: "hey", own_line: None, distribution: "Latency distribution:" };
pub(super) const OHA: Program =
    Program { name: "oha", own_line: Some("Success rate:"), distribution: "Response time distribution:" };
pub(super) const GHZ: Program =
    Program { name: "ghz", own_line: Some("Count:"), distribution: "Latency distribution:" };

/// Reads requests (primary), mean latency, percentiles, the slowest request, and errors of all kinds.
pub(super) fn read(program: Program, text: &str) -> Result<Figures, String> {
    let is_own = program.own_line.is_none_or(|line| after(text, line).is_some())
        && [OHA, GHZ]
            .into_iter()
            .filter_map(|other| other.own_line)
            .all(|line| Some(line) == program.own_line || after(text, line).is_none());
    let expected = || format!("\"Requests/sec:\" and {:?}", program.distribution);
    let (Some(rate), true, true) =
        (number_after(text, "Requests/sec:"), is_own, text.contains(program.distribution))
    else {
        return Err(not_output_of(program.name, &expected(), text));
    };
    let (answered, errors) = responses(text);
    if errors > answered * MAX_FAILED_SHARE {
        return Err(format!(
            "{} counted {errors} errors and {answered} successful responses, so its rate is not that of successful \
             responses; check that the server is up and the address is right",
            program.name
        ));
    }
    let mut figures = vec![higher("requests", "requests/s", rate)];
    figures.extend(after(text, "Average:").and_then(milliseconds).map(|mean| lower("latency", "ms", mean)));
    for (percentile, value) in percentiles(program, text) {
        figures.push(lower(&format!("p{percentile}"), "ms", value));
    }
    figures.extend(after(text, "Slowest:").and_then(milliseconds).map(|most| lower("max", "ms", most)));
    figures.push(lower("errors", "", errors));
    Ok(figures)
}

/// Reads lines such as `99% in 0.0304 secs` and `99.90% in 8.1132 ms` below the heading.
fn percentiles(program: Program, text: &str) -> Vec<(f64, f64)> {
    let below = text.split_once(program.distribution).map_or("", |(_, rest)| rest);
    let row = |line: &str| {
        let (percentile, value) = line.trim().split_once('%')?;
        // Some versions of hey print the sign twice.
        let value = value.trim_start_matches('%').trim_start().strip_prefix("in ")?;
        Some((number::plain(percentile.trim())?, milliseconds(value)?))
    };
    below.lines().skip(1).map_while(row).collect()
}

/// Returns the percentiles, the bars of the histogram above them, and the slowest request.
pub(super) fn requests_of(program: Program, text: &str) -> Vec<PrintedTimes> {
    let (count, _) = responses(text);
    let percentiles = percentiles(program, text);
    let Some(&(_, highest)) = percentiles.last().filter(|_| count > 0.0) else { return Vec::new() };
    let mut points: Vec<(f64, f64)> =
        percentiles.into_iter().map(|(percent, latency)| (latency, percent / 100.0 * count)).collect();
    // Those of hey and ghz are upper ends, with fewer digits than the percentiles.
    if program.name != OHA.name {
        let scale = if program.name == HEY.name { 1e3 } else { 1.0 };
        let bars = bars(text);
        let counted = bars.last().map_or(0.0, |last| last.1);
        let above = bars.into_iter().map(|(mark, number)| (mark * scale, number));
        // With ghz, a histogram counts other requests than the successful ones as well.
        points.extend(above.filter(|(mark, _)| *mark > highest && counted == count));
    }
    points.extend(time_after(text, "Slowest:").map(|slowest| (slowest, count)));
    vec![PrintedTimes { count, points, ..PrintedTimes::default() }]
}

/// Reads the bars `0.005 [120]` as marks and numbers of requests up to them.
fn bars(text: &str) -> Vec<(f64, f64)> {
    let below = text.split_once("Response time histogram:").map_or("", |(_, rest)| rest);
    let mut seen = 0.0;
    let bar = |line: &str| {
        let (mark, rest) = line.trim().split_once('[')?;
        seen += number::plain(rest.split_once(']')?.0)?;
        Some((number::plain(mark.trim())?, seen))
    };
    below.lines().skip(1).map_while(bar).collect()
}

fn milliseconds(text: &str) -> Option<f64> {
    number::quantity(text)
        .filter(|quantity| quantity.kind == QuantityKind::Time && quantity.value >= 0.0)
        .map(|quantity| quantity.value)
}

/// Returns the numbers of successful responses, and of other responses and errors: `[200] 300 responses`.
fn responses(text: &str) -> (f64, f64) {
    let statuses = text.split_once("Status code distribution:").map_or("", |(_, rest)| rest);
    let (statuses, errors) = statuses.split_once("Error distribution:").unwrap_or((statuses, ""));
    let (mut successful, mut failed) = (0.0, 0.0);
    for line in statuses.lines() {
        let row = line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let Some((status, rest)) = row else { continue };
        let count = rest.split_whitespace().next().and_then(number::plain).unwrap_or(0.0).max(0.0);
        let is_successful = status == "OK" || status.starts_with(['2', '3']) && status.len() == 3;
        if is_successful { successful += count } else { failed += count }
    }
    // gRPC errors have a status as well; errors of HTTP clients have none.
    let without_status: f64 = errors
        .lines()
        .filter_map(|line| number::plain(line.trim().strip_prefix('[')?.split_once(']')?.0))
        .map(|count| count.max(0.0))
        .sum();
    (successful, failed.max(without_status))
}

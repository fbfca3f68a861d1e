//! stress-ng with `--metrics` or `--metrics-brief`.
//!
//! Tested with stress-ng 0.15.06. It prints to standard error, or with `--stdout` to standard output.

use crate::metric::{
    figures::{Figure, Figures, higher, not_output_of},
    number,
};

/// Reads bogo operations per second of real time, of each stressor by its name. The first stressor is
/// primary.
pub(super) fn read(stdout: &str, stderr: &str) -> Result<Figures, String> {
    let mut figures = rows(stdout);
    if figures.is_empty() {
        figures = rows(stderr);
    }
    if figures.is_empty() {
        let expected = "table of \"bogo ops/s\" (add --metrics-brief and --stdout to the command)";
        return Err(not_output_of("stress-ng", expected, stdout));
    }
    Ok(figures)
}

fn rows(text: &str) -> Figures {
    let mut lines = text.lines().map(message).skip_while(|line| !line.starts_with("stressor "));
    lines.next();
    lines.filter_map(row).collect()
}

/// Strips `stress-ng: metrc: [123] ` from a line. Lines of `--log-brief` do not have it.
fn message(line: &str) -> &str {
    let rest = line.trim().strip_prefix("stress-ng:").and_then(|line| line.split_once("] "));
    rest.map_or(line, |(_, rest)| rest).trim()
}

/// Reads a row: name, bogo operations, real, user and system time, and the rates by real time and by CPU
/// time.
fn row(line: &str) -> Option<Figure> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let values = words.take(6).map(number::plain).collect::<Option<Vec<f64>>>()?;
    let [_, _, _, _, rate, _] = values[..] else { return None };
    Some(higher(name, "bogo ops/s", rate))
}

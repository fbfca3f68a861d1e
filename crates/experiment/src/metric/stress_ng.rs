//! stress-ng with `--metrics` or `--metrics-brief`.
//!
//! Checked against stress-ng 0.15.06. It prints on standard error, or with `--stdout` on standard output.

use crate::metric::{
    figures::{Figure, Figures, higher, unlike},
    number,
};

/// Bogo operations per second of real time, of each stressor by its name; the first one is primary.
pub(super) fn read(stdout: &str, stderr: &str) -> Result<Figures, String> {
    let mut figures = rows(stdout);
    if figures.is_empty() {
        figures = rows(stderr);
    }
    if figures.is_empty() {
        let expected = "table of \"bogo ops/s\" (add --metrics-brief and --stdout to the command)";
        return Err(unlike("stress-ng", expected, stdout));
    }
    Ok(figures)
}

fn rows(text: &str) -> Figures {
    let mut lines = text.lines().map(message).skip_while(|line| !line.starts_with("stressor "));
    lines.next();
    lines.filter_map(row).collect()
}

/// A line without `stress-ng: metrc: [123] `, which `--log-brief` leaves out.
fn message(line: &str) -> &str {
    let rest = line.trim().strip_prefix("stress-ng:").and_then(|line| line.split_once("] "));
    rest.map_or(line, |(_, rest)| rest).trim()
}

/// Name, bogo operations, real, user and system time, and the rates over real and over CPU time.
fn row(line: &str) -> Option<Figure> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let values = words.take(6).map(number::plain).collect::<Option<Vec<f64>>>()?;
    let [_, _, _, _, rate, _] = values[..] else { return None };
    Some(higher(name, "bogo ops/s", rate))
}

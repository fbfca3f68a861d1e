//! sysbench: the tests `cpu`, `memory`, `fileio`, `threads` and `mutex`, and the `oltp` scripts.
//!
//! Tested with sysbench 1.0.20. Output of `oltp` and of version 1.1 was not available for tests.

use crate::metric::{
    figures::{Figures, after, higher, lower, not_output_of, number_after, number_between},
    number,
};

/// Reads the figures. The primary metric is throughput for `memory` and `fileio`, transactions for `oltp`,
/// and events for all others.
pub(super) fn read(text: &str) -> Result<Figures, String> {
    let total = number_after(text, "total number of events:");
    let seconds = after(text, "total time:")
        .and_then(|time| number::plain(time.strip_suffix('s')?))
        .filter(|seconds| *seconds > 0.0);
    let Some((total, seconds)) = total.zip(seconds) else {
        return Err(not_output_of(
            "sysbench",
            "\"total time:\" and \"total number of events:\" of version 1",
            text,
        ));
    };
    let mut figures = work(text);
    let events = number_after(text, "events per second:").or_else(|| number_after(text, "events/s (eps):"));
    figures.push(higher("events", "events/s", events.unwrap_or(total / seconds)));
    figures.extend(latency(text));
    Ok(figures)
}

/// Reads what the test counts besides events.
fn work(text: &str) -> Figures {
    let mut figures = Figures::new();
    if let Some(line) = text.lines().find(|line| line.contains(" transferred (")) {
        figures
            .extend(number_between(line, "(", " MiB/sec").map(|value| higher("throughput", "MiB/s", value)));
    }
    let file = number_after(text, "read, MiB/s:").zip(number_after(text, "written, MiB/s:"));
    if let Some((read, written)) = file {
        figures.push(higher("throughput", "MiB/s", read + written));
        for (name, label) in [("reads", "reads/s:"), ("writes", "writes/s:"), ("fsyncs", "fsyncs/s:")] {
            let unit = format!("{name}/s");
            figures.extend(number_after(text, label).map(|value| higher(name, &unit, value)));
        }
    }
    for name in ["transactions", "queries"] {
        let label = format!("{name}:");
        let unit = format!("{name}/s");
        let rate = after(text, &label).and_then(|line| number_between(line, "(", " per sec"));
        figures.extend(rate.map(|value| higher(name, &unit, value)));
    }
    figures
}

fn latency(text: &str) -> Figures {
    let mut figures = Figures::new();
    let Some((_, section)) = text.split_once("Latency (ms):") else { return figures };
    figures.extend(number_after(section, "avg:").map(|value| lower("latency", "ms", value)));
    for line in section.lines() {
        let Some((percentile, value)) = line.trim().split_once("th percentile:") else { continue };
        if let (Some(_), Some(value)) = (number::plain(percentile), number::plain(value)) {
            figures.push(lower(&format!("p{percentile}"), "ms", value));
        }
    }
    figures
}

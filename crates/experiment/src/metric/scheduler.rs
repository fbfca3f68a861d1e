//! hackbench and `perf bench`, which have a common origin.
//!
//! Tested with hackbench of rt-tests 2.4 and perf 6.1, in its default format.

use crate::metric::{
    figures::{Figure, Figures, higher, lower, not_output_of, slug},
    number,
};

/// Reads the time of `hackbench`.
pub(super) fn hackbench(text: &str) -> Result<Figures, String> {
    let times: Figures = text
        .lines()
        .filter_map(|line| number::plain(line.trim().strip_prefix("Time:")?))
        .map(|seconds| lower("time", "s", seconds))
        .collect();
    if times.is_empty() { Err(not_output_of("hackbench", "\"Time:\"", text)) } else { Ok(times) }
}

/// Reads what the benchmarks print: `time`, `latency`, `operations`, or the throughput of each function. With
/// several benchmarks, each name starts with that of its benchmark: `pipe.time`.
pub(super) fn perf_bench(text: &str) -> Result<Figures, String> {
    let text = format!("\n{text}");
    let sections: Vec<(&str, &str)> = text.split("\n# Running ").skip(1).filter_map(section).collect();
    let several = sections.len() > 1;
    let mut figures = Figures::new();
    for (name, section) in sections {
        let short = name.rsplit('/').next().unwrap_or(name);
        for (mut metric, value) in benchmark(section) {
            if several {
                metric.name = format!("{short}.{}", metric.name);
            }
            figures.push((metric, value));
        }
    }
    if figures.is_empty() {
        return Err(not_output_of("perf bench", "figures in its default format (-f default)", &text));
    }
    Ok(figures)
}

/// Splits a section into its name and text. It starts with `'sched/pipe' benchmark:`, or, among several, with
/// `sched/pipe benchmark...`.
fn section(text: &str) -> Option<(&str, &str)> {
    let (name, section) = text.split_once(" benchmark")?;
    Some((name.trim_matches('\''), section))
}

fn benchmark(section: &str) -> Figures {
    let mut function = "throughput".to_owned();
    let mut figures = Figures::new();
    for line in section.lines().map(str::trim) {
        if let Some((name, _)) = line.strip_prefix("# function '").and_then(|rest| rest.split_once('\'')) {
            function = slug(name);
        }
        figures.extend(figure(line, &function));
    }
    figures
}

/// Reads the figure of one line. Lines of single threads and single runs start with `[` and are skipped.
fn figure(line: &str, function: &str) -> Option<Figure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, unit, value) = match words[..] {
        ["Total", "time:", value, "[sec]"] => ("time", "s", value),
        [value, unit @ ("nsecs/op" | "usecs/op" | "msecs/op")] => ("latency", unit, value),
        [value, "ops/sec"] | ["Averaged", value, "operations/sec", ..] => ("operations", "ops/s", value),
        ["Wokeup" | "Requeued", _, "of", _, "threads", "in", value, unit @ ("ms" | "us"), ..] => {
            ("time", unit, value)
        }
        [value, unit @ ("KB/sec" | "MB/sec" | "GB/sec" | "TB/sec")] => (function, unit, value),
        [value, "GB/sec", "total", "speed"] | [value, "GB/sec/total", "speed"] => (function, "GB/s", value),
        _ => return None,
    };
    let value = number::plain(value)?;
    Some(match name {
        "time" | "latency" => lower(name, unit, value),
        _ => higher(name, &unit.replace("/sec", "/s"), value),
    })
}

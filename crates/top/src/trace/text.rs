//! The summary in words.

use super::{Recording, Summary, WaitSummary};
use manycore_text::units::counted;
use std::{fmt::Write, path::Path};

/// Returns the lines that are shown after a recording: run time by unit, waits, migrations, what is missing, the file.
pub fn text(summary: &Summary, recording: &Recording, path: &Path) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} in {}, {}",
        counted(summary.threads, "thread"),
        span(summary.length_ns),
        counted(recording.events.len(), "event")
    );
    for unit in &summary.units {
        let other =
            if unit.other_ns > 0 { format!(", other tasks {}", span(unit.other_ns)) } else { String::new() };
        let _ = writeln!(text, "  ran {} on {}{other}", span(unit.watched_ns), unit.name);
    }
    for (name, waits) in [("after a wake-up", summary.wakeup), ("after being displaced", summary.displaced)] {
        let _ = writeln!(text, "  waits for a CPU {name}: {}", waits_text(waits));
    }
    let _ = writeln!(text, "  migrations: {}", summary.distances.text(summary.migrations));
    if recording.lost > 0 {
        let _ = writeln!(
            text,
            "  {} events were lost because they came too fast: intervals are missing. Record fewer processes",
            recording.lost
        );
    }
    if recording.unwatched > 0 {
        let _ = writeln!(
            text,
            "  {} processes are missing: 16,384 can be recorded. Record all of the machine: --all",
            recording.unwatched
        );
    }
    if recording.is_full {
        let _ = writeln!(text, "  recording ended early, by --most-events {}", recording.events.len());
    }
    let _ = writeln!(text, "{}: open it in https://ui.perfetto.dev", path.display());
    text
}

fn waits_text(waits: WaitSummary) -> String {
    if waits.count == 0 {
        return "none".to_owned();
    }
    let [sum, half, most, max] = [waits.sum_ns, waits.p50_ns, waits.p99_ns, waits.max_ns].map(span);
    format!("{}, {sum} in total, p50 {half}, p99 {most}, longest {max}", waits.count)
}

fn span(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        trace::{UnitSummary, unit::TraceUnits},
        units::tests::machine_with_gaps,
    };

    #[test]
    fn the_summary_says_what_is_missing() {
        let waits =
            WaitSummary { count: 3, sum_ns: 6_500_000, p50_ns: 900, p99_ns: 2_000_000, max_ns: 2_000_000 };
        let unit =
            UnitSummary { name: "node 0: CPUs 0-3".to_owned(), watched_ns: 1_500_000_000, other_ns: 20_000 };
        let summary = Summary {
            length_ns: 2_000_000_000,
            threads: 2,
            units: vec![unit],
            wakeup: waits,
            displaced: WaitSummary::default(),
            migrations: [1, 0, 2, 0],
            distances: TraceUnits::new(&machine_with_gaps()).distances(),
        };
        let recording = Recording { lost: 5, unwatched: 2, is_full: true, ..Recording::default() };
        let expected = "\
2 threads in 2.00 s, 0 events
  ran 1.50 s on node 0: CPUs 0-3, other tasks 20.0 us
  waits for a CPU after a wake-up: 3, 6.5 ms in total, p50 0.9 us, p99 2.0 ms, longest 2.0 ms
  waits for a CPU after being displaced: none
  migrations: 1 within clusters, 2 across clusters, 0 across nodes
  5 events were lost because they came too fast: intervals are missing. Record fewer processes
  2 processes are missing: 16,384 can be recorded. Record all of the machine: --all
  recording ended early, by --most-events 0
t.json: open it in https://ui.perfetto.dev
";
        assert_eq!(text(&summary, &recording, Path::new("t.json")), expected);
    }
}

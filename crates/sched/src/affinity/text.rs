//! What a session sees and does, in words.

use super::{
    decision::{Action, AffinityStep},
    session::AffinityEvent,
    totals::{AffinityTotals, IntervalReport},
    units::Units,
};
use manycore_text::units::{counted, duration, percent};
use std::time::Duration;

/// Describes an event in one line; `None` for one that is only shown with every interval.
pub fn event(event: &AffinityEvent, units: &Units) -> Option<String> {
    match event {
        AffinityEvent::Interval(_) => None,
        AffinityEvent::LeftAlone { thread, cpus } => {
            Some(format!("{thread} was given CPUs {cpus} by itself or another program: it is left alone"))
        }
        AffinityEvent::Refused { thread, why } => Some(format!("{thread} cannot be moved: {why}")),
        AffinityEvent::UnitsChanged { units: count } => Some(format!(
            "CPUs went offline or came online: now {}",
            counted(*count, &units.level.to_string())
        )),
    }
}

/// Describes an interval in one line:
/// `12 s: 4 busy threads in 4 of 4 clusters, 0 misplaced, 1 moved, 0.8 ms of CPU time`.
pub fn interval(report: &IntervalReport, units: &Units) -> String {
    let done = [(Action::Move, "moved"), (Action::Hold, "held"), (Action::Release, "released")];
    let done = done.map(|(action, word)| (report.count(action), word));
    let mut words = String::new();
    for (count, word) in done.into_iter().filter(|(count, _)| *count > 0) {
        words.push_str(&format!(", {count} {word}"));
    }
    format!(
        "{:.0} s: {} in {} of {}, {} misplaced{words}, {} of CPU time",
        report.at.as_secs_f64(),
        counted(report.busy, "busy thread"),
        report.used_units,
        counted(report.units, &units.level.to_string()),
        report.misplaced,
        milliseconds(report.cost.as_secs_f64()),
    )
}

/// Describes a change in one line.
pub fn step(step: &AffinityStep) -> String {
    let AffinityStep { tid, action, cpus } = step;
    match action {
        Action::Move => format!("thread {tid} is moved to CPUs {cpus}"),
        Action::Hold => format!("thread {tid} is held on CPUs {cpus}"),
        Action::Release => format!("thread {tid} gets CPUs {cpus} back"),
    }
}

/// Describes what a session did and what it cost, one sentence per line.
pub fn summary(totals: &AffinityTotals) -> Vec<String> {
    let AffinityTotals { moves, holds, releases, .. } = *totals;
    let changed = counted(totals.changed_threads, "thread");
    let seconds = totals.elapsed.as_secs_f64();
    let mut lines = vec![format!(
        "{} in {}: {moves} moved to another place, {holds} held, {releases} released; affinities of {changed} changed",
        counted(totals.intervals, "interval"),
        duration(seconds),
    )];
    if totals.busy_intervals > 0 {
        let share = totals.misplaced_intervals as f64 / totals.busy_intervals as f64;
        lines.push(format!(
            "another place would have suited a busy thread better in {} of {} ({})",
            totals.misplaced_intervals,
            counted(totals.busy_intervals, "busy interval"),
            percent(share),
        ));
    }
    lines.push(cost(totals.cost, seconds));
    lines
}

/// Describes the CPU time that the tool itself used.
fn cost(used: Duration, seconds: f64) -> String {
    let per_second = used.as_secs_f64() / seconds.max(1e-3);
    format!("cost: {} of CPU time per second, {} of one CPU", milliseconds(per_second), percent(per_second))
}

/// Formats a short time: `0.84 ms`, `12 ms`.
fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 9.95 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::tests::machine;
    use manycore_topology::Level;
    use manycore_topology::synthetic::MachineSpec;

    #[test]
    fn intervals_and_the_summary_read_well() {
        let units =
            Units::of(&machine(&MachineSpec { clusters: 4, ..MachineSpec::default() }), Level::Cluster);
        let steps = [Action::Move, Action::Move, Action::Hold];
        let steps = steps.map(|action| AffinityStep { tid: 7, action, cpus: "2-3".parse().unwrap() });
        let report = IntervalReport {
            at: Duration::from_millis(12_010),
            threads: 9,
            busy: 4,
            used_units: 1,
            units: 4,
            misplaced: 4,
            steps: steps.to_vec(),
            cost: Duration::from_micros(840),
        };
        assert_eq!(
            interval(&report, &units),
            "12 s: 4 busy threads in 1 of 4 clusters, 4 misplaced, 2 moved, 1 held, 0.84 ms of CPU time"
        );
        assert_eq!(step(&steps[0]), "thread 7 is moved to CPUs 2-3");
        let mut totals = AffinityTotals::default();
        totals.add(&report);
        totals.add(&IntervalReport { busy: 4, ..IntervalReport::default() });
        let ended = AffinityTotals {
            elapsed: Duration::from_secs(2),
            cost: Duration::from_millis(3),
            changed_threads: 3,
            ..totals
        };
        assert_eq!(
            summary(&ended),
            [
                "2 intervals in 2 s: 2 moved to another place, 1 held, 0 released; affinities of 3 threads changed",
                "another place would have suited a busy thread better in 1 of 2 busy intervals (50 %)",
                "cost: 1.50 ms of CPU time per second, 0.15 % of one CPU",
            ]
        );
    }
}

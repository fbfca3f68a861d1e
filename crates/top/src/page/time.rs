//! The axis of time: times of day, or the time since the first sample where the clock was set.

use manycore_render::chart::TimeAxis;
use std::time::{Duration, UNIX_EPOCH};

/// Most ticks.
const MOST_TICKS: u64 = 6;
const DAY: u64 = 86_400;
/// Distances of ticks in seconds, up to a day.
const STEPS: [u64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];

/// Returns the axis of a recording of so many seconds. `unix_ms` has the times of its first and last sample in
/// milliseconds since 1970.
pub(super) fn axis(unix_ms: (u64, u64), seconds: f64) -> TimeAxis {
    let by_clock = unix_ms.1.saturating_sub(unix_ms.0) as f64 / 1e3;
    // A clock that was set, or a machine that was suspended, moves the times behind it.
    if (by_clock - seconds).abs() > (seconds * 0.01).max(1.0) {
        return since_first(seconds);
    }
    let (first, last) = (unix_ms.0 / 1000, unix_ms.0.saturating_add((seconds * 1e3) as u64) / 1000);
    let step = step(last - first);
    let ticks = (unix_ms.0.div_ceil(step * 1000)..=last / step).map(|at| at * step);
    let place = |at: u64| (at as f64 * 1e3 - unix_ms.0 as f64) / 1e3;
    let mut ticks: Vec<(f64, String)> = ticks.map(|at| (place(at), label(at, step))).collect();
    if ticks.is_empty() {
        ticks.push((0.0, label(first, step)));
    }
    let [first, last] = [first, last].map(|at| text(at)[..10].to_owned());
    let days = if first == last { first } else { format!("{first} to {last}") };
    TimeAxis { name: format!("time in UTC, {days}"), length: seconds, ticks }
}

/// Returns the axis of the time since the first sample, in a unit that fits the length.
fn since_first(seconds: f64) -> TimeAxis {
    let (unit, each) = match seconds {
        ..180.0 => ("seconds", 1),
        ..10_800.0 => ("minutes", 60),
        ..259_200.0 => ("hours", 3600),
        _ => ("days", DAY),
    };
    let step = step(seconds as u64).div_ceil(each) * each;
    let ticks = (0..=seconds as u64 / step).map(|at| ((at * step) as f64, (at * step / each).to_string()));
    let name = format!("{unit} since the first sample, as the clock was set or the machine suspended");
    TimeAxis { name, length: seconds, ticks: ticks.collect() }
}

/// Returns the distance of ticks of an axis of so many seconds.
fn step(seconds: u64) -> u64 {
    let found = STEPS.into_iter().find(|step| seconds / step < MOST_TICKS);
    found.unwrap_or_else(|| (seconds / MOST_TICKS / DAY + 1) * DAY)
}

/// Returns a time in seconds since 1970 as `2026-09-12T10:23:43Z`.
fn text(seconds: u64) -> String {
    // The year 9999 is the last one that the format has.
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    humantime::format_rfc3339_seconds(time).to_string()
}

fn label(seconds: u64, step: u64) -> String {
    let text = text(seconds);
    match step {
        ..60 => &text[11..19],
        60..DAY => &text[11..16],
        _ => &text[5..10],
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-09-21 14:13:20.5 UTC.
    const FIRST: u64 = 1_790_000_000_500;

    fn drawn(seconds: u64) -> (String, Vec<String>) {
        let axis = axis((FIRST, FIRST + seconds * 1000), seconds as f64);
        assert!(axis.ticks.len() <= 7, "{axis:?}");
        assert!(axis.ticks.iter().all(|tick| (0.0..=axis.length).contains(&tick.0)), "{axis:?}");
        (axis.name, axis.ticks.into_iter().map(|tick| tick.1).collect())
    }

    #[test]
    fn ticks_are_round_times_of_day() {
        let (name, ticks) = drawn(25);
        assert_eq!(
            (&*name, ticks),
            ("time in UTC, 2026-09-21", ["25", "30", "35", "40", "45"].map(|s| format!("14:13:{s}")).into())
        );
        assert_eq!(drawn(600).1, ["14:14", "14:16", "14:18", "14:20", "14:22"]);
        let (name, ticks) = drawn(DAY);
        assert_eq!(
            (&*name, ticks),
            (
                "time in UTC, 2026-09-21 to 2026-09-22",
                ["18:00", "00:00", "06:00", "12:00"].map(str::to_owned).into()
            )
        );
        assert_eq!(drawn(20 * DAY).1, ["09-24", "09-28", "10-02", "10-06", "10-10"]);
        for seconds in 0..5000 {
            assert!(!drawn(seconds).1.is_empty());
            assert!(!drawn(seconds * 977).1.is_empty());
        }
        let first = axis((FIRST, FIRST), 0.0).ticks[0].0;
        assert!(first.abs() < 1e-9);
        assert!((axis((FIRST, FIRST + 25_000), 25.0).ticks[0].0 - 4.5).abs() < 1e-6);
    }

    #[test]
    fn without_a_steady_clock_the_time_begins_at_zero() {
        let axis = axis((FIRST, FIRST + 4_000_000), 600.0);
        assert!(axis.name.starts_with("minutes since"));
        assert_eq!(
            axis.ticks.iter().map(|tick| &*tick.1).collect::<Vec<_>>(),
            ["0", "2", "4", "6", "8", "10"]
        );
        assert_eq!(super::axis((9, 0), 1e9).ticks.len(), 6);
    }
}

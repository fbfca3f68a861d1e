//! How near the end of memory is: a pure function of what was read, of the trend, and of the limits.

use super::trend::Trend;
use serde::{Deserialize, Serialize};

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Readings further apart than this tell no trend: the machine slept, or we were stopped.
pub const GAP_NS: u64 = 60 * SECOND;

/// What the trend of now is told from.
const SHARP_NS: u64 = SECOND / 2;

/// What a lasting trend needs.
const LASTING_NS: u64 = 10 * SECOND;

/// A trend alone has us warn only while less than this share of the memory is left, because programs that start take
/// memory quickly and then stop.
const WARN_SHARE: f64 = 0.5;

/// A trend alone has us act only while less than this many times `term_below` is left: what takes memory quickly and
/// then stops is let be as long as it fits.
pub const ACT_FACTOR: f64 = 1.5;

/// The last resort acts where memory will be exhausted within this time, in seconds.
const LAST_SECONDS: f64 = 30.0;

/// Or where less than this share is left and some tasks wait for it for [`LAST_STALLED`] of the time.
const LAST_SHARE: f64 = 1.0 / 256.0;

/// See [`LAST_SHARE`].
const LAST_STALLED: f64 = 0.1;

/// While the holder of the memory is searched for, the last resort waits until less than this share of `kill_below` is
/// left.
const SEARCH_SHARE: f64 = 0.25;

/// Part of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// Percent of the whole.
    Percent(f64),
    /// Bytes.
    Bytes(u64),
    /// Percent of the whole, but not more than so many bytes.
    Capped(f64, u64),
}

impl Amount {
    /// In bytes, of a whole of `total` bytes.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Self::Percent(percent) => (total as f64 * percent / 100.0) as u64,
            Self::Bytes(bytes) => bytes,
            Self::Capped(percent, most) => most.min((total as f64 * percent / 100.0) as u64),
        }
    }
}

/// From when on what is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A warning is written where memory will be exhausted within this time, in seconds.
    pub warn_before: f64,
    /// SIGTERM where less is available.
    pub term_below: Amount,
    /// SIGTERM where memory will be exhausted within this time, in seconds.
    pub term_before: f64,
    /// SIGKILL where less is available.
    pub kill_below: Amount,
    /// SIGKILL where memory will be exhausted within this time, in seconds: what a kill takes to have an effect.
    pub kill_before: f64,
    /// SIGTERM where less than twice `term_below` is available and all tasks wait for memory for this share of the time
    /// (PSI `full` over some seconds), and SIGKILL below `term_below`; 0 to 1.
    pub stalled: f64,
}

impl Default for Limits {
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            warn_before: 60.0,
            term_below: Amount::Capped(10.0, 4 * GIB),
            term_before: 1.0,
            kill_below: Amount::Capped(5.0, 2 * GIB),
            kill_before: 0.2,
            stalled: 0.4,
        }
    }
}

/// What was read at one moment of the machine, a control group or a set of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Bytes that can still be had without swapping.
    pub available: u64,
    /// All of it.
    pub total: u64,
    /// Free swap in bytes.
    pub swap_free: u64,
    /// All swap in bytes.
    pub swap_total: u64,
    /// Memory of `tmpfs` and shared memory in bytes.
    pub shmem: u64,
    /// Share of the last seconds in which all tasks waited for memory (PSI `full`), 0 to 1, where the kernel tells it.
    pub stalled: Option<f64>,
}

impl Reading {
    /// What can still be had, swap included.
    pub fn room(&self) -> u64 {
        self.available.saturating_add(self.swap_free)
    }
}

/// What has to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Nothing.
    #[default]
    Calm,
    /// Say that it is coming, and slow the cause down where that is wished.
    Warn,
    /// Ask the cause to end.
    Term,
    /// End it.
    Kill,
}

/// Why a stage was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// There is none.
    #[default]
    None,
    /// Less is left than the limit says.
    Level,
    /// It will be used up within the time that the limit says.
    Trend,
    /// Tasks wait for memory for most of the time.
    Stall,
}

/// How near the end is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// What has to be done.
    pub stage: Stage,
    /// Why.
    pub cause: Cause,
    /// Bytes a second that the room falls by.
    pub rate: f64,
    /// Seconds until nothing is left at this rate; absent where it does not fall.
    pub seconds_left: Option<f64>,
}

/// Judges a reading that `trend` has already.
pub fn assess(reading: &Reading, trend: &Trend, limits: &Limits) -> Assessment {
    let sharp = trend.sharp(SHARP_NS);
    let lasting = trend.lasting(LASTING_NS).unwrap_or(0.0);
    let rate = sharp.max(lasting);
    let left = |rate: f64| if rate >= 1.0 { reading.room() as f64 / rate } else { f64::INFINITY };
    let (stage, cause) = stage(reading, limits, left(sharp), left(rate));
    Assessment { stage, cause, rate, seconds_left: Some(left(rate)).filter(|left| left.is_finite()) }
}

/// `soon` and `left` are the seconds that are left at the rate of now, and at the larger of both.
fn stage(reading: &Reading, limits: &Limits, soon: f64, left: f64) -> (Stage, Cause) {
    let below = |amount: Amount, factor: f64| {
        let of = |total: u64| amount.of(total) as f64 * factor;
        let swap = reading.swap_total == 0 || reading.swap_free as f64 <= of(reading.swap_total);
        swap && reading.available as f64 <= of(reading.total)
    };
    let is_short = below(limits.term_below, ACT_FACTOR);
    let share =
        |share: f64| reading.room() as f64 <= reading.total.saturating_add(reading.swap_total) as f64 * share;
    let term = limits.term_below.of(reading.total);
    let stalled = reading.stalled.is_some_and(|stalled| stalled >= limits.stalled);
    if below(limits.kill_below, 1.0) {
        (Stage::Kill, Cause::Level)
    } else if is_short && soon <= limits.kill_before {
        (Stage::Kill, Cause::Trend)
    } else if stalled && reading.available <= term {
        (Stage::Kill, Cause::Stall)
    } else if below(limits.term_below, 1.0) {
        (Stage::Term, Cause::Level)
    } else if is_short && soon <= limits.term_before {
        (Stage::Term, Cause::Trend)
    } else if stalled && reading.available <= term.saturating_mul(2) {
        (Stage::Term, Cause::Stall)
    } else if share(WARN_SHARE) && left <= limits.warn_before {
        (Stage::Warn, Cause::Trend)
    } else {
        (Stage::Calm, Cause::None)
    }
}

/// Whether the end is so near that it has to be somebody, though nobody is shown to be the cause: memory still falls, or
/// tasks wait for what is not there. A machine that is always full and works is not at its end. While it is searched for
/// the process that holds the memory (`is_sought`), there is time until almost nothing is left or tasks stall.
pub fn is_end(reading: &Reading, told: &Assessment, limits: &Limits, is_sought: bool) -> bool {
    let is_soon = told.seconds_left.is_some_and(|left| left <= LAST_SECONDS);
    let is_none = reading.room() as f64 <= reading.total as f64 * LAST_SHARE;
    let waits = reading.stalled.is_none_or(|stalled| stalled >= LAST_STALLED);
    let is_stalled = reading.stalled.is_some_and(|stalled| stalled >= limits.stalled);
    let is_trend = told.cause == Cause::Trend;
    let least = limits.kill_below.of(reading.total) as f64 * SEARCH_SHARE;
    let may_act = !is_sought || is_stalled || (reading.room() as f64) < least;
    told.stage == Stage::Kill && may_act && (is_trend || is_stalled || is_soon || is_none && waits)
}

/// How long to wait for the next reading, in nanoseconds: as long as the fastest writer would take to where trends have us
/// act, or an eighth of the time that is left, whichever is shorter; between 20 ms and `most_ns`.
pub fn pause_ns(reading: &Reading, assessment: &Assessment, limits: &Limits, most_ns: u64) -> u64 {
    /// Bytes a second that one CPU can ask for and clear at most; several take less than proportionally more.
    const FASTEST: f64 = 6e9;
    const SHORTEST_NS: u64 = 20_000_000;
    let spare = (reading.room() as f64 - limits.term_below.of(reading.total) as f64 * ACT_FACTOR).max(0.0);
    let fastest = spare / FASTEST;
    let trend = assessment.seconds_left.map_or(f64::INFINITY, |left| left / 8.0);
    ((fastest.min(trend) * 1e9) as u64).clamp(SHORTEST_NS, most_ns.max(SHORTEST_NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn reading(available: u64) -> Reading {
        Reading { available, total: 16 * GIB, ..Reading::default() }
    }

    /// A trend that falls by `rate` bytes a second to `room`.
    fn falling(room: u64, rate: u64) -> Trend {
        let mut trend = Trend::default();
        for n in 0..40 {
            trend.add(n * SECOND / 2, room + (39 - n) * rate / 2, GAP_NS);
        }
        trend
    }

    fn at(available: u64, rate: u64) -> (Stage, Cause) {
        let told = assess(&reading(available), &falling(available, rate), &Limits::default());
        (told.stage, told.cause)
    }

    #[test]
    fn levels_act_without_a_trend() {
        assert_eq!(at(8 * GIB, 0), (Stage::Calm, Cause::None));
        assert_eq!(at(3 * GIB / 2, 0), (Stage::Term, Cause::Level));
        assert_eq!(at(3 * GIB / 4, 0), (Stage::Kill, Cause::Level));
    }

    #[test]
    fn a_trend_acts_before_levels_but_never_while_memory_is_free() {
        assert_eq!(at(2 * GIB, 3 * GIB), (Stage::Term, Cause::Trend));
        assert_eq!(at(2 * GIB, 11 * GIB), (Stage::Kill, Cause::Trend));
        assert_eq!(
            at(3 * GIB, 7 * GIB),
            (Stage::Warn, Cause::Trend),
            "more than 1.5 times term_below is left"
        );
        assert_eq!(at(6 * GIB, 20 * GIB), (Stage::Warn, Cause::Trend));
        assert_eq!(at(12 * GIB, 100 * GIB), (Stage::Calm, Cause::None));
        assert_eq!(at(7 * GIB, GIB / 64), (Stage::Calm, Cause::None), "448 s are left");
        assert_eq!(at(7 * GIB, GIB / 4), (Stage::Warn, Cause::Trend), "28 s are left");
    }

    /// The stage of a machine of `total` bytes of which `available` are left after it took the rest at `rate`.
    fn spike(total: u64, available: u64, rate: u64) -> Stage {
        let reading = Reading { available, total, ..Reading::default() };
        assess(&reading, &falling(available, rate), &Limits::default()).stage
    }

    #[test]
    fn a_spike_that_fits_is_let_be_on_small_and_large_machines() {
        const MIB: u64 = 1 << 20;
        // Seen: SIGTERM with 196 of 1,000 MiB left, and 2 MiB still to come.
        assert_eq!(spike(1000 * MIB, 196 * MIB, 1400 * MIB), Stage::Warn);
        assert_eq!(spike(1000 * MIB, 151 * MIB, 1400 * MIB), Stage::Warn);
        assert_eq!(spike(1000 * MIB, 149 * MIB, 1400 * MIB), Stage::Kill, "it is gone in 0.1 s");
        assert_eq!(spike(1000 * MIB, 149 * MIB, 100 * MIB), Stage::Warn, "it lasts for 1.5 s");
        assert_eq!(spike(1024 * GIB, 7 * GIB, 40 * GIB), Stage::Warn);
        assert_eq!(spike(1024 * GIB, 5 * GIB, 40 * GIB), Stage::Kill);
        assert_eq!(spike(1024 * GIB, 5 * GIB, GIB), Stage::Warn);
    }

    #[test]
    fn the_end_is_near_where_memory_falls_or_tasks_wait_but_not_where_it_is_always_full() {
        let limits = Limits::default();
        let end = |available: u64, rate: u64, stalled| {
            let reading = Reading { stalled, ..reading(available) };
            is_end(&reading, &assess(&reading, &falling(available, rate), &limits), &limits, false)
        };
        assert!(!end(GIB / 2, 0, Some(0.0)), "full, and it works");
        assert!(end(GIB / 2, GIB / 8, Some(0.0)) && end(GIB / 2, 0, Some(0.9)));
        assert!(!end(GIB / 32, 0, Some(0.0)) && end(GIB / 32, 0, Some(0.2)) && end(GIB / 32, 0, None));
        assert!(end(GIB, 0, Some(0.9)) && !end(3 * GIB, 0, Some(0.9)), "stalls count where little is left");
    }

    #[test]
    fn the_last_resort_does_not_act_before_the_search_for_the_holder_has_ended() {
        const MIB: u64 = 1 << 20;
        let limits = Limits::default();
        let end = |available: u64, stalled, is_sought| {
            let total = 1000 * MIB;
            let reading = Reading { available, total, stalled: Some(stalled), ..Reading::default() };
            is_end(&reading, &assess(&reading, &falling(available, 100 * MIB), &limits), &limits, is_sought)
        };
        // Seen: the innocent was ended at 45 of 1,000 MiB, a second before the holder was found.
        assert!(end(45 * MIB, 0.0, false), "nothing is searched for");
        assert!(!end(45 * MIB, 0.0, true) && !end(13 * MIB, 0.0, true));
        assert!(end(12 * MIB, 0.0, true), "almost nothing is left");
        assert!(end(45 * MIB, 0.9, true), "tasks stall");
    }

    #[test]
    fn stalls_act_only_where_little_is_left() {
        let stalled = |available| {
            let reading = Reading { stalled: Some(0.9), ..reading(available) };
            assess(&reading, &Trend::default(), &Limits::default()).stage
        };
        assert_eq!(stalled(8 * GIB), Stage::Calm);
        assert_eq!(stalled(3 * GIB), Stage::Term);
        assert_eq!(stalled(3 * GIB / 2), Stage::Kill);
    }

    #[test]
    fn free_swap_keeps_levels_from_acting() {
        let told = |swap_free| {
            let reading = Reading { swap_free, swap_total: 8 * GIB, ..reading(GIB / 2) };
            assess(&reading, &Trend::default(), &Limits::default()).stage
        };
        assert_eq!(told(4 * GIB), Stage::Calm);
        assert_eq!(told(GIB / 2), Stage::Term);
        assert_eq!(told(0), Stage::Kill);
    }

    #[test]
    fn a_percentage_may_be_capped() {
        assert_eq!(Amount::Capped(10.0, 4 * GIB).of(16 * GIB), (1.6 * GIB as f64) as u64);
        assert_eq!(Amount::Capped(10.0, 4 * GIB).of(1024 * GIB), 4 * GIB);
        assert_eq!(Amount::Percent(50.0).of(10), 5);
    }

    #[test]
    fn readings_come_closer_as_the_end_does() {
        let pause = |available, rate| {
            let (reading, trend, limits) = (reading(available), falling(available, rate), Limits::default());
            pause_ns(&reading, &assess(&reading, &trend, &limits), &limits, SECOND)
        };
        assert_eq!(pause(12 * GIB, 0), SECOND);
        assert!(pause(3 * GIB, 0) < SECOND / 5);
        assert_eq!(pause(GIB, 0), SECOND / 50);
        assert!(pause(4 * GIB, GIB) <= SECOND / 2);
    }

    proptest! {
        #[test]
        fn less_memory_is_never_less_urgent(
            total in 1u64..1 << 44, first in 0.0f64..1.0, second in 0.0f64..1.0, rate in 0u64..1 << 36,
            swap_total in 0u64..1 << 40, swap_share in 0.0f64..1.0, stalled in 0.0f64..1.0,
        ) {
            let told = |share: f64| {
                let available = (total as f64 * share) as u64;
                let swap_free = (swap_total as f64 * swap_share) as u64;
                let reading = Reading {
                    at_ns: 0, available, total, swap_free, swap_total, shmem: 0, stalled: Some(stalled),
                };
                assess(&reading, &falling(reading.room(), rate), &Limits::default()).stage
            };
            let (less, more) = (first.min(second), first.max(second));
            prop_assert!(told(less) >= told(more));
        }
    }
}

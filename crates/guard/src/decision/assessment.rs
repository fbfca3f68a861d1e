//! The urgency of a memory shortage: a pure function of a reading, the trend and the limits.

use super::trend::Trend;
pub use manycore_linux::available_memory::MemoryReading;
use serde::{Deserialize, Serialize};

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// No trend is computed across a gap between readings that is longer than this: the machine was suspended, or
/// this process was stopped.
pub const GAP_NS: u64 = 60 * SECOND;

/// Window of the short-term trend, in nanoseconds.
const SHORT_TERM_NS: u64 = SECOND / 2;

/// Least span of readings for the long-term trend, in nanoseconds.
const LONG_TERM_NS: u64 = 10 * SECOND;

/// A trend alone leads to a warning only while less than this share of memory is left: programs often take
/// memory quickly when they start, and then stop growing.
const TREND_WARN_SHARE: f64 = 0.5;

/// A trend alone leads to a signal only while less than this many times `term_below` is left. A process that
/// takes memory quickly and then stops growing is left running as long as its memory fits.
pub const TREND_ACT_FACTOR: f64 = 1.5;

/// The last resort acts if memory will be exhausted within this time, in seconds.
const LAST_RESORT_SECONDS: f64 = 30.0;

/// The last resort also acts if less than this share is left and some tasks wait for memory for
/// [`LAST_RESORT_STALLED`] of the time.
const LAST_RESORT_SHARE: f64 = 1.0 / 256.0;

/// See [`LAST_RESORT_SHARE`].
const LAST_RESORT_STALLED: f64 = 0.1;

/// While the guard still searches for the process that holds the memory, the last resort waits until less
/// than this share of `kill_below` is left.
const SEARCH_SHARE: f64 = 0.25;

/// An amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Amount {
    /// Percent of the total.
    Percent(f64),
    /// Bytes.
    Bytes(u64),
    /// Percent of the total, but at most this many bytes.
    Capped(f64, u64),
}

impl Amount {
    /// Returns the amount in bytes for a total of `total` bytes.
    pub fn bytes_of(self, total: u64) -> u64 {
        match self {
            Self::Percent(percent) => (total as f64 * percent / 100.0) as u64,
            Self::Bytes(bytes) => bytes,
            Self::Capped(percent, most) => most.min((total as f64 * percent / 100.0) as u64),
        }
    }
}

/// The thresholds at which the guard acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Warn if memory will be exhausted within this time, in seconds.
    pub warn_before: f64,
    /// Send SIGTERM if less than this is available.
    pub term_below: Amount,
    /// Send SIGTERM if memory will be exhausted within this time, in seconds.
    pub term_before: f64,
    /// Send SIGKILL if less than this is available.
    pub kill_below: Amount,
    /// Send SIGKILL if memory will be exhausted within this time, in seconds. This should be the time that a
    /// kill needs to free memory.
    pub kill_before: f64,
    /// Share of time, 0 to 1, in which all tasks wait for memory (PSI `full` over some seconds). At this
    /// share, send SIGTERM if less than twice `term_below` is available, and SIGKILL below `term_below`.
    pub stalled: f64,
}

impl Default for Thresholds {
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

/// The action that a reading calls for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// No action.
    #[default]
    Calm,
    /// Warn, and slow the cause down if the rules say so.
    Warn,
    /// Send SIGTERM to the cause.
    Term,
    /// Send SIGKILL to the cause.
    Kill,
}

/// Why a stage was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StageReason {
    /// No reason: the stage is [`Stage::Calm`].
    #[default]
    None,
    /// Less memory is left than the limit.
    Level,
    /// Memory will be used up within the time of the limit.
    Trend,
    /// Tasks wait for memory for most of the time.
    Stall,
}

/// The assessment of a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assessment {
    /// The action that is needed.
    pub stage: Stage,
    /// Why this action is needed.
    pub reason: StageReason,
    /// Rate at which available memory (with swap) decreases, in bytes per second.
    pub decrease_bytes_per_second: f64,
    /// Seconds until no memory is left at this rate; absent if available memory does not decrease.
    pub seconds_left: Option<f64>,
}

/// Assesses a reading. `trend` must already include it.
pub fn assess(reading: &MemoryReading, trend: &Trend, limits: &Thresholds) -> Assessment {
    let short_term = trend.short_term_rate(SHORT_TERM_NS);
    let long_term = trend.long_term_rate(LONG_TERM_NS).unwrap_or(0.0);
    let rate = short_term.max(long_term);
    let left =
        |rate: f64| if rate >= 1.0 { reading.available_with_swap() as f64 / rate } else { f64::INFINITY };
    let (stage, reason) = stage(reading, limits, left(short_term), left(rate));
    let seconds_left = Some(left(rate)).filter(|left| left.is_finite());
    Assessment { stage, reason, decrease_bytes_per_second: rate, seconds_left }
}

/// Returns the stage and its cause. `soon` is the number of seconds left at the short-term rate, `left` at
/// the larger of the short-term and the long-term rate.
fn stage(reading: &MemoryReading, limits: &Thresholds, soon: f64, left: f64) -> (Stage, StageReason) {
    let below = |amount: Amount, factor: f64| {
        let of = |total: u64| amount.bytes_of(total) as f64 * factor;
        let swap =
            reading.swap_total_bytes == 0 || reading.swap_free_bytes as f64 <= of(reading.swap_total_bytes);
        swap && reading.available_bytes as f64 <= of(reading.total_bytes)
    };
    let is_short = below(limits.term_below, TREND_ACT_FACTOR);
    let share = |share: f64| {
        reading.available_with_swap() as f64
            <= reading.total_bytes.saturating_add(reading.swap_total_bytes) as f64 * share
    };
    let term = limits.term_below.bytes_of(reading.total_bytes);
    let stalled = reading.stalled.is_some_and(|stalled| stalled >= limits.stalled);
    if below(limits.kill_below, 1.0) {
        (Stage::Kill, StageReason::Level)
    } else if is_short && soon <= limits.kill_before {
        (Stage::Kill, StageReason::Trend)
    } else if stalled && reading.available_bytes <= term {
        (Stage::Kill, StageReason::Stall)
    } else if below(limits.term_below, 1.0) {
        (Stage::Term, StageReason::Level)
    } else if is_short && soon <= limits.term_before {
        (Stage::Term, StageReason::Trend)
    } else if stalled && reading.available_bytes <= term.saturating_mul(2) {
        (Stage::Term, StageReason::Stall)
    } else if share(TREND_WARN_SHARE) && left <= limits.warn_before {
        (Stage::Warn, StageReason::Trend)
    } else {
        (Stage::Calm, StageReason::None)
    }
}

/// Whether memory is so nearly exhausted that a process must be killed although none is shown to be the
/// cause.
///
/// This holds if memory still decreases, or if tasks stall because too little is left. It does not hold for a
/// machine that is always full and works well. While the guard searches for the process that holds the memory
/// (`is_sought`), it waits until almost nothing is left or tasks stall.
pub fn needs_last_resort(
    reading: &MemoryReading,
    assessment: &Assessment,
    limits: &Thresholds,
    is_sought: bool,
) -> bool {
    let is_soon = assessment.seconds_left.is_some_and(|left| left <= LAST_RESORT_SECONDS);
    let is_none = reading.available_with_swap() as f64 <= reading.total_bytes as f64 * LAST_RESORT_SHARE;
    let waits = reading.stalled.is_none_or(|stalled| stalled >= LAST_RESORT_STALLED);
    let is_stalled = reading.stalled.is_some_and(|stalled| stalled >= limits.stalled);
    let is_trend = assessment.reason == StageReason::Trend;
    let least = limits.kill_below.bytes_of(reading.total_bytes) as f64 * SEARCH_SHARE;
    let may_act = !is_sought || is_stalled || (reading.available_with_swap() as f64) < least;
    assessment.stage == Stage::Kill && may_act && (is_trend || is_stalled || is_soon || is_none && waits)
}

/// Returns the time until the next reading, in nanoseconds, between 20 ms and `most_ns`. It is the shorter of
/// two: the time in which the fastest writer could reach the level at which trends lead to signals, and an
/// eighth of the time left at the current rate.
pub fn next_reading_ns(
    reading: &MemoryReading,
    assessment: &Assessment,
    limits: &Thresholds,
    most_ns: u64,
) -> u64 {
    const SHORTEST_NS: u64 = 20_000_000;
    // Several CPUs together gain less than proportionally.
    let fastest = ns_to_level(reading, limits, 1);
    let trend = assessment.seconds_left.map_or(u64::MAX, |left| (left / 8.0 * 1e9) as u64);
    fastest.min(trend).clamp(SHORTEST_NS, most_ns.max(SHORTEST_NS))
}

/// Returns the least time, in nanoseconds, in which writers on this many CPUs can reach the level at which trends lead
/// to signals.
pub fn ns_to_level(reading: &MemoryReading, limits: &Thresholds, cpus: usize) -> u64 {
    /// Bytes per second that one CPU can allocate and clear at most.
    const FASTEST: f64 = 6e9;
    let level = limits.term_below.bytes_of(reading.total_bytes) as f64 * TREND_ACT_FACTOR;
    let spare = (reading.available_with_swap() as f64 - level).max(0.0);
    (spare / (FASTEST * cpus.max(1) as f64) * 1e9) as u64
}

/// Whether available memory (with swap) has changed since it was `before` bytes by at least an eighth of its
/// distance from the level of SIGTERM. Less is too little to show a cause.
pub fn has_moved(before: u64, reading: &MemoryReading, limits: &Thresholds) -> bool {
    const PART: u64 = 8;
    let now = reading.available_with_swap();
    let distance = now.saturating_sub(limits.term_below.bytes_of(reading.total_bytes));
    now.abs_diff(before) > distance / PART
}

#[cfg(test)]
mod tests;

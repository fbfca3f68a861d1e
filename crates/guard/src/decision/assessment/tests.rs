//! Tests of stages, the last resort and the intervals between readings.

use super::*;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn reading(available: u64) -> MemoryReading {
    MemoryReading { available_bytes: available, total_bytes: 16 * GIB, ..MemoryReading::default() }
}

/// A trend that falls by `rate` bytes a second to `room`.
fn falling(room: u64, rate: u64) -> Trend {
    let mut trend = Trend::default();
    for n in 0..40 {
        trend.add(n * SECOND / 2, room + (39 - n) * rate / 2, GAP_NS);
    }
    trend
}

fn at(available: u64, rate: u64) -> (Stage, StageReason) {
    let assessment = assess(&reading(available), &falling(available, rate), &Thresholds::default());
    (assessment.stage, assessment.reason)
}

#[test]
fn levels_act_without_a_trend() {
    assert_eq!(at(8 * GIB, 0), (Stage::Calm, StageReason::None));
    assert_eq!(at(3 * GIB / 2, 0), (Stage::Term, StageReason::Level));
    assert_eq!(at(3 * GIB / 4, 0), (Stage::Kill, StageReason::Level));
}

#[test]
fn trend_acts_before_levels_but_not_while_memory_is_plentiful() {
    assert_eq!(at(2 * GIB, 3 * GIB), (Stage::Term, StageReason::Trend));
    assert_eq!(at(2 * GIB, 11 * GIB), (Stage::Kill, StageReason::Trend));
    assert_eq!(
        at(3 * GIB, 7 * GIB),
        (Stage::Warn, StageReason::Trend),
        "more than 1.5 times term_below is left"
    );
    assert_eq!(at(6 * GIB, 20 * GIB), (Stage::Warn, StageReason::Trend));
    assert_eq!(at(12 * GIB, 100 * GIB), (Stage::Calm, StageReason::None));
    assert_eq!(at(7 * GIB, GIB / 64), (Stage::Calm, StageReason::None), "448 s are left");
    assert_eq!(at(7 * GIB, GIB / 4), (Stage::Warn, StageReason::Trend), "28 s are left");
}

/// The stage of a machine of `total` bytes that has `available` bytes left after it lost the rest at
/// `rate`.
fn spike(total: u64, available: u64, rate: u64) -> Stage {
    let reading =
        MemoryReading { available_bytes: available, total_bytes: total, ..MemoryReading::default() };
    assess(&reading, &falling(available, rate), &Thresholds::default()).stage
}

#[test]
fn spike_that_fits_causes_no_signal() {
    const MIB: u64 = 1 << 20;
    // Observed: SIGTERM with 196 of 1,000 MiB left, when the process needed only 2 MiB more.
    assert_eq!(spike(1000 * MIB, 196 * MIB, 1400 * MIB), Stage::Warn);
    assert_eq!(spike(1000 * MIB, 151 * MIB, 1400 * MIB), Stage::Warn);
    assert_eq!(spike(1000 * MIB, 149 * MIB, 1400 * MIB), Stage::Kill, "it is exhausted in 0.1 s");
    assert_eq!(spike(1000 * MIB, 149 * MIB, 100 * MIB), Stage::Warn, "it lasts for 1.5 s");
    assert_eq!(spike(1024 * GIB, 7 * GIB, 40 * GIB), Stage::Warn);
    assert_eq!(spike(1024 * GIB, 5 * GIB, 40 * GIB), Stage::Kill);
    assert_eq!(spike(1024 * GIB, 5 * GIB, GIB), Stage::Warn);
}

#[test]
fn last_resort_needs_a_decrease_or_stalls() {
    let limits = Thresholds::default();
    let end = |available: u64, rate: u64, stalled| {
        let reading = MemoryReading { stalled, ..reading(available) };
        needs_last_resort(&reading, &assess(&reading, &falling(available, rate), &limits), &limits, false)
    };
    assert!(!end(GIB / 2, 0, Some(0.0)), "memory is full, but no task waits");
    assert!(end(GIB / 2, GIB / 8, Some(0.0)) && end(GIB / 2, 0, Some(0.9)));
    assert!(!end(GIB / 32, 0, Some(0.0)) && end(GIB / 32, 0, Some(0.2)) && end(GIB / 32, 0, None));
    assert!(end(GIB, 0, Some(0.9)) && !end(3 * GIB, 0, Some(0.9)), "stalls count only if little is left");
}

#[test]
fn last_resort_waits_for_the_holder_search() {
    const MIB: u64 = 1 << 20;
    let limits = Thresholds::default();
    let end = |available: u64, stalled, is_sought| {
        let total = 1000 * MIB;
        let reading = MemoryReading {
            available_bytes: available,
            total_bytes: total,
            stalled: Some(stalled),
            ..MemoryReading::default()
        };
        needs_last_resort(
            &reading,
            &assess(&reading, &falling(available, 100 * MIB), &limits),
            &limits,
            is_sought,
        )
    };
    // Observed: an unrelated process was ended at 45 of 1,000 MiB, a second before the holder was found.
    assert!(end(45 * MIB, 0.0, false), "no search is under way");
    assert!(!end(45 * MIB, 0.0, true) && !end(13 * MIB, 0.0, true));
    assert!(end(12 * MIB, 0.0, true), "almost nothing is left");
    assert!(end(45 * MIB, 0.9, true), "tasks stall");
}

#[test]
fn stalls_act_only_if_little_is_left() {
    let stalled = |available| {
        let reading = MemoryReading { stalled: Some(0.9), ..reading(available) };
        assess(&reading, &Trend::default(), &Thresholds::default()).stage
    };
    assert_eq!(stalled(8 * GIB), Stage::Calm);
    assert_eq!(stalled(3 * GIB), Stage::Term);
    assert_eq!(stalled(3 * GIB / 2), Stage::Kill);
}

#[test]
fn free_swap_keeps_levels_from_acting() {
    let assessment = |swap_free| {
        let reading =
            MemoryReading { swap_free_bytes: swap_free, swap_total_bytes: 8 * GIB, ..reading(GIB / 2) };
        assess(&reading, &Trend::default(), &Thresholds::default()).stage
    };
    assert_eq!(assessment(4 * GIB), Stage::Calm);
    assert_eq!(assessment(GIB / 2), Stage::Term);
    assert_eq!(assessment(0), Stage::Kill);
}

#[test]
fn percentage_may_be_capped() {
    assert_eq!(Amount::Capped(10.0, 4 * GIB).bytes_of(16 * GIB), (1.6 * GIB as f64) as u64);
    assert_eq!(Amount::Capped(10.0, 4 * GIB).bytes_of(1024 * GIB), 4 * GIB);
    assert_eq!(Amount::Percent(50.0).bytes_of(10), 5);
}

#[test]
fn readings_become_more_frequent_near_exhaustion() {
    let pause = |available, rate| {
        let (reading, trend, limits) = (reading(available), falling(available, rate), Thresholds::default());
        next_reading_ns(&reading, &assess(&reading, &trend, &limits), &limits, SECOND)
    };
    assert_eq!(pause(12 * GIB, 0), SECOND);
    assert!(pause(3 * GIB, 0) < SECOND / 5);
    assert_eq!(pause(GIB, 0), SECOND / 50);
    assert!(pause(4 * GIB, GIB) <= SECOND / 2);
}

#[test]
fn more_cpus_reach_the_level_sooner() {
    let time = |available, cpus| ns_to_level(&reading(available), &Thresholds::default(), cpus);
    // SIGTERM by a trend needs less than 2.4 GiB; 6 GB a second on each CPU.
    assert!((1_717_000_000..1_719_000_000).contains(&time(12 * GIB, 1)), "{}", time(12 * GIB, 1));
    assert_eq!(time(12 * GIB, 1) / 4, time(12 * GIB, 4));
    assert_eq!((time(2 * GIB, 1), time(12 * GIB, usize::MAX)), (0, 0));
}

#[test]
fn memory_moves_by_a_part_of_its_distance_from_the_level() {
    let moved = |before, now| has_moved(before, &reading(now), &Thresholds::default());
    // SIGTERM is sent below 1.6 GiB.
    assert!(!moved(12 * GIB, 12 * GIB) && !moved(12 * GIB, 11 * GIB) && !moved(11 * GIB, 12 * GIB));
    assert!(moved(12 * GIB, 10 * GIB) && moved(10 * GIB, 12 * GIB));
    assert!(moved(2 * GIB, 2 * GIB - GIB / 8), "near the level, less is needed");
}

proptest! {
    #[test]
    fn less_memory_is_never_less_urgent(
        total in 1u64..1 << 44, first in 0.0f64..1.0, second in 0.0f64..1.0, rate in 0u64..1 << 36,
        swap_total in 0u64..1 << 40, swap_share in 0.0f64..1.0, stalled in 0.0f64..1.0,
    ) {
        let assessment = |share: f64| {
            let available = (total as f64 * share) as u64;
            let swap_free = (swap_total as f64 * swap_share) as u64;
            let reading = MemoryReading {
                at_ns: 0, available_bytes: available, total_bytes: total, swap_free_bytes: swap_free, swap_total_bytes: swap_total, shmem_bytes: 0, stalled: Some(stalled),
            };
            assess(&reading, &falling(reading.available_with_swap(), rate), &Thresholds::default()).stage
        };
        let (less, more) = (first.min(second), first.max(second));
        prop_assert!(assessment(less) >= assessment(more));
    }
}

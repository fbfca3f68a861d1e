//! Tests of growth between marks, and of the creation and exit of processes.

use super::*;
use crate::decision::assessment::MemoryReading;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn seen(pid: u32, start: u64, kib: u32) -> ProcessReading {
    ProcessReading { pid, start, kib, parent: 1, ..ProcessReading::default() }
}

fn reading(available: u64) -> MemoryReading {
    MemoryReading { available_bytes: available, ..MemoryReading::default() }
}

/// Makes a survey at `at` seconds: `(pid, KiB)` of processes that started at 1.
fn survey(table: &mut ProcessTable, at: u64, available: u64, processes: &[(u32, u32)]) {
    table.begin_survey();
    for &(pid, kib) in processes {
        table.update(seen(pid, 1, kib), kib, at * SECOND, 0);
    }
    table.end_survey();
    table.mark(at * SECOND, &[reading(available)]);
}

#[test]
fn growth_is_measured_over_the_window_of_the_decrease() {
    let mut table = ProcessTable::new(8);
    survey(&mut table, 10, 1000 << 10, &[(5, 100), (6, 10)]);
    survey(&mut table, 20, 900 << 10, &[(5, 200), (6, 10)]);
    survey(&mut table, 30, 800 << 10, &[(5, 200), (6, 110)]);
    let grown = |window: &GrowthWindow| {
        [5, 6].map(|pid| ProcessTable::growth(table.find(pid).unwrap(), window) >> 10)
    };
    let recent = table.recent_window(0, &reading(800 << 10), 50 << 10).unwrap();
    assert_eq!((recent.start_ns, recent.decrease, grown(&recent)), (20 * SECOND, 100 << 10, [0, 100]));
    let whole = table.whole_window(0, &reading(800 << 10)).unwrap();
    assert_eq!((whole.start_ns, whole.decrease, grown(&whole)), (10 * SECOND, 200 << 10, [100, 100]));
    assert_eq!(table.recent_window(0, &reading(800 << 10), 1 << 30).unwrap(), whole, "no window is so large");
    assert_eq!(table.whole_window(0, &reading(2000 << 10)), None, "available memory has not fallen");
}

#[test]
fn all_memory_of_a_new_process_is_growth() {
    let mut table = ProcessTable::new(8);
    survey(&mut table, 10, 1000, &[]);
    table.begin_survey();
    table.update(seen(7, 900, 64), 64, 12 * SECOND, SECOND);
    // A process that was overlooked. It is older than the mark, so whether it has grown is unknown.
    table.update(seen(8, 1, 64), 64, 12 * SECOND, 100 * SECOND);
    table.end_survey();
    let window = table.whole_window(0, &reading(0)).unwrap();
    assert_eq!(ProcessTable::growth(table.find(7).unwrap(), &window), 64 << 10);
    assert_eq!(ProcessTable::growth(table.find(8).unwrap(), &window), 0);
}

#[test]
fn reused_id_is_a_new_process() {
    let mut table = ProcessTable::new(8);
    survey(&mut table, 10, 1000, &[(7, 500)]);
    table.begin_survey();
    assert!(table.update(seen(7, 99, 40), 40, 12 * SECOND, SECOND));
    assert_eq!(
        ProcessTable::growth(table.find(7).unwrap(), &table.whole_window(0, &reading(0)).unwrap()),
        40 << 10
    );
}

#[test]
fn exited_processes_are_removed_and_dropped_ones_counted() {
    let mut table = ProcessTable::new(2);
    survey(&mut table, 10, 1000, &[(7, 1), (9, 1), (11, 1)]);
    assert_eq!((table.processes().len(), table.dropped), (2, 1));
    survey(&mut table, 11, 1000, &[(9, 1)]);
    survey(&mut table, 12, 1000, &[(9, 1), (10, 1)]);
    let ids: Vec<u32> = table.processes().iter().map(|process| process.reading.pid).collect();
    assert_eq!(ids, [9, 10]);
    assert_eq!(table.processes.capacity(), 2);
}

#[test]
fn many_small_processes_do_not_hide_a_large_one() {
    let mut table = ProcessTable::new(4);
    survey(&mut table, 10, 1000 << 10, &[(5, 900), (6, 30), (7, 30), (8, 40)]);
    survey(
        &mut table,
        11,
        900 << 10,
        &[(5, 900), (6, 30), (7, 30), (8, 40), (9, 35), (10, 50), (4000, 5000)],
    );
    let ids: Vec<u32> = table.processes().iter().map(|process| process.reading.pid).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids.contains(&5) && ids.contains(&4000), "{ids:?}");
    assert!(table.dropped >= 3 && table.processes.capacity() == 4);
}

#[test]
fn larger_table_keeps_all_entries() {
    let mut table = ProcessTable::new(2);
    survey(&mut table, 10, 1000 << 10, &[(5, 100), (6, 10)]);
    let mut larger = ProcessTable::new(8);
    larger.copy_from(&table);
    survey(&mut larger, 20, 900 << 10, &[(5, 200), (6, 10), (7, 1), (8, 1)]);
    let window = larger.whole_window(0, &reading(900 << 10)).unwrap();
    assert_eq!((larger.dropped, ProcessTable::growth(larger.find(5).unwrap(), &window)), (0, 100 << 10));
    assert_eq!(larger.next_after(5, |process| process.reading.kib == 1), Some(7));
    assert_eq!(larger.next_after(8, |_| true), None);
}

proptest! {
    #[test]
    fn marks_reach_far_back_and_stay_in_order(gaps in prop::collection::vec(1u64..100, 20..400)) {
        let mut table = ProcessTable::new(1);
        let mut at = 0;
        for gap in gaps {
            at += gap;
            table.mark(at * SECOND, &[reading(1)]);
            let marks = &table.marks[..table.marked];
            prop_assert!(marks.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
            let mut slots: Vec<usize> = marks.iter().map(|mark| mark.slot).collect();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), marks.len());
        }
        let oldest = table.marks[0].at_ns / SECOND;
        prop_assert!(at < 3000 || at - oldest >= 1000, "the oldest of {at} s is at {oldest} s");
    }
}

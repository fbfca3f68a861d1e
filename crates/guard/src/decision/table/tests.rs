//! Tests of growth between marks, and of the creation and exit of processes.

use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn seen(pid: u32, start: u64, kib: u32) -> Seen {
    Seen { pid, start, kib, parent: 1, ..Seen::default() }
}

fn reading(room: u64) -> Reading {
    Reading { available: room, ..Reading::default() }
}

/// Makes a survey at `at` seconds: `(pid, KiB)` of processes that started at 1.
fn survey(table: &mut Table, at: u64, room: u64, processes: &[(u32, u32)]) {
    table.begin();
    for &(pid, kib) in processes {
        table.see(seen(pid, 1, kib), kib, at * SECOND, 0);
    }
    table.end();
    table.mark(at * SECOND, &[reading(room)]);
}

#[test]
fn growth_is_told_over_the_window_in_which_the_room_fell() {
    let mut table = Table::new(8);
    survey(&mut table, 10, 1000 << 10, &[(5, 100), (6, 10)]);
    survey(&mut table, 20, 900 << 10, &[(5, 200), (6, 10)]);
    survey(&mut table, 30, 800 << 10, &[(5, 200), (6, 110)]);
    let grown = |window: &Window| [5, 6].map(|pid| Table::growth(table.find(pid).unwrap(), window) >> 10);
    let recent = table.recent(0, &reading(800 << 10), 50 << 10).unwrap();
    assert_eq!((recent.from_ns, recent.fall, grown(&recent)), (20 * SECOND, 100 << 10, [0, 100]));
    let whole = table.whole(0, &reading(800 << 10)).unwrap();
    assert_eq!((whole.from_ns, whole.fall, grown(&whole)), (10 * SECOND, 200 << 10, [100, 100]));
    assert_eq!(table.recent(0, &reading(800 << 10), 1 << 30).unwrap(), whole, "no window is so large");
    assert_eq!(table.whole(0, &reading(2000 << 10)), None, "available memory has not fallen");
}

#[test]
fn all_memory_of_a_process_that_was_born_since_is_growth() {
    let mut table = Table::new(8);
    survey(&mut table, 10, 1000, &[]);
    table.begin();
    table.see(seen(7, 900, 64), 64, 12 * SECOND, SECOND);
    // A process that was overlooked. It is older than the mark, so whether it has grown is unknown.
    table.see(seen(8, 1, 64), 64, 12 * SECOND, 100 * SECOND);
    table.end();
    let window = table.whole(0, &reading(0)).unwrap();
    assert_eq!(Table::growth(table.find(7).unwrap(), &window), 64 << 10);
    assert_eq!(Table::growth(table.find(8).unwrap(), &window), 0);
}

#[test]
fn an_id_that_is_given_again_begins_anew() {
    let mut table = Table::new(8);
    survey(&mut table, 10, 1000, &[(7, 500)]);
    table.begin();
    assert!(table.see(seen(7, 99, 40), 40, 12 * SECOND, SECOND));
    assert_eq!(Table::growth(table.find(7).unwrap(), &table.whole(0, &reading(0)).unwrap()), 40 << 10);
}

#[test]
fn who_is_not_seen_is_gone_and_who_has_no_place_is_counted() {
    let mut table = Table::new(2);
    survey(&mut table, 10, 1000, &[(7, 1), (9, 1), (11, 1)]);
    assert_eq!((table.processes().len(), table.left_out), (2, 1));
    survey(&mut table, 11, 1000, &[(9, 1)]);
    survey(&mut table, 12, 1000, &[(9, 1), (10, 1)]);
    let ids: Vec<u32> = table.processes().iter().map(|process| process.seen.pid).collect();
    assert_eq!(ids, [9, 10]);
    assert_eq!(table.processes.capacity(), 2);
}

#[test]
fn a_crowd_of_small_processes_hides_no_big_one() {
    let mut table = Table::new(4);
    survey(&mut table, 10, 1000 << 10, &[(5, 900), (6, 30), (7, 30), (8, 40)]);
    survey(
        &mut table,
        11,
        900 << 10,
        &[(5, 900), (6, 30), (7, 30), (8, 40), (9, 35), (10, 50), (4000, 5000)],
    );
    let ids: Vec<u32> = table.processes().iter().map(|process| process.seen.pid).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids.contains(&5) && ids.contains(&4000), "{ids:?}");
    assert!(table.left_out >= 3 && table.processes.capacity() == 4);
}

#[test]
fn a_larger_table_takes_over_what_was_known() {
    let mut table = Table::new(2);
    survey(&mut table, 10, 1000 << 10, &[(5, 100), (6, 10)]);
    let mut larger = Table::new(8);
    larger.take_over(&table);
    survey(&mut larger, 20, 900 << 10, &[(5, 200), (6, 10), (7, 1), (8, 1)]);
    let window = larger.whole(0, &reading(900 << 10)).unwrap();
    assert_eq!((larger.left_out, Table::growth(larger.find(5).unwrap(), &window)), (0, 100 << 10));
    assert_eq!(larger.after(5, |process| process.seen.kib == 1), Some(7));
    assert_eq!(larger.after(8, |_| true), None);
}

proptest! {
    #[test]
    fn marks_reach_far_back_and_stay_in_order(gaps in prop::collection::vec(1u64..100, 20..400)) {
        let mut table = Table::new(1);
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

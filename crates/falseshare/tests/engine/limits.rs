//! More threads, lines and processes than the limits allow.

use super::{CODE, LINE, Lab};
use manycore_falseshare::shadow::{
    Kind, reader,
    region::{Layout, Region},
};

#[test]
fn more_threads_than_seats_are_counted_and_told() {
    let lab = Lab::new(100);
    for _ in 0..4 {
        for thread in 0..100 {
            lab.write(thread, LINE);
        }
    }
    let line = &lab.lines()[0];
    assert!(line.uncounted > 100 && line.hand_overs > 100, "{line:?}");
}

#[test]
fn threads_that_ended_make_room_at_a_line() {
    let lab = Lab::new(1);
    for round in 0..1000 {
        lab.write(0, LINE);
        let thread = lab.shadow.register(1000 + round, 0).unwrap();
        lab.shadow.access(thread, CODE, LINE, 8, Kind::Write);
        lab.shadow.thread(thread).unwrap().ended.store(1, std::sync::atomic::Ordering::Relaxed);
    }
    let line = &lab.lines()[0];
    assert_eq!((line.uncounted, line.needless), (0, 0));
    // One transfer to each new thread, and none back from a thread that has exited.
    assert!((990..=1000).contains(&line.hand_overs), "{}", line.hand_overs);
    assert!(
        line.accesses.iter().map(|access| access.thread).collect::<std::collections::BTreeSet<_>>().len()
            > 990
    );
}

#[test]
fn a_full_table_is_counted_and_hurts_nobody() {
    let lab = Lab::with(2, &[Layout { line_bytes: 64, shift_bytes: 0 }], 64 << 10);
    for line in 0..10_000 {
        for thread in [0, 1, 0, 1, 0, 1] {
            lab.write(thread, LINE + line * 64);
        }
    }
    let seen = lab.seen();
    assert!(seen.not_followed > 1000, "{}", seen.not_followed);
    assert!(!seen.lines.is_empty() && seen.lines.len() < 1000);
}

#[test]
fn threads_beyond_the_limit_are_refused() {
    let lab = Lab::new(0);
    let registered = (0..5000).filter(|tid| lab.shadow.register(*tid, 0).is_some()).count();
    assert_eq!(registered, manycore_falseshare::shadow::region::THREADS);
    assert_eq!(lab.seen().threads.len(), manycore_falseshare::shadow::region::THREADS);
}

#[test]
fn slots_of_processes_that_told_nothing_are_used_again() {
    use manycore_falseshare::shadow::region::{BECOMES, ENDED, SLOTS};
    use std::sync::atomic::Ordering::Relaxed;
    let (region, _file) = Region::create(&[Layout { line_bytes: 64, shift_bytes: 0 }], 1 << 20).unwrap();
    for index in 0..SLOTS {
        assert_eq!(region.take_slot(), Some(index));
        region.slot(index).pid.store(-1, Relaxed);
    }
    assert_eq!(region.take_slot(), None);
    region.slot(0).ended.store(ENDED, Relaxed);
    region.slot(5).ended.store(ENDED, Relaxed);
    region.slot(5).threads.store(2, Relaxed);
    region.slot(6).ended.store(BECOMES, Relaxed);
    region.slot(7).ended.store(ENDED, Relaxed);
    region.slot(7).maps.store(3, Relaxed);
    assert_eq!(region.take_slot(), Some(7));
    assert_eq!(region.slot(7).maps.load(Relaxed), 0);
    // The process that executed another program is this one now.
    region.slot(6).pid.store(std::process::id() as i32, Relaxed);
    assert_eq!((region.take_slot(), region.take_slot()), (Some(6), None));
    let (seen, untold) = reader::read(&region);
    assert_eq!((seen.len(), untold.ended, untold.strangers), (SLOTS, 2, 2));
}

//! More threads, lines and processes than the limits allow.

use super::{CODE, LINE, TestProcess};
use manycore_falseshare::shadow::{
    AccessKind, reader,
    region::{LineLayout, Region},
};

#[test]
fn threads_beyond_the_limit_of_a_line_are_counted_and_reported() {
    let lab = TestProcess::new(100);
    for _ in 0..4 {
        for thread in 0..100 {
            lab.write(thread, LINE);
        }
    }
    let line = &lab.lines()[0];
    assert!(line.uncounted > 100 && line.transfers > 100, "{line:?}");
}

#[test]
fn records_of_ended_threads_at_a_line_are_reused() {
    let lab = TestProcess::new(1);
    for round in 0..1000 {
        lab.write(0, LINE);
        let thread = lab.tracker.register(1000 + round, 0).unwrap();
        lab.tracker.access(thread, CODE, LINE, 8, AccessKind::Write);
        lab.tracker.thread(thread).unwrap().ended.store(1, std::sync::atomic::Ordering::Relaxed);
    }
    let line = &lab.lines()[0];
    assert_eq!((line.uncounted, line.false_transfers), (0, 0));
    // One transfer to each new thread, and none back from a thread that has exited.
    assert!((990..=1000).contains(&line.transfers), "{}", line.transfers);
    assert!(
        line.accesses.iter().map(|access| access.thread).collect::<std::collections::BTreeSet<_>>().len()
            > 990
    );
}

#[test]
fn a_full_table_is_counted_without_failure() {
    let lab = TestProcess::with(2, &[LineLayout { line_bytes: 64, shift_bytes: 0 }], 64 << 10);
    for line in 0..10_000 {
        for thread in [0, 1, 0, 1, 0, 1] {
            lab.write(thread, LINE + line * 64);
        }
    }
    let seen = lab.seen();
    assert!(seen.unfollowed_accesses > 1000, "{}", seen.unfollowed_accesses);
    assert!(!seen.lines.is_empty() && seen.lines.len() < 1000);
}

#[test]
fn threads_beyond_the_limit_are_refused() {
    let lab = TestProcess::new(0);
    let registered = (0..5000).filter(|tid| lab.tracker.register(*tid, 0).is_some()).count();
    assert_eq!(registered, manycore_falseshare::shadow::region::THREADS);
    assert_eq!(lab.seen().threads.len(), manycore_falseshare::shadow::region::THREADS);
}

#[test]
fn slots_of_processes_without_results_are_reused() {
    use manycore_falseshare::shadow::region::{ENDED, EXECUTES, SLOTS};
    use std::sync::atomic::Ordering::Relaxed;
    let (region, _file) = Region::create(&[LineLayout { line_bytes: 64, shift_bytes: 0 }], 1 << 20).unwrap();
    for index in 0..SLOTS {
        assert_eq!(region.take_slot(), Some(index));
        region.slot(index).pid.store(-1, Relaxed);
    }
    assert_eq!(region.take_slot(), None);
    region.slot(0).ended.store(ENDED, Relaxed);
    region.slot(5).ended.store(ENDED, Relaxed);
    region.slot(5).threads.store(2, Relaxed);
    region.slot(6).ended.store(EXECUTES, Relaxed);
    region.slot(7).ended.store(ENDED, Relaxed);
    region.slot(7).maps.store(3, Relaxed);
    assert_eq!(region.take_slot(), Some(7));
    assert_eq!(region.slot(7).maps.load(Relaxed), 0);
    // The process that executed another program is this one now.
    region.slot(6).pid.store(std::process::id() as i32, Relaxed);
    assert_eq!((region.take_slot(), region.take_slot()), (Some(6), None));
    let (seen, unreported) = reader::read(&region);
    assert_eq!((seen.len(), unreported.ended, unreported.without_slot), (SLOTS, 2, 2));
}

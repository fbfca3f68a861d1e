//! Which lines are followed, when they are transferred, and which transfers are false sharing.

use super::{CODE, LINE, TestProcess};
use manycore_falseshare::shadow::{
    AccessKind,
    reader::{self, LineSeen},
    region::LineLayout,
};

#[test]
fn a_line_of_one_thread_is_not_followed() {
    let lab = TestProcess::new(2);
    for _ in 0..1000 {
        lab.write(0, LINE);
        lab.read(0, LINE + 8);
    }
    assert_eq!(lab.counts(), (0, 0));
    assert_eq!(lab.seen().threads[0].accesses, 2000);
}

#[test]
fn data_that_is_only_read_after_initialization_is_not_followed() {
    let lab = TestProcess::new(4);
    lab.write(0, LINE);
    for round in 0..1000 {
        lab.read(1 + round % 3, LINE);
    }
    assert_eq!(lab.counts(), (0, 0));
}

#[test]
fn data_prepared_by_main_and_used_by_one_worker_is_not_followed() {
    let lab = TestProcess::new(2);
    lab.write(0, LINE);
    for _ in 0..1000 {
        lab.write(1, LINE);
    }
    lab.read(0, LINE);
    assert_eq!(lab.counts(), (0, 0));
}

#[test]
fn ping_pong_at_different_bytes_is_false_sharing_each_time() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        lab.write(1, LINE + 8);
    }
    // The first write takes a line that no thread owns.
    assert_eq!(lab.counts(), (199, 199));
}

#[test]
fn ping_pong_at_the_same_bytes_is_true_sharing_each_time() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        lab.write(1, LINE + 4);
    }
    assert_eq!(lab.counts(), (199, 0));
}

#[test]
fn an_ownership_period_that_uses_one_remote_byte_is_true_sharing() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        lab.write(0, LINE + 16);
        lab.write(1, LINE + 8);
        lab.write(1, LINE + 24);
        // Late in the ownership period, and only a read.
        lab.read(1, LINE);
    }
    // Thread 1 reads what thread 0 wrote; thread 0 overwrites what thread 1 has read.
    assert_eq!(lab.counts(), (199, 0));
}

#[test]
fn a_reader_beside_a_writer_causes_two_transfers_a_round() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        for _ in 0..10 {
            lab.read(1, LINE + 32);
        }
    }
    assert_eq!(lab.counts(), (199, 199));
}

#[test]
fn several_readers_share_the_line_without_transfers() {
    let lab = TestProcess::new(4);
    lab.follow(LINE);
    lab.write(0, LINE);
    for _ in 0..100 {
        for thread in 1..4 {
            lab.read(thread, LINE);
        }
    }
    assert_eq!(lab.counts(), (3, 0));
}

#[test]
fn an_update_is_one_transfer_as_one_access_or_two() {
    for in_one in [true, false] {
        let lab = TestProcess::new(2);
        lab.follow(LINE);
        for _ in 0..100 {
            for thread in 0..2 {
                if in_one {
                    lab.access(thread, LINE, 8, AccessKind::Update);
                } else {
                    lab.read(thread, LINE);
                    lab.write(thread, LINE);
                }
            }
        }
        assert_eq!(lab.counts(), (199, 0), "in one: {in_one}");
        let line = &lab.lines()[0];
        let sum = |thread| {
            let of = line.accesses.iter().filter(move |access| access.thread == thread);
            of.fold((0, 0), |sum, access| (sum.0 + access.reads, sum.1 + access.writes))
        };
        assert!(sum(0).0 == 100 && sum(1).0 == 100 && sum(0).1 >= 100, "{line:?}");
    }
}

#[test]
fn a_late_access_is_classified_by_all_accesses_since() {
    let lab = TestProcess::new(3);
    lab.follow(LINE);
    lab.write(2, LINE);
    // Thread 1 writes thread 2's bytes in its first ownership period, and other bytes later.
    lab.write(1, LINE);
    lab.write(0, LINE + 8);
    lab.write(1, LINE + 16);
    lab.write(0, LINE + 8);
    lab.write(2, LINE);
    // True sharing: thread 1's first transfer, and thread 2's last.
    assert_eq!(lab.counts(), (5, 3));
}

#[test]
fn an_access_across_two_lines_counts_in_both() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    lab.follow(LINE + 64);
    for _ in 0..10 {
        lab.access(0, LINE + 60, 8, AccessKind::Write);
        lab.write(1, LINE + 8);
        lab.write(1, LINE + 64 + 8);
    }
    let lines = lab.lines();
    assert_eq!(
        lines.iter().map(|line| (line.transfers, line.false_transfers)).collect::<Vec<_>>(),
        [(19, 19); 2]
    );
    let pieces = |line: &LineSeen| {
        let find = |access: &&reader::AccessSeen| access.thread == 0 && access.bytes == 4;
        line.accesses.iter().find(find).map(|access| (access.offset, access.writes))
    };
    assert_eq!((pieces(&lines[0]), pieces(&lines[1])), (Some((60, 10)), Some((0, 10))));
}

#[test]
fn an_access_longer_than_a_line_counts_in_each_that_it_touches() {
    let lab = TestProcess::with(2, &[LineLayout { line_bytes: 32, shift_bytes: 0 }], 16 << 20);
    for _ in 0..10 {
        lab.access(0, LINE + 16, 64, AccessKind::Write);
        lab.access(1, LINE + 16, 64, AccessKind::Write);
    }
    let touched = |line: &LineSeen| (line.address - LINE, line.accesses[0].offset, line.accesses[0].bytes);
    assert_eq!(lab.lines().iter().map(touched).collect::<Vec<_>>(), [(0, 16, 16), (32, 0, 32), (64, 0, 16)]);
}

#[test]
fn layouts_are_followed_beside_each_other() {
    let layouts = [
        LineLayout { line_bytes: 64, shift_bytes: 0 },
        LineLayout { line_bytes: 128, shift_bytes: 0 },
        LineLayout { line_bytes: 64, shift_bytes: 32 },
    ];
    let lab = TestProcess::with(2, &layouts, 16 << 20);
    for _ in 0..100 {
        // On separate lines, but not on lines twice as long, and not on lines that start in the middle.
        lab.write(0, LINE + 48);
        lab.write(1, LINE + 64);
    }
    let found: Vec<_> =
        lab.lines().iter().map(|line| (line.layout, line.address, line.false_transfers)).collect();
    assert!(
        matches!(found[..], [(1, first, a), (2, second, b)]
        if first == LINE && second == LINE + 32 && a > 190 && b > 190),
        "{found:?}"
    );
}

/// Regression test: array elements that threads used one after another, each joined before the next, were
/// reported as false sharing.
#[test]
fn threads_that_run_one_after_the_other_cause_no_transfers() {
    let lab = TestProcess::new(1);
    for round in 0..100_u64 {
        let thread = lab.tracker.register(1000 + round as i32, 0).unwrap();
        for _ in 0..10 {
            lab.tracker.access(thread, CODE, LINE + round % 8 * 8, 8, AccessKind::Write);
        }
        lab.tracker.thread(thread).unwrap().ended.store(1, std::sync::atomic::Ordering::Relaxed);
    }
    assert!(lab.lines().iter().all(|line| line.transfers == 0), "{:?}", lab.lines());
}

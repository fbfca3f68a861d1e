//! Memory that is reused: heap blocks and stacks.

use super::{CODE, LINE, TestProcess};
use manycore_falseshare::shadow::{AccessKind, maps::Mapped};

#[test]
fn reused_memory_has_no_history() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.tracker.allocated(LINE, 64, &[CODE]);
        lab.write(0, LINE);
        lab.tracker.freed(LINE);
        lab.tracker.allocated(LINE, 64, &[CODE]);
        lab.write(1, LINE + 8);
        lab.tracker.freed(LINE);
    }
    assert_eq!(lab.counts(), (0, 0));
}

#[test]
fn a_reused_line_that_is_not_followed_has_no_history() {
    let lab = TestProcess::new(2);
    for _ in 0..100 {
        for thread in 0..2 {
            lab.tracker.allocated(LINE, 64, &[]);
            lab.write(thread, LINE);
            lab.tracker.freed(LINE);
        }
    }
    assert_eq!(lab.lines(), []);
}

#[test]
fn a_neighbour_of_reused_memory_keeps_its_history() {
    let lab = TestProcess::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.tracker.allocated(LINE + 32, 32, &[]);
        lab.write(0, LINE + 32);
        lab.write(1, LINE);
        lab.tracker.freed(LINE + 32);
    }
    assert_eq!(lab.counts(), (100, 100));
}

#[test]
fn the_reused_stack_of_a_new_thread_has_no_history() {
    let lab = TestProcess::new(2);
    let stack = Mapped { start: LINE, end: LINE + 0x1000, offset: 0, path: Vec::new() };
    lab.tracker.mapped(&stack);
    let mut last = 0;
    for tid in 0..100 {
        let thread = lab.tracker.register(100 + tid, LINE + 0x800).unwrap();
        for step in 0..8 {
            lab.tracker.access(thread, CODE, LINE + 0x800 + step * 8, 8, AccessKind::Write);
        }
        lab.tracker.thread(thread).unwrap().ended.store(1, std::sync::atomic::Ordering::Relaxed);
        last = thread;
    }
    let seen = lab.seen();
    assert_eq!(seen.lines, []);
    assert_eq!(seen.threads[last as usize].stack, (LINE, LINE + 0x1000));
}

#[test]
fn blocks_of_a_line_are_reported_with_their_callers() {
    let lab = TestProcess::new(2);
    lab.tracker.allocated(LINE - 32, 40, &[1, 2]);
    lab.tracker.allocated(LINE + 16, 8, &[1, 3]);
    lab.tracker.allocated(LINE + 64, 8, &[4]);
    for _ in 0..10 {
        lab.write(0, LINE);
        lab.write(1, LINE + 16);
    }
    lab.tracker.freed(LINE + 16);
    let line = &lab.lines()[0];
    let blocks: Vec<_> =
        line.blocks.iter().map(|block| (block.start, block.bytes, block.callers.clone())).collect();
    assert_eq!(blocks, [(LINE - 32, 40, vec![1, 2]), (LINE + 16, 8, vec![1, 3])]);
}

//! The engine on sequences of accesses that are written down, and on threads that run.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(unsafe_code, reason = "lanes are for a thread that keeps its shadow")]

use manycore_shadow::{
    Kind, Shadow,
    maps::Mapped,
    reader::{self, LineSeen, ProcessSeen},
    region::{Layout, Region},
    shadow::Lane,
};
use proptest::prelude::*;

const LINE: u64 = 0x7000_0000_1000;
const CODE: u64 = 0x40_1000;

/// One process whose threads are numbers.
struct Lab {
    shadow: Shadow,
    lanes: Vec<Lane>,
    /// Whether accesses of which nothing is new are answered at once, as in the emulator.
    quick: bool,
}

impl Lab {
    fn new(threads: usize) -> Self {
        Self::with(threads, &[Layout { line_bytes: 64, shift_bytes: 0 }], 16 << 20)
    }

    fn with(threads: usize, layouts: &[Layout], limit: u64) -> Self {
        let (region, _file) = Region::create(layouts, limit).unwrap();
        let shadow = Shadow::new(region).unwrap().unwrap();
        let lanes = (0..threads)
            .map(|tid| {
                let index = shadow.register(tid as i32 + 1, 0).unwrap();
                shadow.lane(index).unwrap()
            })
            .collect();
        Self { shadow, lanes, quick: true }
    }

    fn access(&self, thread: usize, address: u64, bytes: u32, kind: Kind) {
        let code = CODE + thread as u64 * 16 + u64::from(kind == Kind::Write);
        let (reads, writes) = (kind != Kind::Write, kind != Kind::Read);
        // SAFETY: the shadow is here, and one thread at a time is each lane's.
        let done = self.quick && unsafe { self.lanes[thread].quick(code, address, reads, writes) };
        if !done {
            self.shadow.access(thread as u32, code, address, bytes, kind);
        }
    }

    fn read(&self, thread: usize, address: u64) {
        self.access(thread, address, 8, Kind::Read);
    }

    fn write(&self, thread: usize, address: u64) {
        self.access(thread, address, 8, Kind::Write);
    }

    /// Has threads 0 and 1 pass the line of `address` on until it is followed, and then forgets what they did.
    fn follow(&self, address: u64) {
        for thread in [0, 1, 0, 1] {
            self.write(thread, address);
        }
        self.shadow.renew(address & !63, (address & !63) + 64);
    }

    fn seen(&self) -> ProcessSeen {
        reader::read(self.shadow.region()).0.remove(0)
    }

    fn lines(&self) -> Vec<LineSeen> {
        self.seen().lines
    }

    /// Hand-overs and needless ones of the only line.
    fn counts(&self) -> (u64, u64) {
        let lines = self.lines();
        assert!(lines.len() <= 1, "{lines:?}");
        lines.first().map_or((0, 0), |line| (line.hand_overs, line.needless))
    }
}

#[test]
fn a_line_of_one_thread_is_not_followed() {
    let lab = Lab::new(2);
    for _ in 0..1000 {
        lab.write(0, LINE);
        lab.read(0, LINE + 8);
    }
    assert_eq!(lab.counts(), (0, 0));
    assert_eq!(lab.seen().threads[0].accesses, 2000);
}

#[test]
fn what_is_only_read_after_it_was_made_is_not_followed() {
    let lab = Lab::new(4);
    lab.write(0, LINE);
    for round in 0..1000 {
        lab.read(1 + round % 3, LINE);
    }
    assert_eq!(lab.counts(), (0, 0));
}

#[test]
fn what_main_prepares_and_a_worker_uses_is_not_followed_even_where_main_collects_it() {
    let lab = Lab::new(2);
    lab.write(0, LINE);
    for _ in 0..1000 {
        lab.write(1, LINE);
    }
    lab.read(0, LINE);
    assert_eq!(lab.counts(), (0, 0));
}

#[test]
fn ping_pong_at_different_bytes_is_needless_each_time() {
    let lab = Lab::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        lab.write(1, LINE + 8);
    }
    // The first one takes a line that nobody has.
    assert_eq!(lab.counts(), (199, 199));
}

#[test]
fn ping_pong_at_the_same_bytes_is_needed_each_time() {
    let lab = Lab::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        lab.write(1, LINE + 4);
    }
    assert_eq!(lab.counts(), (199, 0));
}

#[test]
fn a_tenure_that_needs_one_byte_is_needed_whatever_else_it_touches() {
    let lab = Lab::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.write(0, LINE);
        lab.write(0, LINE + 16);
        lab.write(1, LINE + 8);
        lab.write(1, LINE + 24);
        // Late in the tenure, and only read.
        lab.read(1, LINE);
    }
    // Thread 1 needs what thread 0 wrote; thread 0 overwrites what thread 1 has read.
    assert_eq!(lab.counts(), (199, 0));
}

#[test]
fn a_reader_beside_a_writer_changes_hands_twice_a_round() {
    let lab = Lab::new(2);
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
fn readers_beside_each_other_do_not_take_the_line_from_one_another() {
    let lab = Lab::new(4);
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
fn an_update_changes_hands_once_in_one_piece_or_in_two() {
    for in_one in [true, false] {
        let lab = Lab::new(2);
        lab.follow(LINE);
        for _ in 0..100 {
            for thread in 0..2 {
                if in_one {
                    lab.access(thread, LINE, 8, Kind::Update);
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
fn who_comes_back_late_is_judged_by_all_that_others_did_meanwhile() {
    let lab = Lab::new(3);
    lab.follow(LINE);
    lab.write(2, LINE);
    // Thread 1 writes thread 2's bytes in its first tenure, and others later.
    lab.write(1, LINE);
    lab.write(0, LINE + 8);
    lab.write(1, LINE + 16);
    lab.write(0, LINE + 8);
    lab.write(2, LINE);
    // Needed: thread 1's first, and thread 2's last.
    assert_eq!(lab.counts(), (5, 3));
}

#[test]
fn an_access_across_two_lines_counts_in_both() {
    let lab = Lab::new(2);
    lab.follow(LINE);
    lab.follow(LINE + 64);
    for _ in 0..10 {
        lab.access(0, LINE + 60, 8, Kind::Write);
        lab.write(1, LINE + 8);
        lab.write(1, LINE + 64 + 8);
    }
    let lines = lab.lines();
    assert_eq!(lines.iter().map(|line| (line.hand_overs, line.needless)).collect::<Vec<_>>(), [(19, 19); 2]);
    let pieces = |line: &LineSeen| {
        let find = |access: &&reader::AccessSeen| access.thread == 0 && access.bytes == 4;
        line.accesses.iter().find(find).map(|access| (access.offset, access.writes))
    };
    assert_eq!((pieces(&lines[0]), pieces(&lines[1])), (Some((60, 10)), Some((0, 10))));
}

#[test]
fn an_access_longer_than_a_line_counts_in_each_that_it_touches() {
    let lab = Lab::with(2, &[Layout { line_bytes: 32, shift_bytes: 0 }], 16 << 20);
    for _ in 0..10 {
        lab.access(0, LINE + 16, 64, Kind::Write);
        lab.access(1, LINE + 16, 64, Kind::Write);
    }
    let touched = |line: &LineSeen| (line.address - LINE, line.accesses[0].offset, line.accesses[0].bytes);
    assert_eq!(lab.lines().iter().map(touched).collect::<Vec<_>>(), [(0, 16, 16), (32, 0, 32), (64, 0, 16)]);
}

#[test]
fn memory_that_is_given_anew_has_no_past() {
    let lab = Lab::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.shadow.allocated(LINE, 64, &[CODE]);
        lab.write(0, LINE);
        lab.shadow.freed(LINE);
        lab.shadow.allocated(LINE, 64, &[CODE]);
        lab.write(1, LINE + 8);
        lab.shadow.freed(LINE);
    }
    assert_eq!(lab.counts(), (0, 0));
}

#[test]
fn a_line_that_is_not_followed_yet_has_no_past_either_when_it_is_given_anew() {
    let lab = Lab::new(2);
    for _ in 0..100 {
        for thread in 0..2 {
            lab.shadow.allocated(LINE, 64, &[]);
            lab.write(thread, LINE);
            lab.shadow.freed(LINE);
        }
    }
    assert_eq!(lab.lines(), []);
}

#[test]
fn a_neighbour_of_what_is_given_anew_keeps_its_past() {
    let lab = Lab::new(2);
    lab.follow(LINE);
    for _ in 0..100 {
        lab.shadow.allocated(LINE + 32, 32, &[]);
        lab.write(0, LINE + 32);
        lab.write(1, LINE);
        lab.shadow.freed(LINE + 32);
    }
    assert_eq!(lab.counts(), (100, 100));
}

#[test]
fn a_stack_that_a_new_thread_gets_has_no_past() {
    let lab = Lab::new(2);
    let stack = Mapped { start: LINE, end: LINE + 0x1000, offset: 0, path: Vec::new() };
    lab.shadow.mapped(&stack);
    let mut last = 0;
    for tid in 0..100 {
        let thread = lab.shadow.register(100 + tid, LINE + 0x800).unwrap();
        for step in 0..8 {
            lab.shadow.access(thread, CODE, LINE + 0x800 + step * 8, 8, Kind::Write);
        }
        lab.shadow.thread(thread).unwrap().ended.store(1, std::sync::atomic::Ordering::Relaxed);
        last = thread;
    }
    let seen = lab.seen();
    assert_eq!(seen.lines, []);
    assert_eq!(seen.threads[last as usize].stack, (LINE, LINE + 0x1000));
}

#[test]
fn blocks_of_a_line_are_told_with_their_callers() {
    let lab = Lab::new(2);
    lab.shadow.allocated(LINE - 32, 40, &[1, 2]);
    lab.shadow.allocated(LINE + 16, 8, &[1, 3]);
    lab.shadow.allocated(LINE + 64, 8, &[4]);
    for _ in 0..10 {
        lab.write(0, LINE);
        lab.write(1, LINE + 16);
    }
    lab.shadow.freed(LINE + 16);
    let line = &lab.lines()[0];
    let blocks: Vec<_> =
        line.blocks.iter().map(|block| (block.start, block.bytes, block.callers.clone())).collect();
    assert_eq!(blocks, [(LINE - 32, 40, vec![1, 2]), (LINE + 16, 8, vec![1, 3])]);
}

#[test]
fn layouts_are_followed_beside_each_other() {
    let layouts = [
        Layout { line_bytes: 64, shift_bytes: 0 },
        Layout { line_bytes: 128, shift_bytes: 0 },
        Layout { line_bytes: 64, shift_bytes: 32 },
    ];
    let lab = Lab::with(2, &layouts, 16 << 20);
    for _ in 0..100 {
        // On lines of their own, but not on a line twice as long, and not on one that starts in the middle.
        lab.write(0, LINE + 48);
        lab.write(1, LINE + 64);
    }
    let found: Vec<_> = lab.lines().iter().map(|line| (line.layout, line.address, line.needless)).collect();
    assert!(
        matches!(found[..], [(1, first, a), (2, second, b)]
        if first == LINE && second == LINE + 32 && a > 190 && b > 190),
        "{found:?}"
    );
}

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
    // To each new thread; none is back from one that has ended.
    assert!((990..=1000).contains(&line.hand_overs), "{}", line.hand_overs);
    assert!(
        line.accesses.iter().map(|access| access.thread).collect::<std::collections::BTreeSet<_>>().len()
            > 990
    );
}

/// Slots that threads used one after another, each joined before the next, were taken for false sharing.
#[test]
fn threads_that_follow_each_other_hand_nothing_over() {
    let lab = Lab::new(1);
    for round in 0..100_u64 {
        let thread = lab.shadow.register(1000 + round as i32, 0).unwrap();
        for _ in 0..10 {
            lab.shadow.access(thread, CODE, LINE + round % 8 * 8, 8, Kind::Write);
        }
        lab.shadow.thread(thread).unwrap().ended.store(1, std::sync::atomic::Ordering::Relaxed);
    }
    assert!(lab.lines().iter().all(|line| line.hand_overs == 0), "{:?}", lab.lines());
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
    assert_eq!(registered, manycore_shadow::region::THREADS);
    assert_eq!(lab.seen().threads.len(), manycore_shadow::region::THREADS);
}

#[test]
fn threads_that_run_lose_no_access_and_see_each_other() {
    const ROUNDS: u64 = 300_000;
    let lab = Lab::new(4);
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (lab, barrier) = (&lab, &barrier);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if round % 1000 == 0 {
                        barrier.wait();
                    }
                    lab.access(thread, LINE + thread as u64 * 8, 8, Kind::Update);
                }
            });
        }
    });
    let seen = lab.seen();
    assert!(seen.threads.iter().all(|thread| thread.accesses == ROUNDS), "{:?}", seen.threads);
    let line = &seen.lines[0];
    // Few are from before the line was followed: at most a round of all threads.
    let counted: u64 = line.accesses.iter().map(|access| access.writes).sum();
    assert!((3 * ROUNDS..=4 * ROUNDS).contains(&counted), "{counted}");
    assert!(line.hand_overs >= ROUNDS / 1000, "{}", line.hand_overs);
    // A mark may come too late for the tenure that it belongs to, but hardly ever.
    assert!(line.needless * 100 >= line.hand_overs * 95, "{} of {}", line.needless, line.hand_overs);
}

proptest! {
    /// Whatever threads do: needless hand-overs are hand-overs, all accesses are counted, and nothing but speed
    /// depends on whether what is not new is answered at once.
    #[test]
    fn sequences(steps in prop::collection::vec((0..4_usize, 0..24_u64, 0..3_u8, 0..20_u8), 1..400)) {
        let run = |quick| {
            let mut lab = Lab::new(4);
            lab.quick = quick;
            for (thread, place, kind, other) in &steps {
                let address = LINE + place * 8;
                match (kind, other) {
                    (_, 0) => lab.shadow.renew(address, address + 40),
                    (0, _) => lab.access(*thread, address, 8, Kind::Read),
                    (1, _) => lab.access(*thread, address, 8, Kind::Write),
                    _ => lab.access(*thread, address, 8, Kind::Update),
                }
            }
            lab.seen()
        };
        let (quick, slow) = (run(true), run(false));
        prop_assert_eq!(&quick, &slow);
        for line in &quick.lines {
            prop_assert!(line.needless <= line.hand_overs);
            let threads: std::collections::BTreeSet<_> = line.accesses.iter().map(|access| access.thread).collect();
            prop_assert!(threads.len() > 1);
        }
        let accesses: u64 = quick.threads.iter().map(|thread| thread.accesses).sum();
        prop_assert_eq!(accesses as usize, steps.iter().filter(|step| step.3 != 0).count());
    }

    /// Where no two threads ever touch the same bytes, every hand-over is needless.
    #[test]
    fn apart(steps in prop::collection::vec((0..4_usize, 0..2_u64, any::<bool>()), 1..400)) {
        let lab = Lab::new(4);
        for (thread, place, write) in steps {
            let kind = if write { Kind::Write } else { Kind::Read };
            lab.access(thread, LINE + thread as u64 * 16 + place * 8, 8, kind);
        }
        let (hand_overs, needless) = lab.counts();
        prop_assert_eq!(hand_overs, needless);
    }
}

#[test]
fn slots_of_processes_that_told_nothing_are_used_again() {
    use manycore_shadow::region::{BECOMES, ENDED, SLOTS};
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
    // The process that became another program is this one now.
    region.slot(6).pid.store(std::process::id() as i32, Relaxed);
    assert_eq!((region.take_slot(), region.take_slot()), (Some(6), None));
    let (seen, untold) = reader::read(&region);
    assert_eq!((seen.len(), untold.ended, untold.strangers), (SLOTS, 2, 2));
}

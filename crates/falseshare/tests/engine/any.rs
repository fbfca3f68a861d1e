//! Random sequences of accesses, and threads that run at the same time.

use super::{LINE, TestProcess};
use manycore_falseshare::shadow::AccessKind;
use proptest::prelude::*;

#[test]
fn threads_that_run_lose_no_access_and_see_each_other() {
    const ROUNDS: u64 = 300_000;
    let lab = TestProcess::new(4);
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (lab, barrier) = (&lab, &barrier);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if round % 1000 == 0 {
                        barrier.wait();
                    }
                    lab.access(thread, LINE + thread as u64 * 8, 8, AccessKind::Update);
                }
            });
        }
    });
    let seen = lab.seen();
    assert!(seen.threads.iter().all(|thread| thread.accesses == ROUNDS), "{:?}", seen.threads);
    let line = &seen.lines[0];
    // Few accesses are from before the line was followed: at most one round of all threads.
    let counted: u64 = line.accesses.iter().map(|access| access.writes).sum();
    assert!((3 * ROUNDS..=4 * ROUNDS).contains(&counted), "{counted}");
    assert!(line.transfers >= ROUNDS / 1000, "{}", line.transfers);
    // Rarely, an access is recorded too late for the ownership period that it belongs to.
    assert!(
        line.false_transfers * 100 >= line.transfers * 95,
        "{} of {}",
        line.false_transfers,
        line.transfers
    );
}

proptest! {
    /// For any sequence, false-sharing transfers are transfers, all accesses are counted, and the result does
    /// not depend on whether the fast path is used.
    #[test]
    fn sequences(steps in prop::collection::vec((0..4_usize, 0..24_u64, 0..3_u8, 0..20_u8), 1..400)) {
        let run = |quick| {
            let mut lab = TestProcess::new(4);
            lab.quick = quick;
            for (thread, place, kind, other) in &steps {
                let address = LINE + place * 8;
                match (kind, other) {
                    (_, 0) => lab.tracker.reset_reused(address, address + 40),
                    (0, _) => lab.access(*thread, address, 8, AccessKind::Read),
                    (1, _) => lab.access(*thread, address, 8, AccessKind::Write),
                    _ => lab.access(*thread, address, 8, AccessKind::Update),
                }
            }
            lab.seen()
        };
        let (quick, slow) = (run(true), run(false));
        prop_assert_eq!(&quick, &slow);
        for line in &quick.lines {
            prop_assert!(line.false_transfers <= line.transfers);
            let threads: std::collections::BTreeSet<_> = line.accesses.iter().map(|access| access.thread).collect();
            prop_assert!(threads.len() > 1);
        }
        let accesses: u64 = quick.threads.iter().map(|thread| thread.accesses).sum();
        prop_assert_eq!(accesses as usize, steps.iter().filter(|step| step.3 != 0).count());
    }

    /// If no two threads ever access the same bytes, every transfer is false sharing.
    #[test]
    fn apart(steps in prop::collection::vec((0..4_usize, 0..2_u64, any::<bool>()), 1..400)) {
        let lab = TestProcess::new(4);
        for (thread, place, write) in steps {
            let kind = if write { AccessKind::Write } else { AccessKind::Read };
            lab.access(thread, LINE + thread as u64 * 16 + place * 8, 8, kind);
        }
        let (transfers, false_transfers) = lab.counts();
        prop_assert_eq!(transfers, false_transfers);
    }
}

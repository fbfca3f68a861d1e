//! Memory limits of a region, and reading a region that a program wrote into.

use manycore_falseshare::shadow::{
    AccessKind, ProcessTracker,
    counts::Counts,
    lines::{LineThread, TrackedLine},
    maps::Mapped,
    reader,
    region::{LineLayout, Region},
};
use std::{fs::File, os::unix::fs::FileExt, sync::atomic::Ordering::Relaxed};

const LINE: u64 = 0x7000_0000_1000;
const PLAIN: LineLayout = LineLayout { line_bytes: 64, shift_bytes: 0 };

/// Returns a process with two threads that share a line.
fn shared(layouts: &[LineLayout], limit: u64) -> (ProcessTracker, File) {
    let (region, file) = Region::create(layouts, limit).unwrap();
    let tracker = ProcessTracker::new(region).unwrap().unwrap();
    for tid in 1..3 {
        tracker.register(tid, 0).unwrap();
    }
    tracker.allocated(LINE, 16, &[1, 2]);
    for round in 0..20 {
        tracker.access(round % 2, 0x40_1000, LINE + u64::from(round % 2) * 8, 8, AccessKind::Update);
    }
    (tracker, file)
}

#[test]
fn a_forked_child_uses_little_memory_and_inherits_the_mappings() {
    use std::os::unix::fs::MetadataExt;
    let (region, file) = Region::create(&[LineLayout { line_bytes: 64, shift_bytes: 0 }], 1 << 20).unwrap();
    let tracker = ProcessTracker::new(region).unwrap().unwrap();
    tracker.mapped(&Mapped { start: LINE, end: LINE + 4096, offset: 0, path: b"/lib/one.so".to_vec() });
    tracker.set_program(b"/bin/program");
    let before = file.metadata().unwrap().blocks();
    for _ in 0..100 {
        tracker.before_fork();
        assert!(tracker.in_child(None));
    }
    let bytes = (file.metadata().unwrap().blocks() - before) * 512 / 100;
    assert!(bytes < 64 << 10, "{bytes} bytes for each child");
    let last = reader::read(tracker.region()).0.pop().unwrap();
    assert_eq!((last.program.as_str(), last.maps[0].path.as_str()), ("/bin/program", "/lib/one.so"));
}

#[test]
fn the_bound_is_for_all_layouts_together() {
    let missed = |layouts: &[LineLayout]| {
        let (tracker, _file) = shared(layouts, 4 << 20);
        // Each access needs a chunk of its own.
        for place in 0..48 {
            tracker.access(0, 0x40_1000, (place + 1) << 32, 8, AccessKind::Write);
        }
        tracker.slot().unfollowed_accesses.load(Relaxed)
    };
    assert_eq!(missed(&[PLAIN]), 0);
    // Each layout has an eighth of what a single one has.
    let chunks = (4 << 20) / 4 / manycore_falseshare::shadow::owner_table::CHUNK_BYTES as u64 / 8;
    let all = missed(&[PLAIN; 8]);
    assert!((8 * (48 - chunks)..=8 * 48).contains(&all), "{all}");
}

#[test]
fn blocks_of_the_allocator_are_bounded_too() {
    let (tracker, _file) = shared(&[PLAIN], 64 << 10);
    for block in 0..10_000 {
        tracker.allocated(LINE + block * 16, 16, &[]);
    }
    let lost = tracker.slot().lost_blocks.load(Relaxed);
    assert!((9000..10_000).contains(&lost), "{lost}");
}

#[test]
fn a_region_that_a_program_wrote_into_is_read_to_its_end() {
    let (tracker, file) = shared(&[PLAIN], 1 << 20);
    let region = tracker.region();
    let slot = tracker.slot();
    tracker.allocated(u64::MAX - 8, u64::MAX, &[]);
    tracker.allocated(LINE - 8, u64::MAX, &[]);
    let first = slot.lines.load(Relaxed);
    let line = region.get::<TrackedLine>(first).unwrap();
    let record = region.get::<LineThread>(line.threads.load(Relaxed)).unwrap();
    let counts = region.get::<Counts>(record.counts.load(Relaxed)).unwrap();
    // Endless chains, and numbers that are too large to add.
    line.next.store(first, Relaxed);
    counts.next.store(record.counts.load(Relaxed), Relaxed);
    let of_same = counts.kinds[0].key.load(Relaxed);
    for count in &counts.kinds {
        count.key.store(of_same, Relaxed);
        count.times.iter().for_each(|times| times.store(u64::MAX, Relaxed));
    }
    line.transfers.store(u64::MAX, Relaxed);
    line.false_transfers.store(u64::MAX, Relaxed);
    // Overwrite the granules, chunks and layouts in the header.
    file.write_all_at(&[0xff; 20], 8).unwrap();
    assert!(region.get::<TrackedLine>(1 << 20).is_none());
    // An access beyond the end of a truncated file would raise SIGBUS.
    assert!(file.set_len(0).is_err());
    let (seen, _) = reader::read(region);
    let [line] = &seen[0].lines[..] else { panic!("{:?}", seen[0].lines) };
    assert!(
        line.false_transfers <= line.transfers && line.transfers > 0 && line.accesses.len() == 2,
        "{line:?}"
    );
    assert!(line.accesses.iter().all(|access| access.thread < 2));
    let sum: u64 = line.accesses.iter().map(|access| access.reads + access.writes).sum();
    assert!(sum > 1 << 40);
    region.get::<TrackedLine>(first).unwrap().layout.store(7, Relaxed);
    assert!(reader::read(region).0[0].lines.is_empty());
}

//! Tests of the engine with given sequences of accesses, and with running threads.
#![allow(unsafe_code, reason = "a fast_path is unsafe because its tracker has to exist")]

mod any;
mod limits;
mod memory_reuse;
mod transfers;

use manycore_falseshare::shadow::{
    AccessKind, ProcessTracker, ThreadFastPath,
    reader::{self, LineSeen, ProcessSeen},
    region::{LineLayout, Region},
};

const LINE: u64 = 0x7000_0000_1000;
const CODE: u64 = 0x40_1000;

/// One process; its threads are given by index.
struct TestProcess {
    tracker: ProcessTracker,
    lanes: Vec<ThreadFastPath>,
    /// Whether the fast path is used, as in the emulator.
    quick: bool,
}

impl TestProcess {
    fn new(threads: usize) -> Self {
        Self::with(threads, &[LineLayout { line_bytes: 64, shift_bytes: 0 }], 16 << 20)
    }

    fn with(threads: usize, layouts: &[LineLayout], limit: u64) -> Self {
        let (region, _file) = Region::create(layouts, limit).unwrap();
        let tracker = ProcessTracker::new(region).unwrap().unwrap();
        let lanes = (0..threads)
            .map(|tid| {
                let index = tracker.register(tid as i32 + 1, 0).unwrap();
                tracker.fast_path(index).unwrap()
            })
            .collect();
        Self { tracker, lanes, quick: true }
    }

    fn access(&self, thread: usize, address: u64, bytes: u32, kind: AccessKind) {
        let code = CODE + thread as u64 * 16 + u64::from(kind == AccessKind::Write);
        let (reads, writes) = (kind != AccessKind::Write, kind != AccessKind::Read);
        // SAFETY: the tracker exists, and each fast path is used by one thread at a time.
        let done = self.quick && unsafe { self.lanes[thread].try_record(code, address, reads, writes) };
        if !done {
            self.tracker.access(thread as u32, code, address, bytes, kind);
        }
    }

    fn read(&self, thread: usize, address: u64) {
        self.access(thread, address, 8, AccessKind::Read);
    }

    fn write(&self, thread: usize, address: u64) {
        self.access(thread, address, 8, AccessKind::Write);
    }

    /// Passes the line of `address` between threads 0 and 1 until it is followed, and then resets it.
    fn follow(&self, address: u64) {
        for thread in [0, 1, 0, 1] {
            self.write(thread, address);
        }
        self.tracker.reset_reused(address & !63, (address & !63) + 64);
    }

    fn seen(&self) -> ProcessSeen {
        reader::read(self.tracker.region()).0.remove(0)
    }

    fn lines(&self) -> Vec<LineSeen> {
        self.seen().lines
    }

    /// Returns the transfers and false-sharing transfers of the only line.
    fn counts(&self) -> (u64, u64) {
        let lines = self.lines();
        assert!(lines.len() <= 1, "{lines:?}");
        lines.first().map_or((0, 0), |line| (line.transfers, line.false_transfers))
    }
}

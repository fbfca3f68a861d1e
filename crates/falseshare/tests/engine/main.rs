//! Tests of the engine with given sequences of accesses, and with running threads.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(unsafe_code, reason = "a lane is unsafe because its shadow has to exist")]

mod any;
mod hand_overs;
mod life;
mod limits;

use manycore_falseshare::shadow::{
    Kind, Lane, Shadow,
    reader::{self, LineSeen, ProcessSeen},
    region::{Layout, Region},
};

const LINE: u64 = 0x7000_0000_1000;
const CODE: u64 = 0x40_1000;

/// One process; its threads are given by index.
struct Lab {
    shadow: Shadow,
    lanes: Vec<Lane>,
    /// Whether the fast path is used, as in the emulator.
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
        // SAFETY: the shadow exists, and each lane is used by one thread at a time.
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

    /// Passes the line of `address` between threads 0 and 1 until it is followed, and then resets it.
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

    /// Returns the transfers and false-sharing transfers of the only line.
    fn counts(&self) -> (u64, u64) {
        let lines = self.lines();
        assert!(lines.len() <= 1, "{lines:?}");
        lines.first().map_or((0, 0), |line| (line.hand_overs, line.needless))
    }
}

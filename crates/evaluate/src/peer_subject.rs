//! Our load and another program, in interleaved samples.

use crate::error::{Error, Result};
use manycore_experiment::{
    counters::CounterReader, engine::Subject, pool_subject::PoolSubject, record::Sample,
};
use manycore_linux::clock::now_ns;
use std::rc::Rc;

/// Runs the other program with that many workers. Returns its work, and the seconds in which it was done.
pub(super) type RunPeer = Box<dyn FnMut(usize) -> Result<(f64, f64)>>;

/// Our workers, which are idle while the other program runs.
pub(super) struct PeerSubject {
    pub(super) ours: PoolSubject,
    /// Number of workers and program of each treatment; our program is called `manycore`.
    pub(super) sides: Vec<(usize, &'static str)>,
    pub(super) run_peer: RunPeer,
    pub(super) counter_reader: Rc<CounterReader>,
    pub(super) origin_ns: u64,
}

impl Subject for PeerSubject {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        let (workers, program) = self.sides[treatment];
        if program == "manycore" {
            return Ok(self.ours.measure(treatment)?);
        }
        self.ours.stop_all()?;
        let start_ns = now_ns() - self.origin_ns;
        let before = self.counter_reader.snapshot(&[], now_ns());
        let (work, seconds) = (self.run_peer)(workers)?;
        let counters = self.counter_reader.delta(&before, &self.counter_reader.snapshot(&[], now_ns()));
        Ok(Sample { start_ns, wall_ns: (seconds * 1e9) as u64, work, counters, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

//! Our load and another program, in interleaved samples.

use crate::error::{Error, Result};
use manycore_experiment::record::Sample;
use manycore_experiment::{engine::Subject, live::Live, observe::Observer};
use manycore_linux::clock::now_ns;
use std::rc::Rc;

/// Runs the other program with that many workers. Returns its work, and the seconds in which it was done.
pub(super) type Theirs = Box<dyn FnMut(usize) -> Result<(f64, f64)>>;

/// Our workers, which are idle while the other program runs.
pub(super) struct Both {
    pub(super) ours: Live,
    /// Number of workers and program of each treatment; our program is called `manycore`.
    pub(super) sides: Vec<(usize, &'static str)>,
    pub(super) theirs: Theirs,
    pub(super) observer: Rc<Observer>,
    pub(super) origin_ns: u64,
}

impl Subject for Both {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        let (workers, program) = self.sides[treatment];
        if program == "manycore" {
            return Ok(self.ours.measure(treatment)?);
        }
        self.ours.rest()?;
        let start_ns = now_ns() - self.origin_ns;
        let before = self.observer.snapshot(&[], now_ns());
        let (work, seconds) = (self.theirs)(workers)?;
        let around = self.observer.between(&before, &self.observer.snapshot(&[], now_ns()));
        Ok(Sample { start_ns, wall_ns: (seconds * 1e9) as u64, work, around, ..Sample::default() })
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

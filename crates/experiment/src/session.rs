//! One run of a verb that measures: the record that grows, its clock, its random order, and who is informed.

use crate::{
    Record,
    engine::{self, Design, Interim, Progress, Rng, Subject},
    observe::Observer,
    opening,
    record::{Experiment, Missed},
};
use manycore_linux::clock;
use manycore_stats::verdict::parameter;
use manycore_topology::Machine;
use rand::SeedableRng;
use std::{rc::Rc, time::Duration};

/// What happens during a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Starts a section.
    Section(&'a str),
    /// Planned time to the end of the run.
    Left(Duration),
    /// A remark for the user.
    Note(&'a str),
    /// Something could not be measured.
    Missed(&'a Missed),
    /// A part has ended; this is all that was measured until now.
    Measured(&'a Record),
}

/// Receives the events of a run.
pub trait Listener {
    /// Called for each event, on the thread that measures: it should return quickly.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event)> Listener for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// A run under way.
pub struct Session<'a> {
    /// Returns the record so far.
    pub record: Record,
    /// Reads the kernel's counters around samples.
    pub observer: Rc<Observer>,
    /// The generator of all random orders.
    pub rng: Rng,
    /// Start of the run on the clock of [`clock::now_ns`].
    pub origin_ns: u64,
    /// Margin of equivalence: differences within this share do not matter.
    margin: f64,
    listener: &'a mut dyn Listener,
}

impl<'a> Session<'a> {
    /// Begins a run of `verb` on `machine`, which is this one.
    pub fn begin(
        verb: &str,
        machine: Machine,
        seed: u64,
        margin: f64,
        listener: &'a mut dyn Listener,
    ) -> Self {
        let observer = Rc::new(Observer::new(&machine));
        Self {
            record: opening::open(verb, machine, seed, &observer),
            observer,
            rng: Rng::seed_from_u64(seed),
            origin_ns: clock::now_ns(),
            margin,
            listener,
        }
    }

    /// The machine that is measured.
    pub fn machine(&self) -> &Machine {
        &self.record.machine
    }

    /// Passes an event on.
    pub fn tell(&mut self, event: Event) {
        self.listener.event(event);
    }

    /// Records something that could not be measured.
    pub fn miss(&mut self, what: &str, why: &str) {
        let missed = Missed { what: what.to_owned(), why: why.to_owned() };
        self.listener.event(Event::Missed(&missed));
        self.record.missed.push(missed);
    }

    /// Reports that a part of the run has ended.
    pub fn measured(&mut self) {
        self.record.seconds = self.seconds();
        self.listener.event(Event::Measured(&self.record));
    }

    /// Runs an experiment and keeps it in the record; returns it, where it has samples, and how it ended.
    /// `left` returns the time that the run still needs.
    pub fn run<S: Subject + ?Sized>(
        &mut self,
        mut design: Design,
        subject: &mut S,
        interim: Interim,
        left: &dyn Fn(Progress) -> Duration,
    ) -> (Option<&Experiment>, Result<(), S::Error>) {
        design.parameters.insert(parameter::MARGIN.to_owned(), self.margin.to_string());
        let listener = &mut *self.listener;
        let mut watch = |progress: Progress| listener.event(Event::Left(left(progress)));
        let (experiment, ending) = engine::run_until(design, subject, &mut self.rng, interim, &mut watch);
        if experiment.samples.is_empty() {
            return (None, ending);
        }
        self.record.experiments.push(experiment);
        (self.record.experiments.last(), ending)
    }

    /// Ends the run.
    pub fn end(mut self, interrupted: bool) -> Record {
        self.record.interrupted = interrupted;
        self.record.seconds = self.seconds();
        self.record
    }

    fn seconds(&self) -> f64 {
        (clock::now_ns() - self.origin_ns) as f64 / 1e9
    }
}

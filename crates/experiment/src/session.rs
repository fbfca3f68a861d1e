//! One run of a subcommand that measures: its record, its clock, its random order, and the listener to its events.

use crate::{
    Record,
    counters::CounterReader,
    engine::{self, ExperimentSpec, Progress, Rng, Subject},
    new_record::new_record,
    other_work::OtherWork,
    record::{BusyProcess, Experiment, NotMeasured},
};
use manycore_linux::clock;
use manycore_stats::verdict::parameter;
use manycore_topology::Machine;
use std::{fmt, rc::Rc, time::Duration};

/// What happens during a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Starts a section.
    Section(&'a str),
    /// Planned time to the end of the run.
    Remaining(Duration),
    /// Time to the end of the run by a new plan, made from what was measured: the pace so far does not apply to it.
    Planned(Duration),
    /// The run waits for another program, with nothing to report.
    Waiting,
    /// A remark for the user.
    Note(&'a str),
    /// Something could not be measured.
    NotMeasured(&'a NotMeasured),
    /// A part has ended; this is all that has been measured so far.
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
    /// Everything measured so far.
    pub record: Record,
    /// Reads the kernel's counters around samples.
    pub counter_reader: Rc<CounterReader>,
    /// Source of all random orders.
    pub rng: Rng,
    /// Start of the run on the clock of [`clock::now_ns`].
    pub origin_ns: u64,
    /// Margin of equivalence: differences within this share do not matter.
    margin: f64,
    /// CPU time of all processes at the start.
    others: OtherWork,
    /// The busiest other processes, if they were read before the end.
    busiest_others: Option<Vec<BusyProcess>>,
    listener: &'a mut dyn Listener,
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("Session").field("record", &self.record).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// Begins a run of `subcommand` on `machine`, the running machine.
    pub fn begin(
        subcommand: &str,
        machine: Machine,
        seed: u64,
        margin: f64,
        listener: &'a mut dyn Listener,
    ) -> Self {
        let counter_reader = Rc::new(CounterReader::new(&machine));
        Self {
            record: new_record(subcommand, machine, seed, &counter_reader),
            counter_reader,
            rng: engine::rng(seed),
            origin_ns: clock::now_ns(),
            margin,
            others: OtherWork::now(),
            busiest_others: None,
            listener,
        }
    }

    /// The machine that is measured.
    pub fn machine(&self) -> &Machine {
        &self.record.machine
    }

    /// Passes an event on.
    pub fn report(&mut self, event: Event) {
        self.listener.event(event);
    }

    /// Records something that could not be measured.
    pub fn record_missing(&mut self, what: &str, why: &str) {
        let missed = NotMeasured { what: what.to_owned(), why: why.to_owned() };
        self.listener.event(Event::NotMeasured(&missed));
        self.record.not_measured.push(missed);
    }

    /// Reports that a part of the run has ended.
    pub fn report_measured(&mut self) {
        self.record.seconds = self.seconds();
        self.listener.event(Event::Measured(&self.record));
    }

    /// Runs an experiment, until `enough` holds at one of its analyses, and keeps it in the record. Returns it,
    /// if it has samples, and how it ended. `left` returns the time that the run still needs.
    pub fn run<S: Subject + ?Sized>(
        &mut self,
        mut spec: ExperimentSpec,
        subject: &mut S,
        enough: &mut dyn FnMut(&Experiment) -> bool,
        left: &dyn Fn(Progress) -> Duration,
    ) -> (Option<&Experiment>, Result<(), S::Error>) {
        spec.parameters.insert(parameter::MARGIN.to_owned(), self.margin.to_string());
        let listener = &mut *self.listener;
        let mut watch = |progress: Progress| listener.event(Event::Remaining(left(progress)));
        let (experiment, ending) = engine::run(spec, subject, &mut self.rng, enough, &mut watch);
        if experiment.samples.is_empty() {
            return (None, ending);
        }
        self.record.experiments.push(experiment);
        (self.record.experiments.last(), ending)
    }

    /// Reads which other processes were busy, now instead of at the end: when `subjects`, the processes that are measured,
    /// end, their children may become those of others.
    pub fn read_others(&mut self, subjects: &[u32]) {
        self.busiest_others = Some(self.others.busiest(self.seconds(), subjects));
    }

    /// Ends the run.
    pub fn end(mut self, interrupted: bool) -> Record {
        self.record.interrupted = interrupted;
        self.record.seconds = self.seconds();
        if self.busiest_others.is_none() {
            self.read_others(&[]);
        }
        self.record.busiest_others = self.busiest_others.unwrap_or_default();
        self.record
    }

    fn seconds(&self) -> f64 {
        (clock::now_ns() - self.origin_ns) as f64 / 1e9
    }
}

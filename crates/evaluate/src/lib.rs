//! The measurements of `manycore eval` and `bench`: one file for each section. All of them use [`Stage`].
#![forbid(unsafe_code)]

mod affinity;
mod beside;
mod contention;
pub mod error;
mod latency;
mod matrix;
mod modes;
mod noise;
pub mod profile;
pub mod python;
mod scaling;
mod stream;
mod sysbench;

pub use error::{Error, Result};

pub use contention::LOADS;
use manycore_experiment::{Record, record::Treatment};
use manycore_experiment::{
    crew::Crew,
    engine::{Budget, Design, Interim, Progress, Subject},
    live::{Live, Order, Trial},
    pace::Pace,
    session::{Event, Listener, Session},
};
use manycore_linux::clock;
use manycore_topology::{CpuSet, Machine};
use manycore_workload::Kind;
use profile::Profile;
use std::{collections::BTreeMap, path::PathBuf, rc::Rc, time::Duration};
pub use stream::StreamWish;

/// One section of the suite.
#[derive(Clone, Copy)]
pub struct Section {
    /// Name on the command line.
    pub name: &'static str,
    /// Displayed title.
    pub title: &'static str,
    seconds: fn(&Profile) -> f64,
    run: fn(&mut Stage) -> Result,
}

/// All sections in the order in which they are measured.
pub const SECTIONS: [Section; 10] = [
    Section { name: "noise", title: "noise floor (A/A)", seconds: |p| p.noise, run: noise::measure },
    Section {
        name: "scaling",
        title: "scaling of prime events",
        seconds: |p| p.clock + p.scaling,
        run: scaling::measure,
    },
    Section { name: "modes", title: "threads and processes", seconds: |p| p.modes, run: modes::measure },
    Section {
        name: "python",
        title: "parallel modes of Python",
        seconds: |p| p.python,
        run: python::measure,
    },
    Section { name: "matrix", title: "matrix product", seconds: |p| p.matrix, run: matrix::measure },
    Section {
        name: "affinity",
        title: "unpinned against pinned",
        seconds: |p| p.affinity,
        run: affinity::measure,
    },
    Section { name: "latency", title: "core-to-core latency", seconds: |p| p.latency, run: latency::measure },
    Section {
        name: "stream",
        title: "memory bandwidth and latency",
        seconds: |p| p.stream,
        run: stream::measure,
    },
    Section {
        name: "contention",
        title: "contention on counters, pipes and locks",
        seconds: |p| p.contention,
        run: contention::section,
    },
    Section {
        name: "sysbench",
        title: "comparison with sysbench",
        seconds: |p| p.sysbench,
        run: sysbench::measure,
    },
];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The verb, for the record.
    pub verb: &'static str,
    /// Name of the load of `bench`; empty for `eval`.
    pub subject: String,
    /// The budget.
    pub profile: Profile,
    /// Options of single loads.
    pub wish: Wish,
    /// Margin of equivalence: differences within this share do not matter.
    pub margin: f64,
    /// Seed of all random orders.
    pub seed: u64,
}

impl Asked {
    /// Returns the options of an evaluation.
    pub fn eval(profile: Profile, margin: f64, seed: u64) -> Self {
        Self { verb: "eval", subject: String::new(), profile, wish: Wish::default(), margin, seed }
    }
}

/// Options of single loads.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Numbers of workers; if empty, the load's own.
    pub workers: Vec<usize>,
    /// Whether pipes are measured in as many passes of the same length as UnixBench's.
    pub unixbench: bool,
    /// Folder of UnixBench, if it is not found through PATH.
    pub unixbench_dir: Option<PathBuf>,
    /// Options of `stream`.
    pub stream: StreamWish,
}

/// Where sections are measured: the budget and the run.
pub struct Stage<'a> {
    profile: Profile,
    wish: Wish,
    /// The current section.
    section: Section,
    /// Planned seconds of the sections after this one.
    after: f64,
    session: Session<'a>,
}

/// Returns the planned seconds of `sections`.
pub fn seconds(profile: &Profile, sections: &[Section]) -> f64 {
    sections.iter().map(|section| (section.seconds)(profile)).sum()
}

/// Measures `sections` on the running machine. Returns the record in any case, with the failure that ended
/// the run: an interruption, or the first section that failed.
pub fn run(
    machine: Machine,
    asked: Asked,
    sections: &[Section],
    listener: &mut dyn Listener,
) -> (Record, Result) {
    let Asked { verb, subject, profile, wish, margin, seed } = asked;
    let mut session = Session::begin(verb, machine, seed, margin, listener);
    profile.name.clone_into(&mut session.record.profile);
    session.record.subject = subject;
    let mut stage = Stage { profile, wish, section: SECTIONS[0], after: 0.0, session };
    let ending = stage.perform(sections);
    (stage.session.end(matches!(ending, Err(Error::Interrupted))), ending)
}

/// An experiment on our own workers.
struct Plan {
    id: &'static str,
    pace: Pace,
    unit: &'static str,
    parameters: BTreeMap<String, String>,
    trials: Vec<(Treatment, Trial)>,
    budget: Budget,
    /// Part of the section's time for this experiment, from 0 to 1.
    part: (f64, f64),
}

/// Measures the seconds of one tick of a load: the fastest of three.
fn pilot(kind: Kind, parameter: u64) -> f64 {
    let mut load = kind.load();
    load.prepare(parameter);
    let mut once = || {
        let began = clock::now_ns();
        load.tick();
        clock::now_ns() - began
    };
    (0..3).map(|_| once()).min().unwrap_or(1).max(1) as f64 / 1e9
}

/// Turns the failure of another program into a missing one: comparisons with other programs are optional.
fn optional(failure: Error) -> Error {
    match failure {
        Error::Failed(why) => Error::Unavailable(why),
        other => other,
    }
}

/// Returns names and values as a record stores them.
fn parameters<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a treatment with one factor.
fn treatment(name: String, workers: usize, factor: (&str, String)) -> Treatment {
    Treatment { name, workers, factors: parameters([factor]), latency: None }
}

/// Returns orders for workers 0 to `count`, unpinned on `cpus`, without an end.
fn free(count: usize, cpus: &CpuSet, parameter: u64) -> Vec<Order> {
    (0..count).map(|worker| Order { worker, cpus: cpus.clone(), parameter, ticks: 0, watch: None }).collect()
}

impl Stage<'_> {
    fn perform(&mut self, sections: &[Section]) -> Result {
        let mut ending = Ok(());
        for (index, section) in sections.iter().enumerate() {
            self.section = *section;
            self.after = seconds(&self.profile, &sections[index + 1..]);
            self.session.tell(Event::Section(section.title));
            match (section.run)(self) {
                Ok(()) => {}
                Err(Error::Unavailable(why)) => self.session.miss(section.title, &why),
                Err(Error::Failed(why)) => {
                    self.session.miss(section.title, &why);
                    ending = ending.and(Err(Error::Failed(why)));
                }
                Err(failure) => return Err(failure),
            }
            self.session.measured();
        }
        ending
    }

    /// Runs one experiment, which takes the part of the section's time from `part.0` to `part.1`.
    fn experiment<S: Subject>(&mut self, design: Design, subject: &mut S, part: (f64, f64)) -> Result
    where
        Error: From<S::Error>,
    {
        let (total, after) = ((self.section.seconds)(&self.profile), self.after);
        let left = |progress: Progress| {
            let share = part.0 + (part.1 - part.0) * progress.share;
            Duration::from_secs_f64((after + total * (1.0 - share)).max(0.0))
        };
        let (_, ending) = self.session.run(design, subject, Interim::none(&mut |_| false), &left);
        Ok(ending?)
    }

    /// Runs one experiment on our own workers.
    fn crew_experiment(&mut self, crew: Crew, plan: Plan) -> Result {
        let (treatments, trials) = plan.trials.into_iter().unzip();
        let design = Design {
            id: plan.id.to_owned(),
            method: plan.pace.method(),
            unit: plan.unit.to_owned(),
            metrics: Vec::new(),
            parameters: plan.parameters,
            treatments,
            budget: plan.budget,
        };
        let mut live =
            Live::new(crew, Rc::clone(&self.session.observer), plan.pace, trials, self.session.origin_ns);
        self.experiment(design, &mut live, plan.part)
    }
}

//! A run of sections: the budget, the order, and what all sections use.

use crate::{
    LoadOptions, SECTIONS, Section,
    error::{Error, Result},
    profile::Profile,
    seconds,
};
use manycore_experiment::{
    Record,
    engine::{ExperimentSpec, Progress, Subject},
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::Treatment,
    sampling::SamplingMode,
    session::{Event, Listener, Session},
    worker_pool::WorkerPool,
};
use manycore_linux::clock;
use manycore_topology::{CpuSet, Machine};
use manycore_workload::LoadKind;
use std::{collections::BTreeMap, rc::Rc, time::Duration};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The subcommand, for the record.
    pub subcommand: &'static str,
    /// Name of the load of `bench`; empty for `eval`.
    pub subject: String,
    /// The budget.
    pub profile: Profile,
    /// Options of single loads.
    pub loads: LoadOptions,
    /// Margin of equivalence: differences within this share do not matter.
    pub margin: f64,
    /// Seed of all random orders.
    pub seed: u64,
}

impl Options {
    /// Returns the options of an evaluation.
    pub fn eval(profile: Profile, margin: f64, seed: u64) -> Self {
        Self {
            subcommand: "eval",
            subject: String::new(),
            profile,
            loads: LoadOptions::default(),
            margin,
            seed,
        }
    }
}

/// A run of sections under way.
pub struct Suite<'a> {
    pub(crate) profile: Profile,
    pub(crate) loads: LoadOptions,
    /// The section under way.
    pub(crate) section: Section,
    /// Planned seconds of the sections after this one.
    after: f64,
    pub(crate) session: Session<'a>,
}

/// Measures `sections` on the running machine. Returns the record in any case, with the failure that ended
/// the run: an interruption, or the first section that failed.
pub fn run(
    machine: Machine,
    options: Options,
    sections: &[Section],
    listener: &mut dyn Listener,
) -> (Record, Result) {
    let Options { subcommand, subject, profile, loads, margin, seed } = options;
    let mut session = Session::begin(subcommand, machine, seed, margin, listener);
    profile.name.clone_into(&mut session.record.profile);
    session.record.subject = subject;
    let mut suite = Suite { profile, loads, section: SECTIONS[0], after: 0.0, session };
    let ending = suite.run_sections(sections);
    (suite.session.end(matches!(ending, Err(Error::Interrupted))), ending)
}

impl Suite<'_> {
    fn run_sections(&mut self, sections: &[Section]) -> Result {
        let mut ending = Ok(());
        for (index, section) in sections.iter().enumerate() {
            self.section = *section;
            self.after = seconds(&self.profile, &sections[index + 1..]);
            self.session.report(Event::Remaining(self.planned()));
            self.session.report(Event::Section(section.title));
            match (section.run)(self) {
                Ok(()) => {}
                Err(Error::Unavailable(why)) => self.session.record_missing(section.title, &why),
                Err(Error::Failed(why)) => {
                    self.session.record_missing(section.title, &why);
                    ending = ending.and(Err(Error::Failed(why)));
                }
                Err(failure) => return Err(failure),
            }
            self.session.report_measured();
        }
        ending
    }

    /// The planned time of this section and all later ones.
    fn planned(&self) -> Duration {
        Duration::from_secs_f64((self.section.seconds)(&self.profile) + self.after)
    }

    /// Reports that this section begins to measure, after a preparation of unknown length.
    pub(crate) fn report_plan(&mut self) {
        self.session.report(Event::Planned(self.planned()));
    }

    /// Returns the machine that is measured.
    pub(crate) fn machine(&self) -> &Machine {
        self.session.machine()
    }

    /// Runs one experiment that fills the part of the section's time from `part.0` to `part.1`.
    pub(crate) fn experiment<S: Subject>(
        &mut self,
        spec: ExperimentSpec,
        subject: &mut S,
        part: (f64, f64),
    ) -> Result
    where
        Error: From<S::Error>,
    {
        let (total, after) = ((self.section.seconds)(&self.profile), self.after);
        let left = |progress: Progress| {
            let share = part.0 + (part.1 - part.0) * progress.share;
            Duration::from_secs_f64((after + total * (1.0 - share)).max(0.0))
        };
        let (_, ending) = self.session.run(spec, subject, &mut |_| false, &left);
        Ok(ending?)
    }

    /// Runs one experiment on a pool of our own workers, with the work of all workers under each treatment.
    pub(crate) fn pool_experiment(
        &mut self,
        pool: WorkerPool,
        mode: SamplingMode,
        spec: ExperimentSpec,
        trials: Vec<(Treatment, Trial)>,
        part: (f64, f64),
    ) -> Result {
        let (treatments, trials) = trials.into_iter().unzip();
        let mut subject = self.pool_subject(pool, mode, trials);
        self.experiment(ExperimentSpec { treatments, ..spec }, &mut subject, part)
    }

    /// Returns a pool of workers as the subject of an experiment, with one trial per treatment.
    pub(crate) fn pool_subject(
        &self,
        pool: WorkerPool,
        mode: SamplingMode,
        trials: Vec<Trial>,
    ) -> PoolSubject {
        PoolSubject::new(pool, Rc::clone(&self.session.counter_reader), mode, trials, self.session.origin_ns)
    }
}

/// Measures the seconds of one tick of a load: the fastest of three.
pub(crate) fn pilot(kind: LoadKind, parameter: u64) -> f64 {
    let mut load = kind.load();
    load.prepare(parameter);
    let mut once = || {
        let began = clock::now_ns();
        load.tick();
        clock::now_ns() - began
    };
    (0..3).map(|_| once()).min().unwrap_or(1).max(1) as f64 / 1e9
}

/// Turns the failure of another program into a missing comparison: such programs are not required.
pub(crate) fn as_optional(failure: Error) -> Error {
    match failure {
        Error::Failed(why) => Error::Unavailable(why),
        other => other,
    }
}

/// Returns names and values as a record stores them.
pub(crate) fn parameters<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a treatment with one factor.
pub(crate) fn treatment(name: String, workers: usize, factor: (&str, String)) -> Treatment {
    Treatment { name, workers, factors: parameters([factor]), latency: None }
}

/// Returns orders for workers 0 to `count`, unpinned on `cpus`, without an end.
pub(crate) fn unpinned_orders(count: usize, cpus: &CpuSet, parameter: u64) -> Vec<WorkerOrder> {
    let order = |worker| WorkerOrder { worker, cpus: cpus.clone(), parameter, ticks: 0, expected_cpu: None };
    (0..count).map(order).collect()
}

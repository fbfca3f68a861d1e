//! Experiments on the user's own commands and services: [`compare`], [`scale`] and [`tune`].
//!
//! ```text
//! Options, a specification -> Variants on this machine -> Study (experiments in random blocks) -> Record
//! ```
//!
//! A variant runs to its end for each sample (`subject`). A service stays alive, its placement is switched between
//! samples, and the command is the load on it (`service`). Before anything is measured, every variant runs a few
//! times outside of the record: a command that cannot work is found first, and a slow first run (a cold cache, a
//! compiler) does not decide the plan.
//!
//! Memory policies need commands that start anew: a service keeps its memory while its CPUs are switched.
//!
//! Threads of a measured command are found by polling. That works without privileges, costs the same for every user,
//! and leaves nothing behind.
#![forbid(unsafe_code)]

mod budget;
pub mod candidates;
mod command_line;
pub mod compare;
mod error;
mod figures;
pub mod scale;
pub mod service;
pub mod subject;
pub mod tune;

use budget::budget;
pub use budget::{analyses_for, min_pairs};
pub use command_line::{format_command, split_command, with_workers};
pub use error::{Error, Result};

use manycore_experiment::{
    Record,
    engine::{Budget, ExperimentSpec, Progress, Subject as _},
    metric::MetricReader,
    record::{Direction, Experiment, Method, Metric, parameter},
    session::{Event, Listener, Session},
};
use manycore_linux::{child, clock, job, memory_policy::MemoryPolicy};
use manycore_topology::{CpuSet, Machine};
use service::{Readiness, Service};
use std::{collections::BTreeMap, rc::Rc, time::Duration};
use subject::{CommandSubject, RunSettings, Variant};

/// How commands are measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to spend; less is spent where the answer is clear before.
    pub budget: Duration,
    /// Margin of equivalence: differences within this share do not matter.
    pub margin: f64,
    /// Number of rounds, however long they take.
    pub rounds: Option<usize>,
    /// Runs of each variant before the one that is timed for planning.
    pub warmups: usize,
    /// Readers of the output.
    pub readers: Vec<MetricReader>,
    /// Name of the metric that decides; the first one where it is absent.
    pub primary: Option<String>,
    /// A service that is placed instead of the command; the command is the load on it.
    pub service: Option<(Vec<String>, Readiness)>,
    /// CPUs of the load on a service; those that the service's placements leave where it is absent.
    pub load_cpus: Option<CpuSet>,
    /// Maximum time of one run of the command, and of the service's start.
    pub timeout: Duration,
    /// Whether a run that ends with an error counts like any other one.
    pub ignore_failure: bool,
    /// Seed of all random orders.
    pub seed: u64,
}

/// Returns the specification of an experiment on whole runs of commands. Its metrics and the unit of its work
/// follow from the subject.
pub(crate) fn runs(id: impl Into<String>) -> ExperimentSpec {
    ExperimentSpec::new(id, Method::WholeRun, "")
}

/// One run of a subcommand that measures commands.
pub(crate) struct Study<'a> {
    session: Session<'a>,
    subject: CommandSubject,
    /// Planned seconds of the experiments after the next one.
    later_seconds: f64,
    /// Parameters of all experiments: the service and the CPUs of its load.
    parameters: BTreeMap<String, String>,
}

impl<'a> Study<'a> {
    /// Begins a run of `subcommand` on `machine`, with a service started where there is one. `command` is what the record
    /// calls the subject.
    ///
    /// # Errors
    /// Errors of [`Service::start`], or that a resource of the run is missing. Nothing is left behind.
    pub(crate) fn begin(
        subcommand: &str,
        machine: Machine,
        options: &Options,
        command: &[String],
        variants: Vec<Variant>,
        listener: &'a mut dyn Listener,
    ) -> Result<Self> {
        child::allow_many_files();
        job::adopt_orphans().map_err(Error::system("adopt orphans of commands"))?;
        let mut session = Session::begin(subcommand, machine, options.seed, options.margin, listener);
        session.record.subject = format_command(command);
        let (subject, parameters) = subject(&session, options, variants)?;
        Ok(Self { session, subject, later_seconds: 0.0, parameters })
    }

    /// Runs every variant `warmups` times and once more for its time, outside the record: a command that cannot work is
    /// found before anything is measured, and a first run that is slow (a cold cache, a compiler) does not decide the
    /// plan. Returns the seconds of the last run of each.
    ///
    /// # Errors
    /// Those of the commands.
    pub(crate) fn warm_up_and_time(&mut self, warmups: usize) -> Result<Vec<f64>> {
        self.session.report(Event::Section("warm-up and timing runs"));
        (0..self.subject.variants().len())
            .map(|variant| {
                for _ in 0..warmups {
                    self.subject.measure(variant)?;
                }
                let began = clock::now_ns();
                self.subject.measure(variant)?;
                Ok((clock::now_ns() - began) as f64 / 1e9)
            })
            .collect()
    }

    /// Returns the budget of an experiment whose rounds take `round` seconds each, and notes if it is too small
    /// for a result.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] if not even one round fits.
    pub(crate) fn budget(&mut self, options: &Options, what: &'static str, round: f64) -> Result<Budget> {
        let (budget, note) = budget(options, what, round)?;
        if let Some(note) = note {
            self.session.report(Event::Note(&note));
        }
        Ok(budget)
    }

    /// Runs an experiment until its budget is spent, or until `enough` returns true at one of its analyses.
    /// Adds it to the record.
    ///
    /// # Errors
    /// Those of the subject. The samples so far are kept in the record.
    pub(crate) fn experiment(
        &mut self,
        title: &str,
        spec: ExperimentSpec,
        enough: &mut dyn FnMut(&Experiment) -> bool,
    ) -> Result<&Experiment> {
        let metrics = self.subject.metrics();
        let unit = metrics.first().map_or_else(|| "runs".to_owned(), unit);
        let (seconds, later) = (spec.budget.seconds.min(1e9), self.later_seconds);
        let mut spec = ExperimentSpec { unit, metrics, ..spec };
        spec.parameters.extend(self.parameters.clone());
        self.session.report(Event::Remaining(Duration::from_secs_f64(seconds + later)));
        self.session.report(Event::Section(title));
        let left = |progress: Progress| Duration::from_secs_f64(seconds * (1.0 - progress.share) + later);
        let (_, ending) = self.session.run(spec, &mut self.subject, enough, &left);
        ending?;
        let last = self.session.record.experiments.last();
        last.ok_or(Error::NothingMeasured)
    }

    /// The record, with how the run ended.
    pub(crate) fn end(self, ending: &Result) -> Record {
        let notes = self.subject.notes().iter().cloned().collect::<Vec<_>>();
        let mut record = self.session.end(matches!(ending, Err(Error::Interrupted)));
        record.notes.extend(notes);
        record
    }
}

/// The subject for `variants`, with its service started, and the parameters that describe the service.
fn subject(
    session: &Session,
    options: &Options,
    variants: Vec<Variant>,
) -> Result<(CommandSubject, BTreeMap<String, String>)> {
    if variants.iter().any(|variant| variant.command.first().is_none_or(String::is_empty)) {
        return Err(Error::EmptyCommand);
    }
    if options.service.is_some()
        && variants.iter().any(|variant| variant.place.memory != MemoryPolicy::Default)
    {
        return Err(Error::MemoryOfService);
    }
    let load_cpus = load_cpus(session.machine(), options, &variants)?;
    let command = options.service.as_ref().map(|(command, _)| format_command(command));
    let cpus = load_cpus.as_ref().map(ToString::to_string);
    let parameters = [(parameter::SERVICE, command), (parameter::LOAD_CPUS, cpus)];
    let parameters =
        parameters.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let start = |(command, ready): &(Vec<String>, Readiness)| Service::start(command, ready, options.timeout);
    let settings = RunSettings {
        readers: options.readers.clone(),
        primary: options.primary.clone(),
        timeout: options.timeout,
        ignore_failure: options.ignore_failure,
        load_cpus,
    };
    let service = options.service.as_ref().map(start).transpose()?;
    let (counters, origin) = (Rc::clone(&session.counter_reader), session.origin_ns);
    Ok((CommandSubject::new(variants, settings, service, counters, origin)?, parameters))
}

/// CPUs of the load beside a service: those requested, or those that no variant of the service has.
fn load_cpus(machine: &Machine, options: &Options, variants: &[Variant]) -> Result<Option<CpuSet>> {
    let usable = machine.usable();
    if let Some(cpus) = &options.load_cpus {
        if !cpus.iter().all(|cpu| usable.contains(cpu)) {
            return Err(Error::LoadCpus { requested: cpus.clone(), usable });
        }
        return Ok(Some(cpus.clone()));
    }
    let taken: CpuSet = variants
        .iter()
        .filter_map(|variant| variant.place.cpus())
        .flat_map(|cpus| cpus.iter().collect::<Vec<_>>())
        .collect();
    let left: CpuSet = usable.iter().filter(|&cpu| !taken.contains(cpu)).collect();
    let every_variant_placed = variants.iter().all(|variant| !variant.place.workers.is_empty());
    Ok((options.service.is_some() && every_variant_placed && !left.is_empty()).then_some(left))
}

/// Returns the unit of [`manycore_experiment::record::Sample::work`] for the primary metric `primary`: work per second
/// is the metric's value, or its inverse where less is better.
fn unit(primary: &Metric) -> String {
    match (primary.name.as_str(), primary.better, primary.unit.strip_suffix("/s")) {
        ("wall", ..) => "runs".to_owned(),
        (_, Direction::Higher, Some(counted)) => counted.to_owned(),
        (name, Direction::Higher, None) => format!("{name} s"),
        (name, Direction::Lower, _) => format!("s/{name}"),
    }
}

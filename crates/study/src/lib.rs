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
mod conditions;
mod error;
mod figures;
pub mod life;
mod race;
mod run_mark;
pub mod scale;
pub mod scheduler;
pub mod service;
pub mod sharing;
pub mod subject;
pub mod tune;
pub mod variant;

use budget::{Rounds, budget};
pub use budget::{analyses_by, analyses_for, min_pairs, min_pairs_by};
pub use command_line::{split_command, with_workers};
pub use error::{Error, Result};
pub use manycore_text::command_line::format_command;

use life::IgnoredFailures;
use manycore_control::setting::SettingSwitch;
use manycore_experiment::{
    Record,
    engine::{Budget, ExperimentSpec, Progress, Subject as _},
    metric::MetricReader,
    record::{Direction, Experiment, Method, Metric, parameter},
    session::{Event, Listener, Session},
};
use manycore_linux::{child, clock, job, memory_policy::MemoryPolicy};
use manycore_stats::Estimator;
use manycore_topology::{CpuSet, Machine};
use run_mark::RunMark;
use service::{Service, ServiceSource};
use sharing::{SharingLevel, SharingMeter};
use std::{collections::BTreeMap, path::PathBuf, rc::Rc, time::Duration};
use subject::{CommandSubject, RunSettings, SchedulerRuns, Variant};

/// How commands are measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time of the whole run, warm-up included; less is spent where the answer is clear before. One that does not
    /// suffice for a result is refused.
    pub budget: Option<Duration>,
    /// Time of the run where there is no budget: it gives way to a result.
    pub default_budget: Duration,
    /// Margin of equivalence: differences within this share do not matter.
    pub margin: f64,
    /// What of the distributions decides a comparison. `scale` and `tune` use the median.
    pub by: Estimator,
    /// Number of rounds, however long they take.
    pub rounds: Option<usize>,
    /// Runs of each variant before the one that is timed for planning.
    pub warmups: usize,
    /// Readers of the output.
    pub readers: Vec<MetricReader>,
    /// Name of the metric that decides; the first one where it is absent.
    pub primary: Option<String>,
    /// The level at which it is observed what running tasks share; none where it is absent.
    pub sharing: Option<SharingLevel>,
    /// A service that is placed instead of the command; the command is the load on it.
    pub service: Option<ServiceSource>,
    /// CPUs of the load on a service; those that the service's placements leave where it is absent.
    pub load_cpus: Option<CpuSet>,
    /// Maximum time of one run of the command, and of the service's start.
    pub timeout: Duration,
    /// Runs that end with an error and count like any other one.
    pub ignored_failures: IgnoredFailures,
    /// The file that each run reads as its standard input; nothing where it is absent.
    pub input: Option<PathBuf>,
    /// Whether caches are dropped before each run.
    pub drop_caches: bool,
    /// The command that loads the cluster-aware scheduler of this program while it runs, without the policy at its end.
    pub cluster_loader: Vec<String>,
    /// The shell that is part of each command, to estimate its time.
    pub shell: Option<Vec<String>>,
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
    /// Parameters of all experiments: the conditions of all runs.
    parameters: BTreeMap<String, String>,
    /// Wall time of the fastest run so far outside of the record.
    fastest_ns: u64,
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
        conditions::check(options)?;
        job::adopt_orphans().map_err(Error::system("adopt orphans of commands"))?;
        let mut session = Session::begin(subcommand, machine, options.seed, options.margin, listener);
        session.record.subject = format_command(command);
        let load_cpus = load_cpus(session.machine(), options, &variants)?;
        let shared = options
            .service
            .as_ref()
            .and_then(|_| shared_cpus(&variants, load_cpus.as_ref(), &session.machine().usable()));
        if let Some(warning) = shared.map(|cpus| shared_cpus_warning(&cpus)) {
            session.report(Event::Note(&warning));
            session.record.notes.push(warning);
        }
        let (subject, mut parameters) = subject(&session, options, variants, load_cpus)?;
        if let Some(note) = subject.scheduler_note() {
            session.report(Event::Note(&note));
            session.record.notes.push(note);
        }
        if let Some(shell) = &options.shell {
            let seconds = conditions::shell_seconds(shell)?;
            parameters.insert(parameter::SHELL_SECONDS.to_owned(), format!("{seconds:.6}"));
        }
        Ok(Self { session, subject, later_seconds: 0.0, parameters, fastest_ns: u64::MAX })
    }

    /// Runs every variant a few times to warm up and once more for its time, outside the record: a command that cannot
    /// work is found before anything is measured, and a first run that is slow (a cold cache, a compiler) does not
    /// decide the plan. A round will have `in_round` variants. Returns the seconds of the last run of each.
    ///
    /// # Errors
    /// Those of the commands; [`Error::BudgetTooSmall`] as soon as these runs exceed the budget.
    pub(crate) fn warm_up_and_time(
        &mut self,
        options: &Options,
        what: &'static str,
        in_round: usize,
    ) -> Result<Vec<f64>> {
        self.session.report(Event::Section("warm-up and timing runs"));
        let runs = options.warmups + 1;
        let timed: Vec<f64> = (0..self.subject.variants().len())
            .map(|variant| {
                let mut seconds = 0.0;
                for _ in 0..runs {
                    seconds = self.time_once(variant)?;
                    let round = seconds * in_round as f64;
                    self.check_time(
                        options,
                        Rounds { what, seconds: round, comparisons: 1 },
                        round * runs as f64,
                    )?;
                }
                Ok(seconds)
            })
            .collect::<Result<_>>()?;
        self.note_shell(options);
        Ok(timed)
    }

    /// Says what share of the fastest run the start of a shell has, where that matters.
    fn note_shell(&mut self, options: &Options) {
        let start = self.parameters.get(parameter::SHELL_SECONDS).and_then(|text| text.parse().ok());
        let fastest = self.fastest_ns as f64 / 1e9;
        let note = options.shell.as_deref().zip(start);
        let note =
            note.and_then(|(shell, start)| conditions::shell_note(shell, start, fastest, options.margin));
        if let Some(note) = note {
            self.session.report(Event::Note(&note));
            self.session.record.notes.push(note);
        }
    }

    /// Runs a variant once, and returns how many seconds that took.
    fn time_once(&mut self, variant: usize) -> Result<f64> {
        let began = clock::now_ns();
        let sample = self.subject.measure(variant)?;
        self.fastest_ns = self.fastest_ns.min(sample.wall_ns);
        Ok((clock::now_ns() - began) as f64 / 1e9)
    }

    /// Checks that the user's budget is not spent before anything is measured. `preparation` is the estimated time of
    /// all that precedes the measurement, in seconds.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] if it is.
    fn check_time(&self, options: &Options, rounds: Rounds, preparation: f64) -> Result {
        let used = self.used_seconds();
        let is_spent = options.budget.is_some_and(|budget| used > budget.as_secs_f64());
        if is_spent && options.rounds.is_none() {
            return Err(budget::too_small(options, rounds, used.max(preparation)));
        }
        Ok(())
    }

    /// Returns the seconds since the run began.
    fn used_seconds(&self) -> f64 {
        (clock::now_ns() - self.session.origin_ns) as f64 / 1e9
    }

    /// Returns the budget of an experiment, and notes if it is longer than the user may expect.
    ///
    /// # Errors
    /// [`Error::BudgetTooSmall`] if the user's budget does not suffice for a result.
    pub(crate) fn budget(&mut self, options: &Options, rounds: Rounds) -> Result<Budget> {
        let (budget, note) = budget(options, rounds, self.used_seconds())?;
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

    /// Restores settings, stops the service and runs the cleanup commands. Returns the record, with how the run ended.
    pub(crate) fn end(mut self, ending: Result) -> (Record, Result) {
        let (problems, cleaned) = self.subject.end();
        let notes: Vec<String> =
            self.subject.notes().iter().cloned().chain(problems.iter().cloned()).collect();
        for problem in &problems {
            self.session.report(Event::Note(problem));
        }
        let mut record = self.session.end(matches!(ending, Err(Error::Interrupted)));
        record.notes.extend(notes);
        (record, ending.and(cleaned))
    }
}

/// The subject for `variants`, with its service started, and the parameters that describe the conditions of all runs.
fn subject(
    session: &Session,
    options: &Options,
    variants: Vec<Variant>,
    load_cpus: Option<CpuSet>,
) -> Result<(CommandSubject, BTreeMap<String, String>)> {
    if variants.iter().any(|variant| variant.command.first().is_none_or(String::is_empty)) {
        return Err(Error::EmptyCommand);
    }
    if options.service.is_some()
        && variants.iter().any(|variant| variant.place.memory != MemoryPolicy::Default)
    {
        return Err(Error::MemoryOfService);
    }
    let switch = conditions::switch(&session.record.subcommand, options, &variants)?;
    let files = switch.as_ref().map(SettingSwitch::files);
    let schedulers = SchedulerRuns::begin(&session.record.subcommand, &variants)?;
    let mut parameters = conditions::parameters(options, &variants, load_cpus.as_ref(), files);
    parameters.extend(schedulers.as_ref().map(conditions::scheduler_parameters).into_iter().flatten());
    let sharing = options.sharing.map(|level| SharingMeter::new(level, session.machine())).transpose()?;
    sharing.as_ref().map_or(Ok(()), |meter| meter.check(&options.readers))?;
    let (mark, mut cleanup) = RunMark::begin()?;
    let mut start = |source: &ServiceSource| match source {
        ServiceSource::Command(command, ready) => {
            Service::start(command, ready, options.timeout, (&mut cleanup, &mark))
        }
        ServiceSource::Running(pids) => Service::running(pids, session.machine(), &session.record.subcommand),
    };
    let settings = RunSettings {
        readers: options.readers.clone(),
        primary: options.primary.clone(),
        sharing,
        timeout: options.timeout,
        ignored_failures: options.ignored_failures.clone(),
        load_cpus,
        input: options.input.clone(),
        drop_caches: options.drop_caches,
    };
    let service = options.service.as_ref().map(&mut start).transpose()?;
    let (counters, origin) = (Rc::clone(&session.counter_reader), session.origin_ns);
    let subject = CommandSubject::new(variants, settings, service, counters, origin)?;
    Ok((subject.with_switch(switch).with_schedulers(schedulers).with_mark(mark, cleanup), parameters))
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

/// Returns the CPUs that the load has in common with the service under some variant; without placement, each uses all
/// `usable` CPUs.
fn shared_cpus(variants: &[Variant], load: Option<&CpuSet>, usable: &CpuSet) -> Option<CpuSet> {
    let load = load.unwrap_or(usable);
    let of_service = variants.iter().map(|variant| variant.place.cpus().unwrap_or_else(|| usable.clone()));
    let shared = CpuSet::union_of(&of_service.collect::<Vec<_>>()).intersection(load);
    (!shared.is_empty()).then_some(shared)
}

fn shared_cpus_warning(cpus: &CpuSet) -> String {
    let cpus = if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {cpus}") };
    format!(
        "WARNING: the load and the service share {cpus}: the load takes time from the service there, and the result \
         includes this. Give the load CPUs of its own (--load-cpus), and the service placements without them."
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_control::placement::WorkerCpus;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn variant(list: &str) -> Variant {
        let place = if list.is_empty() { WorkerCpus::default() } else { WorkerCpus::single(cpus(list)) };
        Variant { place, ..Variant::default() }
    }

    #[test]
    fn cpus_that_load_and_service_share_are_found() {
        for (a, b, load, shared) in [
            ("0", "2", Some("1,3"), None),
            ("0", "2", Some("2-3"), Some("2")),
            // An unpinned service, and an unpinned load.
            ("", "0", Some("1"), Some("1")),
            ("0", "2-3", None, Some("0,2-3")),
            ("", "0", None, Some("0-3")),
        ] {
            let load = load.map(cpus);
            let found = shared_cpus(&[variant(a), variant(b)], load.as_ref(), &cpus("0-3"));
            assert_eq!(found, shared.map(cpus), "{a:?} {b:?} {load:?}");
        }
        assert!(shared_cpus_warning(&cpus("0-1")).contains("share CPUs 0-1:"));
        assert!(shared_cpus_warning(&cpus("3")).contains("share CPU 3:"));
    }
}

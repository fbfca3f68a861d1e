//! Experiments on the user's own commands and services: what the verbs `compare`, `scale` and `tune` share.

mod budget;
pub mod candidates;
pub mod commands;
mod line;
pub mod service;
pub mod values;

pub use budget::{analyses_for, budget, least_pairs};
pub use line::{line, with_workers, words};

use crate::{
    cli::{Command, Format, Measuring},
    experiment::{
        self, Budget, Design, Interim, Progress as Share, Rng, interrupt, observe::Observer, opening,
    },
    failure::{Failure, Outcome},
    folder::Folder,
    output,
    progress::Progress,
    source,
};
use commands::{Commands, Rules, Side};
use manycore_experiment::{
    Record,
    record::{Better, Experiment, Method, Metric, Missed},
};
use manycore_linux::{child, clock, job, memory_policy::MemoryPolicy};
use manycore_stats::verdict::parameter;
use manycore_topology::{CpuSet, Machine};
use rand::SeedableRng;
use service::{Ready, Service};
use std::{collections::BTreeMap, path::Path, rc::Rc, time::Duration};

/// One run of a verb that measures commands.
pub struct Study {
    record: Record,
    folder: Folder,
    progress: Progress,
    observer: Rc<Observer>,
    rng: Rng,
    origin_ns: u64,
    /// Differences within this share are equivalent.
    margin: f64,
    quiet: bool,
    format: Format,
}

/// What an experiment of a study is to be.
pub struct Plot {
    /// Id in the record.
    pub id: String,
    /// What is measured, for people.
    pub title: &'static str,
    /// Treatments, one for each side of the subject.
    pub treatments: Vec<manycore_experiment::record::Treatment>,
    /// What else the record shall say.
    pub parameters: BTreeMap<String, String>,
    /// When to stop.
    pub budget: Budget,
    /// Planned interim analyses, the last one counted.
    pub analyses: usize,
}

impl Study {
    /// Begins a run of `verb`, with the subject for the sides that `prepare` makes for this machine, and what
    /// else the verb wants to know of them.
    ///
    /// # Errors
    /// Those of `prepare`, of [`Service::start`], and what a run needs and cannot have. Nothing is left behind.
    pub fn begin<T>(
        verb: &str,
        args: &Measuring,
        command: &Command,
        prepare: impl FnOnce(&Machine) -> Outcome<(Vec<Side>, T)>,
    ) -> Outcome<(Self, Commands, T)> {
        let study = Self::open(verb, args, command)?;
        let prepared =
            prepare(study.machine()).and_then(|(sides, known)| Ok((study.subject(args, sides)?, known)));
        match prepared {
            Ok((subject, known)) => Ok((study, subject, known)),
            Err(failure) => {
                study.progress.finish();
                study.folder.give_up();
                Err(failure)
            }
        }
    }

    /// Signals are caught, orphans of measured commands come to us, the folder for the results is there.
    fn open(verb: &str, args: &Measuring, command: &Command) -> Outcome<Self> {
        if args.precision.is_some() && verb != "compare" {
            return Err(Failure::input(format!(
                "--precision is for compare: {verb} measures for its --budget, or as many rounds as --pairs says"
            )));
        }
        interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
        child::allow_many_files();
        job::adopt_orphans()
            .map_err(|error| Failure::missing(format!("cannot look after orphans of commands: {error}")))?;
        let machine = source::live()?;
        let folder = Folder::make(args.out.clone(), args.force, verb)?;
        let observer = Rc::new(Observer::new(&machine));
        let seed = args.seed.unwrap_or_else(clock::now_ns);
        Ok(Self {
            record: Record {
                subject: line(&command.command),
                ..opening::open(verb, machine, seed, &observer)
            },
            folder,
            progress: Progress::new(args.budget.as_secs_f64(), args.quiet),
            observer,
            rng: Rng::seed_from_u64(seed),
            origin_ns: clock::now_ns(),
            margin: args.equivalent,
            quiet: args.quiet,
            format: args.format,
        })
    }

    /// Tells something on standard error, unless nothing shall be told.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            output::note(text);
        }
    }

    /// Notes something that could not be had.
    pub fn miss(&mut self, what: &str, why: &str) {
        let missed = Missed { what: what.to_owned(), why: why.to_owned() };
        self.progress.note(&format!("{}: {}", missed.what, missed.why));
        self.record.missed.push(missed);
    }

    /// What was measured until now.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Where the results go.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The machine that is measured on.
    pub fn machine(&self) -> &Machine {
        &self.record.machine
    }

    /// The subject for `sides`, with its service started.
    fn subject(&self, args: &Measuring, sides: Vec<Side>) -> Outcome<Commands> {
        if sides.iter().any(|side| side.command.first().is_none_or(String::is_empty)) {
            return Err(Failure::input("an empty command was given"));
        }
        if args.service.is_some() && sides.iter().any(|side| side.place.memory != MemoryPolicy::Default) {
            return Err(Failure::input(
                "a service keeps its memory while its CPUs are switched: memory policies need commands that start anew",
            ));
        }
        let load_cpus = self.load_cpus(args, &sides)?;
        let service = match &args.service {
            Some(command) => {
                let ready = match (&args.ready, args.ready_port) {
                    (Some(command), _) => Ready::Command(words(command)?),
                    (None, Some(port)) => Ready::Port(port),
                    (None, None) => Ready::Started,
                };
                Some(Service::start(&words(command)?, &ready, args.timeout)?)
            }
            None => None,
        };
        let rules = Rules {
            readers: args.metric.clone(),
            primary: args.primary.clone(),
            timeout: args.timeout,
            ignore_failure: args.ignore_failure,
            load_cpus,
        };
        Commands::new(sides, rules, service, Rc::clone(&self.observer), self.origin_ns)
    }

    /// CPUs of the load beside a service: those asked for, or those that no side of the service has.
    fn load_cpus(&self, args: &Measuring, sides: &[Side]) -> Outcome<Option<CpuSet>> {
        let usable = self.machine().usable();
        if let Some(cpus) = &args.load_cpus {
            if !cpus.iter().all(|cpu| usable.contains(cpu)) {
                return Err(Failure::input(format!(
                    "--load-cpus {cpus}: only CPUs {usable} may be used here"
                )));
            }
            return Ok(Some(cpus.clone()));
        }
        let taken: CpuSet = sides
            .iter()
            .filter_map(|side| side.place.cpus())
            .flat_map(|cpus| cpus.iter().collect::<Vec<_>>())
            .collect();
        let left: CpuSet = usable.iter().filter(|&cpu| !taken.contains(cpu)).collect();
        let every_side_placed = sides.iter().all(|side| !side.place.workers.is_empty());
        Ok((args.service.is_some() && every_side_placed && !left.is_empty()).then_some(left))
    }

    /// Runs every side `warmups` times and once more for its time, outside the record: a command that cannot work is
    /// found before anything is measured, and a first run that is slow (a cold cache, a compiler) does not decide the
    /// plan. Returns the seconds of the last run of each.
    ///
    /// # Errors
    /// Those of the commands.
    pub fn pilot(&mut self, subject: &mut Commands, warmups: usize) -> Outcome<Vec<f64>> {
        use experiment::Subject as _;
        self.progress.section("warm-up, and a run of each for its time");
        (0..subject.sides().len())
            .map(|side| {
                for _ in 0..warmups {
                    subject.measure(side)?;
                }
                let began = clock::now_ns();
                subject.measure(side)?;
                Ok((clock::now_ns() - began) as f64 / 1e9)
            })
            .collect()
    }

    /// Runs an experiment to its end, or until `enough` says so at one of its analyses; it is saved in the record.
    ///
    /// # Errors
    /// Those of the subject; what was measured is kept.
    pub fn experiment(
        &mut self,
        plot: Plot,
        subject: &mut Commands,
        enough: &mut dyn FnMut(&Experiment) -> bool,
    ) -> Outcome<&Experiment> {
        let metrics = subject.metrics();
        let mut parameters = plot.parameters;
        parameters.insert(parameter::MARGIN.to_owned(), self.margin.to_string());
        let unit = metrics.first().map_or_else(|| "runs".to_owned(), unit);
        let design = Design {
            id: plot.id,
            method: Method::Whole,
            unit,
            parameters,
            metrics,
            treatments: plot.treatments,
            budget: plot.budget,
        };
        self.progress.left(Duration::from_secs_f64(plot.budget.seconds.min(1e9)));
        self.progress.section(plot.title);
        let (began, seconds) = (clock::now_ns(), plot.budget.seconds.min(1e9));
        let progress = &mut self.progress;
        let mut watch = |_: Share| {
            let spent = (clock::now_ns() - began) as f64 / 1e9;
            progress.left(Duration::from_secs_f64((seconds - spent).max(0.0)));
        };
        let interim = Interim { planned: plot.analyses, enough };
        let (experiment, ending) = experiment::run_until(design, subject, &mut self.rng, interim, &mut watch);
        self.record.experiments.push(experiment);
        let last = self.record.experiments.len() - 1;
        if self.record.experiments[last].samples.is_empty() {
            self.record.experiments.pop();
        }
        ending?;
        self.record.experiments.last().ok_or_else(|| Failure::Measured("nothing was measured".to_owned()))
    }

    /// Saves the record, prints its judgement, and says how the run ended.
    ///
    /// # Errors
    /// The failure in `ending`, or that the record cannot be saved.
    pub fn end(mut self, subject: &Commands, ending: Outcome) -> Outcome {
        self.progress.finish();
        self.record.interrupted = !experiment::goes_on(&ending);
        self.record.seconds = (clock::now_ns() - self.origin_ns) as f64 / 1e9;
        self.record.notes.extend(subject.notes().iter().cloned());
        if self.record.experiments.is_empty() {
            self.folder.give_up();
            return ending;
        }
        let verb = self.record.verb.clone();
        let saved = self.folder.save(&verb, self.record, self.quiet, self.format);
        match (saved, ending) {
            (Err(failure), _) => Err(failure),
            (Ok(()), Err(Failure::Interrupted(_))) => Err(Failure::Interrupted(format!(
                "interrupted; what was measured is in {} (manycore report {0})",
                self.folder.record().display()
            ))),
            (Ok(()), ending) => ending,
        }
    }
}

/// What [`manycore_experiment::record::Sample::work`] counts in where `primary` decides: so that work per second is the
/// metric's value, or its inverse where less is better.
fn unit(primary: &Metric) -> String {
    match (primary.name.as_str(), primary.better, primary.unit.strip_suffix("/s")) {
        ("wall", ..) => "runs".to_owned(),
        (_, Better::Higher, Some(counted)) => counted.to_owned(),
        (name, Better::Higher, None) => format!("{name} s"),
        (name, Better::Lower, _) => format!("s/{name}"),
    }
}

//! Experiments on the user's own commands and services; shared by the verbs `compare`, `scale` and `tune`.

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
use manycore_host::{child, clock, job, memory_policy::MemoryPolicy};
use manycore_model::{
    CpuSet, Machine, Record,
    record::{Better, Experiment, Method, Metric, Missed},
    verdict::parameter,
};
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
    /// Margin of equivalence: differences within this share do not matter.
    margin: f64,
    quiet: bool,
    format: Format,
}

/// The specification of one experiment of a study.
pub struct Plot {
    /// Id in the record.
    pub id: String,
    /// Displayed title.
    pub title: &'static str,
    /// Treatments, one for each variant of the subject.
    pub treatments: Vec<manycore_model::record::Treatment>,
    /// Further parameters for the record.
    pub parameters: BTreeMap<String, String>,
    /// When to stop.
    pub budget: Budget,
    /// Number of planned analyses, including the last one.
    pub analyses: usize,
}

impl Study {
    /// Starts a run of `verb`. `prepare` returns the variants for this machine, and further data of the verb,
    /// which are passed through.
    ///
    /// # Errors
    /// Those of `prepare` and of [`Service::start`], and [`Failure`]s of the set-up. Nothing is left behind
    /// then.
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

    /// Catches signals, becomes the reaper of orphans of measured commands, and creates the folder for the
    /// results.
    fn open(verb: &str, args: &Measuring, command: &Command) -> Outcome<Self> {
        if args.precision.is_some() && verb != "compare" {
            return Err(Failure::input(format!(
                "--precision applies to compare only: {verb} measures for --budget, or the rounds given by --pairs"
            )));
        }
        interrupt::catch().map_err(|error| Failure::missing(format!("cannot catch signals: {error}")))?;
        child::allow_many_files();
        job::adopt_orphans()
            .map_err(|error| Failure::missing(format!("cannot become a child subreaper: {error}")))?;
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

    /// Prints a line on standard error, unless --quiet was given.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            output::note(text);
        }
    }

    /// Records that something could not be measured, and prints it.
    pub fn miss(&mut self, what: &str, why: &str) {
        let missed = Missed { what: what.to_owned(), why: why.to_owned() };
        self.progress.note(&format!("{}: {}", missed.what, missed.why));
        self.record.missed.push(missed);
    }

    /// Returns the record so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the folder for the results.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the machine that is measured.
    pub fn machine(&self) -> &Machine {
        &self.record.machine
    }

    /// Creates the subject for `sides`, and starts its service if there is one.
    fn subject(&self, args: &Measuring, sides: Vec<Side>) -> Outcome<Commands> {
        if sides.iter().any(|side| side.command.first().is_none_or(String::is_empty)) {
            return Err(Failure::input("the command is empty"));
        }
        if args.service.is_some() && sides.iter().any(|side| side.place.memory != MemoryPolicy::Default) {
            return Err(Failure::input(
                "memory policies do not work with --service: a running service keeps its memory when its CPUs change",
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

    /// Returns the CPUs for the load on a service: the requested ones, or those that no variant of the
    /// service uses.
    fn load_cpus(&self, args: &Measuring, sides: &[Side]) -> Outcome<Option<CpuSet>> {
        let usable = self.machine().usable();
        if let Some(cpus) = &args.load_cpus {
            if !cpus.iter().all(|cpu| usable.contains(cpu)) {
                return Err(Failure::input(format!(
                    "--load-cpus {cpus} has CPUs that may not be used here; expected some of {usable}"
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

    /// Runs every variant `warmups` times, and once more to time it. None of these runs is recorded. A
    /// command that cannot work is found before anything is measured, and a slow first run (a cold cache, a
    /// compiler) does not affect the plan. Returns the seconds of the last run of each variant.
    ///
    /// # Errors
    /// Those of the commands.
    pub fn pilot(&mut self, subject: &mut Commands, warmups: usize) -> Outcome<Vec<f64>> {
        use experiment::Subject as _;
        self.progress.section("warm-up and timing runs");
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

    /// Runs an experiment until its budget is spent, or until `enough` returns true at one of its analyses.
    /// Adds it to the record.
    ///
    /// # Errors
    /// Those of the subject. The samples so far are kept in the record.
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
        self.record.experiments.last().ok_or_else(|| Failure::Measured("no sample was measured".to_owned()))
    }

    /// Saves the record, prints its evaluation, and returns how the run ended.
    ///
    /// # Errors
    /// The failure in `ending`, or that of saving the record.
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
                "interrupted; the results so far are in {} (show them with: manycore report {0})",
                self.folder.record().display()
            ))),
            (Ok(()), ending) => ending,
        }
    }
}

/// Returns the unit of [`manycore_model::record::Sample::work`] for the primary metric. It is such that work
/// per second is the metric's value, or its inverse if less is better.
fn unit(primary: &Metric) -> String {
    match (primary.name.as_str(), primary.better, primary.unit.strip_suffix("/s")) {
        ("wall", ..) => "runs".to_owned(),
        (_, Better::Higher, Some(counted)) => counted.to_owned(),
        (name, Better::Higher, None) => format!("{name} s"),
        (name, Better::Lower, _) => format!("s/{name}"),
    }
}

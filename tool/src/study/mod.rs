//! Experiments on the user's own commands and services: what the verbs `compare`, `scale` and `tune` share.

pub mod candidates;
pub mod commands;
pub mod place;
pub mod service;
pub mod values;

use crate::{
    cli::{Format, Measuring},
    experiment::{
        self, Budget, Design, Looks, Progress as Share, Rng, interrupt, observe::Observer, opening,
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
    placement::{Memory, Plan, Policy, PolicyKind, Reserve},
    record::{Better, Experiment, Method, Metric, Missed},
};
use place::Place;
use rand::SeedableRng;
use service::{Ready, Service};
use std::{collections::BTreeMap, path::Path, rc::Rc, time::Duration};

/// Planned looks at a comparison under way, over which its level is split.
const LOOKS: usize = 3;

/// Fewest pairs of which an interval at the level of one of that many looks can be made: 2 * 0.5^n must be
/// below 0.05 / looks.
pub fn least_pairs(looks: usize) -> usize {
    let level: f64 = 0.05 / looks as f64;
    ((2.0 / level).log2()).ceil() as usize
}

/// One run of a verb that measures commands.
pub struct Study {
    record: Record,
    folder: Folder,
    progress: Progress,
    observer: Rc<Observer>,
    rng: Rng,
    origin_ns: u64,
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
    pub treatments: Vec<manycore_model::record::Treatment>,
    /// What else the record shall say.
    pub parameters: BTreeMap<String, String>,
    /// When to stop.
    pub budget: Budget,
    /// Planned looks.
    pub looks: usize,
}

impl Study {
    /// Begins a run of `verb`: signals are caught, orphans of measured commands come to us, the folder for the
    /// results is there.
    ///
    /// # Errors
    /// [`Failure::Missing`] where any of that cannot be had, [`Failure::Input`] for an option of another verb.
    pub fn begin(verb: &str, args: &Measuring) -> Outcome<Self> {
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
        let folder = Folder::make(args.out.clone(), verb)?;
        let observer = Rc::new(Observer::new(&machine));
        let seed = args.seed.unwrap_or_else(clock::now_ns);
        Ok(Self {
            record: opening::open(verb, machine, seed, &observer),
            folder,
            progress: Progress::new(args.budget.as_secs_f64(), args.quiet),
            observer,
            rng: Rng::seed_from_u64(seed),
            origin_ns: clock::now_ns(),
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

    /// CPUs that may be used.
    pub fn usable(&self) -> CpuSet {
        let allowed = &self.record.machine.allowed.cpus;
        if allowed.is_empty() { self.record.machine.online.clone() } else { allowed.clone() }
    }

    /// The subject for `sides`, with its service started.
    ///
    /// # Errors
    /// Those of [`Service::start`].
    pub fn subject(&self, args: &Measuring, sides: Vec<Side>) -> Outcome<Commands> {
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
        let usable = self.usable();
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

    /// Runs every side once or `warmups` times, outside the record: a command that cannot work is found before
    /// anything is measured. Returns the seconds of a last run of each.
    ///
    /// # Errors
    /// Those of the commands.
    pub fn pilot(&mut self, subject: &mut Commands, warmups: usize) -> Outcome<Vec<f64>> {
        use experiment::Subject as _;
        self.progress.section("a first run of each");
        (0..subject.sides().len())
            .map(|side| {
                for _ in 1..warmups.max(1) {
                    subject.measure(side)?;
                }
                let began = clock::now_ns();
                subject.measure(side)?;
                Ok((clock::now_ns() - began) as f64 / 1e9)
            })
            .collect()
    }

    /// Runs an experiment to its end, or until `enough` says so at one of its looks; it is saved in the record.
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
        parameters.insert("looks".to_owned(), plot.looks.to_string());
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
        let looks = Looks { planned: plot.looks, enough };
        let (experiment, ending) = experiment::run_until(design, subject, &mut self.rng, looks, &mut watch);
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
    pub fn end(mut self, subject: Option<&Commands>, ending: Outcome) -> Outcome {
        self.progress.finish();
        self.record.interrupted = !experiment::goes_on(&ending);
        self.record.seconds = (clock::now_ns() - self.origin_ns) as f64 / 1e9;
        self.record.notes.extend(subject.into_iter().flat_map(Commands::notes).cloned());
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

/// When an experiment stops whose rounds (`what`: "a pair") take `round` seconds each.
///
/// # Errors
/// [`Failure::Input`] where not even one round fits.
pub fn budget(args: &Measuring, what: &str, round: f64) -> Outcome<Budget> {
    if let Some(rounds) = args.pairs {
        let rounds = rounds as usize;
        return Ok(Budget { seconds: rounds as f64 * round, least_blocks: rounds, most_blocks: rounds });
    }
    let budget = args.budget.as_secs_f64();
    let least = least_pairs(1) as f64;
    if budget < round {
        return Err(Failure::input(format!(
            "{what} takes {round:.1} s, more than the budget of {budget} s; for an answer give --budget {:.0}s",
            (least * round * 1.1).ceil()
        )));
    }
    if budget < least * round && !args.quiet {
        output::note(&format!(
            "The budget has room for {:.0} rounds, and an answer needs {least}: --budget {:.0}s would do.",
            (budget / round).floor(),
            (least * round * 1.1).ceil()
        ));
    }
    Ok(Budget::seconds(budget))
}

/// The place that `policy` gives `workers`.
///
/// # Errors
/// [`Failure::Input`] where it cannot be met here.
pub fn placed(
    machine: &Machine,
    policy: Option<&Policy>,
    memory: &Memory,
    workers: usize,
) -> Outcome<(Place, Plan)> {
    let free = Policy { kind: PolicyKind::Free, nosmt: false };
    let policy = policy.unwrap_or(&free);
    let plan = policy.plan(machine, workers, &Reserve::Nothing).map_err(Failure::input)?;
    let memory = memory_policy(machine, memory, &plan)?;
    // Where every worker may use all CPUs, the command runs where it would anyway.
    let everywhere = |cpus: &CpuSet| *cpus == machine.allowed.cpus;
    let workers = if *policy == free || plan.workers.iter().all(|worker| everywhere(&worker.cpus)) {
        Vec::new()
    } else {
        plan.workers.iter().map(|worker| worker.cpus.clone()).collect()
    };
    Ok((Place { workers, memory }, plan))
}

fn memory_policy(machine: &Machine, memory: &Memory, plan: &Plan) -> Outcome<MemoryPolicy> {
    let nodes = memory.nodes(plan);
    let unknown = nodes.iter().find(|node| !machine.nodes.iter().any(|known| known.id == **node));
    if let Some(node) = unknown {
        return Err(Failure::input(format!("there is no NUMA node {node} on this machine")));
    }
    Ok(match memory {
        Memory::Default => MemoryPolicy::Default,
        Memory::Local => MemoryPolicy::Local,
        Memory::Interleave(_) => MemoryPolicy::Interleave(nodes),
        Memory::Bind(_) => MemoryPolicy::Bind(nodes),
    })
}

/// A command line as a shell would split it, without running one.
///
/// # Errors
/// [`Failure::Input`] where a quote is not closed or nothing is there.
pub fn words(line: &str) -> Outcome<Vec<String>> {
    match shlex::split(line) {
        Some(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(words),
        Some(_) => Err(Failure::input("an empty command was given")),
        None => Err(Failure::input(format!("a quote is not closed in {line:?}"))),
    }
}

/// A command as one could type it: words are quoted only where a shell would change them.
pub fn line(command: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_@%+=:,./{}-".contains(c))
    };
    let quoted = |word: &String| {
        if plain(word) {
            word.clone()
        } else {
            shlex::try_quote(word).map_or_else(|_| word.clone(), Into::into)
        }
    };
    command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// `command` with every `{workers}` replaced; whether there was one.
pub fn with_workers(command: &[String], workers: usize) -> (Vec<String>, bool) {
    const HOLE: &str = "{workers}";
    let filled = command.iter().map(|word| word.replace(HOLE, &workers.to_string())).collect();
    (filled, command.iter().any(|word| word.contains(HOLE)))
}

/// What [`manycore_model::record::Sample::work`] counts in where `primary` decides: so that work per second is the
/// metric's value, or its inverse where less is better.
fn unit(primary: &Metric) -> String {
    match (primary.name.as_str(), primary.better, primary.unit.strip_suffix("/s")) {
        ("wall", ..) => "runs".to_owned(),
        (_, Better::Higher, Some(counted)) => counted.to_owned(),
        (name, Better::Higher, None) => format!("{name} s"),
        (name, Better::Lower, _) => format!("s/{name}"),
    }
}

/// How many looks a budget has room for, so that each still has pairs enough for an answer.
pub fn looks_for(pairs: f64) -> usize {
    (1..=LOOKS).rev().find(|&looks| pairs / looks as f64 >= least_pairs(looks) as f64).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_leave_pairs_enough_for_an_interval() {
        assert_eq!([1, 2, 3].map(least_pairs), [6, 7, 7]);
        assert_eq!([5.0, 6.0, 14.0, 20.9, 21.0, 500.0].map(looks_for), [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn commands_are_split_as_a_shell_does() {
        assert_eq!(words("sh -c 'echo \"a b\"'").unwrap(), ["sh", "-c", "echo \"a b\""]);
        assert!(words("sh -c 'open").is_err() && words(" ").is_err() && words("''").is_err());
    }

    #[test]
    fn lines_are_quoted_only_where_it_matters() {
        let words = ["sh", "-c", "a b", "--x=1", "", "it's"].map(str::to_owned);
        assert_eq!(line(&words), "sh -c 'a b' --x=1 '' \"it's\"");
    }

    #[test]
    fn every_hole_is_filled() {
        let command: Vec<String> = ["make", "-j{workers}", "{workers}"].map(str::to_owned).to_vec();
        assert_eq!(with_workers(&command, 8), (["make", "-j8", "8"].map(str::to_owned).to_vec(), true));
        assert!(!with_workers(&command[..1], 8).1);
    }
}

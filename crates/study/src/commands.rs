//! Commands as the subject of an experiment. Each treatment runs a command to its end, and measures its
//! output and its resource usage.

use crate::error::{Error, Result};
use crate::{
    service::Service,
    values::{Figures, Used, figures},
};
use manycore_control::placement::{AffinityEnforcer, WorkerCpus};
use manycore_experiment::record::{Around, Metric, Sample};
use manycore_experiment::{engine::Subject, interrupt, metric::Reader, observe::Observer};
use manycore_linux::{
    affinity,
    clock::now_ns,
    job::{self, Job, JobUsage},
    tasks,
};
use manycore_topology::CpuSet;
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    os::unix::process::ExitStatusExt,
    process::Command,
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

/// Time that a command has to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Environment variable that marks the load, and all processes that it starts. It distinguishes them from
/// those of the service.
const MARK: &str = "MANYCORE_LOAD";

/// Longest time between two checks of signals and time limits.
const LOOK: Duration = Duration::from_millis(500);

/// One variant: a command and its placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables that are added to our own environment.
    pub env: Vec<(String, String)>,
    /// Number of copies that run at once.
    pub copies: usize,
    /// Placement of the command, or of the service if there is one.
    pub place: WorkerCpus,
}

/// Settings for measuring runs.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Readers of the output.
    pub readers: Vec<Reader>,
    /// Name of the primary metric. `None` means the first metric of the first reader, or wall time.
    pub primary: Option<String>,
    /// Time limit for one run.
    pub timeout: Duration,
    /// Whether a run that ends with an error counts like any other one.
    pub ignore_failure: bool,
    /// CPUs for the load on a service.
    pub load_cpus: Option<CpuSet>,
}

impl Default for Rules {
    /// Returns settings in which wall time is the primary metric and a run may take ten minutes.
    fn default() -> Self {
        Self {
            readers: Vec::new(),
            primary: None,
            timeout: Duration::from_mins(10),
            ignore_failure: false,
            load_cpus: None,
        }
    }
}

/// Runs the commands of all variants.
pub struct Commands {
    sides: Vec<Side>,
    rules: Rules,
    service: Option<Service>,
    observer: Rc<Observer>,
    origin_ns: u64,
    inherited: CpuSet,
    figures: Figures,
    /// Notes for the report, each only once.
    notes: BTreeSet<String>,
}

impl Commands {
    /// Creates a subject for `sides`, with the settings `rules`. If there is a `service`, the commands are
    /// the load on it.
    ///
    /// # Errors
    /// [`Failure::Missing`] if our own affinity cannot be read.
    pub fn new(
        sides: Vec<Side>,
        rules: Rules,
        service: Option<Service>,
        observer: Rc<Observer>,
        origin_ns: u64,
    ) -> Result<Self> {
        let inherited = affinity::allowed().map_err(|error| {
            Error::unavailable(format!("cannot read the affinity of this process: {error}"))
        })?;
        let (figures, notes) = (Figures::new(rules.primary.clone()), BTreeSet::new());
        Ok(Self { sides, rules, service, observer, origin_ns, inherited, figures, notes })
    }

    /// Returns the metrics of the values of samples. They are empty before the first run.
    pub fn metrics(&self) -> Vec<Metric> {
        self.figures.metrics().to_vec()
    }

    /// Returns notes for the report: affinities that a command set itself, and processes that it left
    /// running.
    pub fn notes(&self) -> &BTreeSet<String> {
        &self.notes
    }

    /// Returns the variants.
    pub fn sides(&self) -> &[Side] {
        &self.sides
    }

    /// Replaces the variants.
    pub fn set_sides(&mut self, sides: Vec<Side>) {
        self.sides = sides;
    }

    fn service_ns(&self) -> Option<u64> {
        self.service.as_ref().map(Service::cpu_ns)
    }

    fn place_of(&self, side: &Side) -> WorkerCpus {
        match (&self.service, &self.rules.load_cpus) {
            (None, _) => side.place.clone(),
            (Some(_), Some(cpus)) => WorkerCpus::on(cpus.clone()),
            (Some(_), None) => WorkerCpus::default(),
        }
    }

    fn start(&self, side: &Side, place: &WorkerCpus) -> Result<Vec<Job>> {
        let keep = !self.rules.readers.is_empty();
        let one = |copy| {
            let mut command = Command::new(&side.command[0]);
            command.args(&side.command[1..]).envs(side.env.iter().map(|(name, value)| (name, value)));
            if self.service.is_some() {
                command.env(MARK, std::process::id().to_string());
            }
            let start = if side.copies > 1 { place.of_copy(copy).start() } else { place.start() };
            Job::start(&mut command, &start, keep)
                .map_err(|error| Error::unavailable(format!("cannot start {}: {error}", side.command[0])))
        };
        (0..side.copies).map(one).collect()
    }

    /// Waits for all jobs. Returns the time at which each of them ended.
    fn wait(&mut self, jobs: &mut [Job], keeper: &mut AffinityEnforcer, name: &str) -> Result<Vec<u64>> {
        let roots: Vec<u32> = jobs.iter().map(Job::pid).collect();
        let began = Instant::now();
        let mut ends = vec![0; jobs.len()];
        let mut asked: Option<Instant> = None;
        loop {
            let pause = keeper
                .scan(&roots)
                .min(self.service.as_mut().and_then(Service::look).unwrap_or(LOOK))
                .min(LOOK)
                .min(self.rules.timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
            let mut done = |job: &Job| {
                ends[roots.iter().position(|&pid| pid == job.pid()).unwrap_or(0)] = now_ns();
                keeper.process_ended(job.pid());
            };
            let all = job::wait(jobs, pause, &mut done)
                .map_err(|error| Error::unavailable(format!("cannot wait for {name}: {error}")))?;
            if all && asked.is_none() {
                return Ok(ends);
            }
            interrupt::check()?;
            if let Some(service) = &mut self.service {
                service.check()?;
            }
            if began.elapsed() < self.rules.timeout {
                continue;
            }
            let since = *asked.get_or_insert_with(|| {
                for job in jobs.iter() {
                    job.signal(Signal::TERM);
                }
                Instant::now()
            });
            if all || since.elapsed() > GRACE {
                let ignored = if all { "" } else { "; it did not end on SIGTERM and was killed" };
                return Err(Error::Failed(format!(
                    "{name} did not end within {} s{ignored} (--timeout sets the limit)",
                    self.rules.timeout.as_secs_f64()
                )));
            }
        }
    }

    /// Runs a variant once and returns its sample.
    fn once(&mut self, treatment: usize) -> Result<Sample> {
        let side = self.sides[treatment].clone();
        let name = crate::line(&side.command);
        let place = self.place_of(&side);
        let known: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let keeper = if side.copies > 1 { AffinityEnforcer::for_copies } else { AffinityEnforcer::new };
        let mut keeper = keeper(&place, &self.inherited);
        let before = self.observer.snapshot(&[], now_ns());
        let service_before = self.service_ns();
        let (since, began) = (SystemTime::now(), now_ns());
        let mut jobs = self.start(&side, &place).inspect_err(|_| drop(self.end_strays(&known)))?;
        let waited = self.wait(&mut jobs, &mut keeper, &name);
        let service_ns =
            self.service_ns().zip(service_before).map(|(after, before)| after.saturating_sub(before));
        let around = self.observer.between(&before, &self.observer.snapshot(&[], now_ns()));
        if let Err(failure) = waited {
            drop(jobs);
            self.end_strays(&known);
            return Err(failure);
        }
        let ends = waited?;
        self.remark(&name, &keeper, &known);
        let ended: Vec<JobUsage> = jobs.iter().filter_map(Job::ended).collect();
        if !self.rules.ignore_failure {
            all_succeeded(&jobs, &ended, &name)?;
        }
        let used = Used {
            wall_ns: ends.iter().max().map_or(1, |end| end - began).max(1),
            cpu_ns: ended.iter().map(|end| end.cpu.as_nanos() as u64).sum(),
            max_rss_bytes: ended.iter().map(|end| end.max_rss_bytes).sum(),
            service_ns,
        };
        let values = figures(&self.rules.readers, &jobs, &used, since)
            .and_then(|found| self.figures.ordered(found))
            .map_err(|what| Error::Failed(format!("{name}: {what}")))?;
        let each = ends.iter().map(|end| (end - began) as f64 / 1e9);
        Ok(Sample {
            start_ns: began.saturating_sub(self.origin_ns),
            wall_ns: used.wall_ns,
            work: self.figures.work(&values, used.wall_ns, side.copies),
            per_worker: if side.copies > 1 { each.collect() } else { Vec::new() },
            exits: exits(&ended),
            values,
            around: Around { cpu_ns: Some(used.cpu_ns + service_ns.unwrap_or(0)), ..around },
            ..Sample::default()
        })
    }

    /// Ends the processes that the command left running. Processes of a service that goes into the background
    /// may become our children in the middle of a run. With a service, only processes that were started as
    /// the load are therefore ended.
    fn end_strays(&self, known: &BTreeSet<u32>) -> Vec<String> {
        let mark = format!("{MARK}={}", std::process::id());
        job::end_leftover_processes(known, &|pid| {
            self.service.is_none() || tasks::has_environment(pid, &mark)
        })
    }

    fn remark(&mut self, name: &str, keeper: &AffinityEnforcer, known: &BTreeSet<u32>) {
        for (task, cpus) in keeper.own_affinities() {
            self.notes.insert(format!(
                "{name}: {task} set its own affinity to CPUs {cpus}; the placement does not apply to it"
            ));
        }
        for stray in self.end_strays(known) {
            self.notes.insert(format!("{name} left a process running ({stray}); it was ended"));
        }
    }
}

/// Returns the exit statuses if at least one command failed; empty if all of them succeeded.
fn exits(ended: &[JobUsage]) -> Vec<i32> {
    let exit =
        |end: &JobUsage| end.status.code().or(end.status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    let failed = ended.iter().any(|end| !end.status.success());
    if failed { ended.iter().map(exit).collect() } else { Vec::new() }
}

fn all_succeeded(jobs: &[Job], ended: &[JobUsage], name: &str) -> Result {
    let failed = jobs.iter().zip(ended).find(|(_, end)| !end.status.success());
    failed.map_or(Ok(()), |(job, end)| {
        Err(Error::Failed(format!("{name} failed ({}): {}", end.status, job.last_stderr_line())))
    })
}

impl Subject for Commands {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        interrupt::check()?;
        if let Some(service) = &mut self.service {
            service.place(&self.sides[treatment].place, &self.inherited)?;
        }
        let sample = self.once(treatment)?;
        if let Some(service) = &mut self.service {
            service.check()?;
            self.notes.extend(service.own_affinities());
        }
        Ok(sample)
    }

    fn now_ns(&self) -> u64 {
        now_ns()
    }
}

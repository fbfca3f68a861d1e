//! Commands as the subject of an experiment. Each treatment runs a command to its end, and measures its
//! output and its resource usage.

use crate::{
    error::{Error, Result},
    figures::{Figures, ResourceUsage, figures, requests},
    life::{IgnoredFailures, exit_code},
    run_mark::RunMark,
    service::{LOAD_MARKER, Service, load_mark},
};
use manycore_control::{
    cleanup::Cleanup,
    placement::{AffinityEnforcer, WorkerCpus},
    setting::SettingSwitch,
};
use manycore_experiment::{
    counters::CounterReader,
    engine::Subject,
    interrupt,
    metric::MetricReader,
    record::{CounterDelta, Metric, Sample},
    speed::{self, PROBE_INTERVAL},
};
use manycore_linux::{
    affinity,
    child::StartPlacement,
    clock::now_ns,
    job::{self, Job, JobUsage},
    tasks,
};
use manycore_sharing::{Sampler, Sharing, WatchedRoots};
use manycore_topology::CpuSet;
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    process::{Command, Stdio},
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

mod life;
mod schedulers;
mod settings;

pub(crate) use life::DROP_CACHES;
pub(crate) use schedulers::{SETTLE, SchedulerRuns};
pub use settings::{RunSettings, Variant};

/// Time that a command has to end after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum time between two checks of signals and time limits.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Runs the commands of all variants.
pub struct CommandSubject {
    variants: Vec<Variant>,
    settings: RunSettings,
    service: Option<Service>,
    counter_reader: Rc<CounterReader>,
    origin_ns: u64,
    inherited: CpuSet,
    figures: Figures,
    /// Notes for the report, each only once.
    notes: BTreeSet<String>,
    /// When the speed of the machine was last measured, in nanoseconds.
    probed_ns: u64,
    /// Number of runs without an error, by title or command.
    succeeded: BTreeMap<String, usize>,
    /// Switches the settings of the variants, if they have any.
    switch: Option<SettingSwitch>,
    /// Switches the schedulers of the variants, if they have any.
    schedulers: Option<SchedulerRuns>,
    /// Marks what is started, and ends it if this process is killed.
    mark: Option<(RunMark, Cleanup)>,
    /// Variants whose setup has begun, with their names.
    begun: Vec<(String, Variant)>,
    /// What the variants are called in messages; empty where their commands identify them. A variant is found by itself,
    /// because a race changes the order.
    titles: Vec<(Variant, String)>,
}

impl CommandSubject {
    /// Creates a subject for `variants`, with the `settings`. If there is a `service`, the commands are
    /// the load on it.
    ///
    /// # Errors
    /// [`Error::System`] if our own affinity cannot be read.
    pub fn new(
        variants: Vec<Variant>,
        settings: RunSettings,
        service: Option<Service>,
        counter_reader: Rc<CounterReader>,
        origin_ns: u64,
    ) -> Result<Self> {
        let inherited = affinity::allowed().map_err(Error::system("read the affinity of this process"))?;
        let figures = Figures::new(settings.primary.clone());
        let (notes, succeeded) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self {
            variants,
            settings,
            service,
            counter_reader,
            origin_ns,
            inherited,
            figures,
            notes,
            succeeded,
            switch: None,
            schedulers: None,
            probed_ns: 0,
            mark: None,
            begun: Vec::new(),
            titles: Vec::new(),
        })
    }

    /// Switches the settings of the variants before each run.
    pub(crate) fn with_switch(self, switch: Option<SettingSwitch>) -> Self {
        Self { switch, ..self }
    }

    /// Switches the schedulers of the variants before each run.
    pub(crate) fn with_schedulers(self, schedulers: Option<SchedulerRuns>) -> Self {
        Self { schedulers, ..self }
    }

    /// Marks all processes that are started.
    pub(crate) fn with_mark(self, mark: RunMark, cleanup: Cleanup) -> Self {
        Self { mark: Some((mark, cleanup)), ..self }
    }

    /// Sets the mark of this measurement in the environment of a command.
    fn set_mark(&self, command: &mut Command) {
        if let Some((mark, _)) = &self.mark {
            command.env(RunMark::NAME, mark.value());
        }
    }

    /// Sets what the variants are called in messages.
    pub(crate) fn set_titles(&mut self, titles: impl IntoIterator<Item = String>) {
        self.titles = self.variants.iter().cloned().zip(titles).collect();
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

    /// Gives a service that was running before its CPUs back. Returns what could not be restored.
    pub fn release_service(&mut self) -> Option<String> {
        self.service.as_mut().and_then(Service::release)
    }

    /// Returns the variants.
    pub fn variants(&self) -> &[Variant] {
        &self.variants
    }

    /// Replaces the variants.
    pub fn set_variants(&mut self, variants: Vec<Variant>) {
        self.variants = variants;
    }

    fn service_ns(&self) -> Option<u64> {
        self.service.as_ref().map(Service::cpu_ns)
    }

    fn placement_of(&self, variant: &Variant) -> WorkerCpus {
        match (&self.service, &self.settings.load_cpus) {
            (None, _) => variant.place.clone(),
            (Some(_), Some(cpus)) => WorkerCpus::single(cpus.clone()),
            (Some(_), None) => WorkerCpus::default(),
        }
    }

    fn start(&self, variant: &Variant, place: &WorkerCpus) -> Result<Vec<Job>> {
        let keep = !self.settings.readers.is_empty();
        let one = |copy| {
            let mut command = Command::new(&variant.command[0]);
            command.args(&variant.command[1..]);
            // An environment of its own makes the start of a program slower. Each variant has one, so that a variable
            // of one of them is no difference by itself.
            command.env_clear().envs(std::env::vars_os());
            command.envs(variant.env.iter().map(|(name, value)| (name, value)));
            self.set_mark(&mut command);
            if self.service.is_some() {
                command.env(LOAD_MARKER, std::process::id().to_string());
            }
            let placed = if variant.copies > 1 { place.of_copy(copy).start() } else { place.start() };
            let nice = variant.nice.map(|nice| format!(" with nice {nice}")).unwrap_or_default();
            let start = StartPlacement { nice: variant.nice, ..placed };
            Job::start_with_input(&mut command, &start, keep, self.input()?)
                .map_err(Error::system(format!("start {}{nice}", variant.command[0])))
        };
        (0..variant.copies).map(one).collect()
    }

    /// Opens the standard input of one run.
    fn input(&self) -> Result<Stdio> {
        let Some(path) = &self.settings.input else { return Ok(Stdio::null()) };
        let opened = File::open(path);
        Ok(opened.map_err(Error::system(format!("open {} as standard input", path.display())))?.into())
    }

    /// Waits for all jobs. Returns the time at which each of them ended.
    fn wait(&mut self, jobs: &mut [Job], enforcer: &mut AffinityEnforcer, name: &str) -> Result<Vec<u64>> {
        let roots: Vec<u32> = jobs.iter().map(Job::pid).collect();
        let began = Instant::now();
        let mut ends = vec![0; jobs.len()];
        let mut terminated: Option<Instant> = None;
        loop {
            let pause = enforcer
                .scan(&roots)
                .min(self.service.as_mut().and_then(Service::enforce_affinity).unwrap_or(POLL_INTERVAL))
                .min(POLL_INTERVAL)
                .min(self.settings.timeout.saturating_sub(began.elapsed()).max(Duration::from_millis(1)));
            let mut done = |job: &Job| {
                ends[roots.iter().position(|&pid| pid == job.pid()).unwrap_or(0)] = now_ns();
                enforcer.process_ended(job.pid());
            };
            let all = job::wait(jobs, pause, &mut done).map_err(Error::system(format!("wait for {name}")))?;
            if all && terminated.is_none() {
                return Ok(ends);
            }
            interrupt::check()?;
            if let Some(service) = &mut self.service {
                service.check()?;
            }
            if let Some(schedulers) = &mut self.schedulers {
                schedulers.check_program()?;
            }
            if began.elapsed() < self.settings.timeout {
                continue;
            }
            let since = *terminated.get_or_insert_with(|| {
                for job in jobs.iter() {
                    job.signal(Signal::TERM);
                }
                Instant::now()
            });
            if all || since.elapsed() > GRACE {
                let (command, limit) = (name.to_owned(), self.settings.timeout);
                return Err(Error::Timeout { command, limit, killed: !all });
            }
        }
    }

    /// Runs a variant once and returns its sample.
    fn run_once(&mut self, treatment: usize) -> Result<Sample> {
        let variant = self.variants[treatment].clone();
        let name = crate::format_command(&variant.command);
        let place = self.placement_of(&variant);
        let known: BTreeSet<u32> = tasks::children(std::process::id()).into_iter().collect();
        let enforcer = if variant.copies > 1 { AffinityEnforcer::for_copies } else { AffinityEnforcer::new };
        // Settings may take CPUs offline.
        let own_cpus = affinity::allowed().unwrap_or_else(|_| self.inherited.clone());
        let mut enforcer = enforcer(&place, &own_cpus);
        let sampler = self.observe_sharing(&known)?;
        let before = self.counter_reader.snapshot(&[], now_ns());
        let service_before = self.service_ns();
        let (since, began) = (SystemTime::now(), now_ns());
        let mut jobs = self.start(&variant, &place).inspect_err(|_| drop(self.end_strays(&known)))?;
        let waited = self.wait(&mut jobs, &mut enforcer, &name);
        let service_ns =
            self.service_ns().zip(service_before).map(|(after, before)| after.saturating_sub(before));
        let counters = self.counter_reader.delta(&before, &self.counter_reader.snapshot(&[], now_ns()));
        let shared = sampler.and_then(Sampler::stop);
        if let Err(failure) = waited {
            drop(jobs);
            self.end_strays(&known);
            return Err(failure);
        }
        let ends = waited?;
        self.collect_notes(&name, &enforcer, &known);
        let ended: Vec<JobUsage> = jobs.iter().filter_map(Job::ended).collect();
        let title = self.title_of(&variant);
        let earlier = self.succeeded.entry(title.clone()).or_default();
        check_endings(&jobs, &ended, &self.settings.ignored_failures, &title, *earlier)?;
        *earlier += 1;
        let used = ResourceUsage {
            wall_ns: ends.iter().max().map_or(1, |end| end - began).max(1),
            cpu_ns: ended.iter().map(|end| end.cpu.as_nanos() as u64).sum(),
            max_rss_bytes: ended.iter().map(|end| end.max_rss_bytes).sum(),
            service_ns,
        };
        let sharing = self.sharing_values(&name, shared.as_ref());
        let values = figures(&self.settings.readers, &jobs, &used, since)
            .map(|found| found.into_iter().chain(sharing).collect())
            .and_then(|found| self.figures.ordered(found))
            .map_err(|why| Error::NoFigures { command: name.clone(), why })?;
        let requests = requests(&self.settings.readers, &jobs, since)
            .map_err(|why| Error::NoFigures { command: name.clone(), why })?;
        let each = ends.iter().map(|end| (end - began) as f64 / 1e9);
        Ok(Sample {
            start_ns: began.saturating_sub(self.origin_ns),
            wall_ns: used.wall_ns,
            work: self.figures.work(&values, used.wall_ns, variant.copies),
            per_worker: if variant.copies > 1 { each.collect() } else { Vec::new() },
            exit_codes: exit_codes(&ended),
            values,
            requests,
            counters: CounterDelta {
                cpu_ns: Some(used.cpu_ns + service_ns.unwrap_or(0)),
                system_ns: Some(ended.iter().map(|end| end.system.as_nanos() as u64).sum()),
                ..counters
            },
            ..Sample::default()
        })
    }

    /// Begins to observe what the tasks of a run share: those of the service if there is one, otherwise those of the
    /// command, whose processes are no children yet.
    fn observe_sharing(&self, known: &BTreeSet<u32>) -> Result<Option<Sampler>> {
        let roots = || match &self.service {
            Some(service) => service.watched(),
            None => WatchedRoots::ChildrenOf { pid: std::process::id(), except: known.clone() },
        };
        self.settings.sharing.as_ref().map(|meter| meter.start(roots())).transpose()
    }

    /// Returns the metrics of what the tasks of a run shared, and notes what the user should know about them.
    fn sharing_values(&mut self, name: &str, shared: Option<&Sharing>) -> Vec<(Metric, f64)> {
        let Some(meter) = &self.settings.sharing else { return Vec::new() };
        self.notes.extend(meter.note(name, shared));
        meter.values(shared)
    }

    /// Measures the speed of the machine, unless that was done just before.
    fn probe(&mut self) -> Option<u64> {
        let now = now_ns();
        if now - self.probed_ns < PROBE_INTERVAL.as_nanos() as u64 {
            return None;
        }
        let taken = speed::probe_ns();
        self.probed_ns = now_ns();
        Some(taken)
    }

    /// Ends the processes that the command left running. Processes of a service that goes into the background
    /// may become our children in the middle of a run. With a service, only processes that were started as
    /// the load are therefore ended.
    fn end_strays(&self, known: &BTreeSet<u32>) -> Vec<String> {
        let mark = load_mark();
        job::end_leftover_processes(known, &|pid| {
            self.service.is_none() || tasks::has_environment(pid, &mark)
        })
    }

    fn collect_notes(&mut self, name: &str, enforcer: &AffinityEnforcer, known: &BTreeSet<u32>) {
        for (task, cpus) in enforcer.own_affinities() {
            let what = if enforcer.is_planned(cpus) {
                "these are within the placement and are kept"
            } else {
                "the placement does not apply to it"
            };
            self.notes.insert(format!("{name}: {task} set its own affinity to CPUs {cpus}; {what}"));
        }
        for stray in self.end_strays(known) {
            self.notes.insert(format!("{name} left a process running ({stray}); it was ended"));
        }
    }
}

/// Returns the exit statuses if at least one command failed; empty if all of them succeeded.
fn exit_codes(ended: &[JobUsage]) -> Vec<i32> {
    let failed = ended.iter().any(|end| !end.status.success());
    if failed { ended.iter().map(|end| exit_code(end.status)).collect() } else { Vec::new() }
}

fn check_endings(
    jobs: &[Job],
    ended: &[JobUsage],
    ignored: &IgnoredFailures,
    name: &str,
    earlier: usize,
) -> Result {
    let failed = jobs.iter().zip(ended).find(|(_, end)| !ignored.counts(end.status));
    failed.map_or(Ok(()), |(job, end)| {
        Err(Error::CommandFailed {
            command: name.to_owned(),
            earlier,
            status: end.status,
            output: job.last_stderr_line(),
        })
    })
}

impl Subject for CommandSubject {
    type Error = Error;

    fn measure(&mut self, treatment: usize) -> Result<Sample> {
        interrupt::check()?;
        let switch_ns = self.before(treatment)?;
        if let Some(service) = &mut self.service {
            service.place(&self.variants[treatment].place, &self.inherited)?;
        }
        self.settings.readers.iter().for_each(MetricReader::before_run);
        let probe_ns = self.probe();
        let sample = self.run_once(treatment);
        let concluded = self.after(treatment);
        let sample = match (sample, concluded) {
            // A command may fail because its scheduler was gone.
            (Err(error), Err(gone @ Error::Scheduler(_))) if !matches!(error, Error::Interrupted) => {
                return Err(gone);
            }
            (sample, concluded) => {
                let sample = sample?;
                concluded.map(|()| Sample { probe_ns, switch_ns, ..sample })?
            }
        };
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

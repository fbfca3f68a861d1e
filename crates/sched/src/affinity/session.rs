//! Samples, decides and changes affinities once per interval, until the work has ended or a signal is received.

use super::{
    decision::{Action, AffinityStep, DecisionState, Limits, decide},
    sampler::{Finding, Sample, ThreadSampler},
    sources::ProcessSource,
    totals::{AffinityTotals, IntervalReport},
    units::{LEVELS, Units, default_level},
};
use crate::{
    error::{Error, Result},
    run::{FixedPolicy, Target, TargetPolicy},
    turn::{self, Turn},
};
use manycore_control::{
    journal::UndoResult,
    placement::{ConfinedThreads, FollowedCommand, SignalSource},
};
use manycore_linux::{
    affinity,
    proc_events::{ProcEventBatch, ProcEvents},
    tasks,
};
use manycore_topology::{CpuSet, Level, Machine, SysTree};
use rustix::{
    io::Errno,
    time::{ClockId, clock_gettime},
};
use std::{
    collections::BTreeSet,
    io::{self, ErrorKind},
    path::Path,
    process::ExitStatus,
    time::{Duration, Instant},
};

/// An interval is this many times as long as the CPU time that the one before took, if that is longer than requested: with
/// very many threads, the session uses 1 % of a CPU.
const MAX_CPU_FRACTION: u32 = 100;

/// Maximum time by which intervals grow for that reason.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// What to keep spread or packed.
#[derive(Clone, Debug)]
pub struct AffinityRequest {
    /// The work, at most one command among it. Work that belongs to several groups is in the first one.
    pub groups: Vec<TargetPolicy>,
    /// What a unit is; by default that of `default_level`.
    pub level: Option<Level>,
    /// Time between two samples.
    pub interval: Duration,
    /// A description of the request for a reader of the journal.
    pub what: String,
}

/// Something that is reported while a session runs.
#[derive(Clone, Debug, PartialEq)]
pub enum AffinityEvent {
    /// An interval is over.
    Interval(IntervalReport),
    /// Another program has changed the affinity of a thread, or the thread itself has: it is left alone.
    LeftAlone {
        /// Name and ids of the thread.
        thread: String,
        /// The CPUs that it has now.
        cpus: CpuSet,
    },
    /// The kernel refuses to change the affinity of a thread, so it is left alone.
    Refused {
        /// Name and ids of the thread.
        thread: String,
        /// Why.
        why: String,
    },
    /// CPUs went offline or came online.
    UnitsChanged {
        /// The number of units now.
        units: usize,
    },
}

/// Receives what happens in a session.
pub trait AffinityObserver {
    /// Takes an event.
    fn event(&mut self, event: &AffinityEvent);
}

/// How a session ended.
#[derive(Debug)]
pub struct AffinityEnd {
    /// What was done.
    pub totals: AffinityTotals,
    /// What was restored.
    pub restored: Result<UndoResult, manycore_control::Error>,
    /// Name of the journal, by which changes that could not be restored can be undone later.
    pub journal: String,
    /// The exit status of the command, if there was one and it has ended; or an error of waiting.
    pub status: Result<Option<ExitStatus>>,
}

/// Work whose threads are kept spread or packed.
pub struct AffinitySession {
    units: Units,
    online: Option<CpuSet>,
    sources: Vec<ProcessSource>,
    policies: Vec<FixedPolicy>,
    command: Option<FollowedCommand>,
    interval: Duration,
    limits: Limits,
    state: DecisionState,
    sampler: ThreadSampler,
    created: ProcEvents,
    threads: ConfinedThreads,
    totals: AffinityTotals,
    began: Instant,
    cost_before: Duration,
}

/// Starts the command, if there is one. Nothing is left in the journal if that fails.
fn start_command(
    words: Option<&[String]>,
    threads: ConfinedThreads,
) -> Result<(Option<FollowedCommand>, ConfinedThreads)> {
    match words.map(|words| FollowedCommand::start(words, &threads)).transpose() {
        Ok(command) => Ok((command, threads)),
        Err(error) => {
            threads.restore()?;
            Err(error.into())
        }
    }
}

impl AffinitySession {
    /// Finds the work on `machine`, which is this one, and starts the command if there is one. No affinity is changed yet.
    ///
    /// # Errors
    /// [`Error::NoTarget`], [`Error::AutoPolicy`], [`Error::OneUnit`]; [`Error::NotPermitted`] if no process of the work
    /// may be moved; those of finding the work, of the journal, and of starting the command.
    pub fn begin(machine: &Machine, request: &AffinityRequest) -> Result<Self> {
        let policies = request.groups.iter().map(|group| group.policy.fixed().ok_or(Error::AutoPolicy));
        let policies = policies.collect::<Result<Vec<FixedPolicy>>>()?;
        if request.groups.is_empty() {
            return Err(Error::NoTarget);
        }
        let units = units(machine, request.level)?;
        let sources = request.groups.iter().map(|group| ProcessSource::find(&group.target));
        let sources = sources.collect::<Result<Vec<ProcessSource>>>()?;
        let words = request.groups.iter().find_map(|group| match &group.target {
            Target::Command(words) => Some(words),
            _ => None,
        });
        if words.is_none() {
            check_permission(&sources)?;
        }
        let cost_before = cpu_time();
        let threads = ConfinedThreads::begin("sched", &request.what)?;
        let (command, threads) = start_command(words.map(Vec::as_slice), threads)?;
        Ok(Self {
            units,
            online: affinity::online(),
            sources,
            policies,
            command,
            interval: request.interval,
            limits: Limits::default(),
            state: DecisionState::default(),
            sampler: ThreadSampler::new(),
            created: ProcEvents::poll(),
            threads,
            totals: AffinityTotals::default(),
            began: Instant::now(),
            cost_before,
        })
    }

    /// Returns the units over which threads are spread.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// Returns the name of the journal.
    pub fn journal_id(&self) -> String {
        self.threads.journal_id()
    }

    /// Keeps the threads spread or packed until the command or all named processes have ended, or, without a command, a
    /// signal is received. A command gets the signals. Restores all affinities at the end.
    pub fn run(mut self, signals: &dyn SignalSource, observer: &mut dyn AffinityObserver) -> AffinityEnd {
        let status = self.follow(signals, observer);
        self.totals.elapsed = self.began.elapsed();
        self.totals.cost = cpu_time().saturating_sub(self.cost_before);
        self.totals.changed_threads = self.threads.changed();
        let journal = self.threads.journal_id();
        let restored = self.threads.restore();
        AffinityEnd { totals: self.totals, restored, journal, status }
    }

    /// Returns the exit status of the command, if there is one.
    fn follow(
        &mut self,
        signals: &dyn SignalSource,
        observer: &mut dyn AffinityObserver,
    ) -> Result<Option<ExitStatus>> {
        self.discover();
        self.sampler.sample(&self.units, &self.limits);
        let mut last = Instant::now();
        let mut pause = self.interval;
        loop {
            let left = pause.saturating_sub(last.elapsed());
            if let Turn::End(status) = turn::wait(self.command.as_ref(), signals, left)? {
                return Ok(status);
            }
            if last.elapsed() < pause {
                continue;
            }
            if self.command.is_none() && self.sources.iter().all(ProcessSource::has_ended) {
                return Ok(None);
            }
            let before = cpu_time();
            last = Instant::now();
            let report = self.step(observer);
            let cost = cpu_time().saturating_sub(before);
            let report = IntervalReport { at: self.began.elapsed(), cost, ..report };
            self.totals.add(&report);
            observer.event(&AffinityEvent::Interval(report));
            pause = self.interval.max((cost * MAX_CPU_FRACTION).min(MAX_INTERVAL));
        }
    }

    /// Samples all threads, and moves those that have to be moved.
    fn step(&mut self, observer: &mut dyn AffinityObserver) -> IntervalReport {
        self.follow_hotplug(observer);
        if self.created.next_batch() != ProcEventBatch::None {
            self.discover();
        }
        let Sample { readings, foreign, findings } = self.sampler.sample(&self.units, &self.limits);
        for finding in findings {
            match finding {
                Finding::ChoseCpus { thread, cpus } => observer
                    .event(&AffinityEvent::LeftAlone { thread: describe(thread.pid, thread.tid), cpus }),
                Finding::Displaced { tid } => self.reset(tid, observer),
            }
        }
        let decision =
            decide(&self.units, &readings, &foreign, &self.policies, &self.limits, &mut self.state);
        let mut report = IntervalReport::new(&decision, self.sampler.len(), self.units.all.len());
        report.steps = decision.steps.into_iter().filter(|step| self.apply(step, observer)).collect();
        report
    }

    /// Searches for new processes and threads.
    fn discover(&mut self) {
        let own = self.threads.own_processes();
        for (group, source) in self.sources.iter().enumerate() {
            let known = self.sampler.processes_of(group);
            let mut processes = source.processes(self.command.as_ref(), &known);
            processes.retain(|pid| !own.contains(pid));
            self.sampler.discover(group, &processes);
        }
    }

    /// Reads the units again if CPUs have gone offline or come online.
    fn follow_hotplug(&mut self, observer: &mut dyn AffinityObserver) {
        let online = affinity::online();
        if online == self.online {
            return;
        }
        let machine = SysTree::open(Path::new("/")).and_then(|tree| manycore_topology::read(&tree));
        // CPUs may be changing while they are read: then the next interval tries again.
        let Ok(machine) = machine else { return };
        self.online = online;
        self.units = Units::of(&machine, self.units.level);
        self.state.forget_units();
        observer.event(&AffinityEvent::UnitsChanged { units: self.units.all.len() });
    }

    /// Gives a thread its own CPUs, which it has lost without its doing.
    fn reset(&mut self, tid: u32, observer: &mut dyn AffinityObserver) {
        let Some((_, _, original, _)) = self.sampler.change(tid) else { return };
        self.apply(&AffinityStep { tid, action: Action::Release, cpus: original }, observer);
    }

    /// Changes the affinity of a thread. Returns whether that was possible.
    fn apply(&mut self, step: &AffinityStep, observer: &mut dyn AffinityObserver) -> bool {
        let Some((thread, now, original, inherited)) = self.sampler.change(step.tid) else { return false };
        match self.threads.set(thread, &now, &step.cpus, &original, &inherited) {
            Ok(()) => {
                self.sampler.changed(step.tid, &step.cpus);
                true
            }
            Err(error) if has_ended(&error) => false,
            Err(error) => {
                let is_final = is(&error, Errno::PERM);
                if self.sampler.refused(step.tid, is_final) {
                    let thread = describe(thread.pid, thread.tid);
                    observer.event(&AffinityEvent::Refused { thread, why: error.to_string() });
                }
                false
            }
        }
    }
}

/// Returns the units of a machine that has several.
fn units(machine: &Machine, level: Option<Level>) -> Result<Units> {
    let level = level.unwrap_or_else(|| default_level(machine));
    let units = Units::of(machine, level);
    if units.all.len() > 1 {
        return Ok(units);
    }
    let has_several = |level: &Level| Units::of(machine, *level).all.len() > 1;
    Err(Error::OneUnit { level, others: LEVELS.into_iter().filter(has_several).collect() })
}

/// Checks that some process of the work may be moved.
fn check_permission(sources: &[ProcessSource]) -> Result {
    let processes: BTreeSet<u32> = sources.iter().flat_map(|source| source.processes(None, &[])).collect();
    let Some(&first) = processes.first() else { return Ok(()) };
    if processes.into_iter().any(affinity::may_restrict) {
        return Ok(());
    }
    Err(Error::NotPermitted { process: format!("{} (pid {first})", tasks::name(first).unwrap_or_default()) })
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn describe(pid: u32, tid: u32) -> String {
    let name = tasks::thread_name(pid, tid).unwrap_or_else(|| "a thread".to_owned());
    if pid == tid { format!("{name} (pid {pid})") } else { format!("{name} (thread {tid} of process {pid})") }
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || is(error, Errno::SRCH)
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{affinity::tests::machine, run::Policy};
    use manycore_topology::synthetic::MachineSpec;

    fn request(target: Target, policy: Policy) -> AffinityRequest {
        let groups = vec![TargetPolicy { target, policy }];
        AffinityRequest { groups, level: None, interval: Duration::from_secs(1), what: "a test".to_owned() }
    }

    #[test]
    fn requests_that_cannot_be_met_are_refused_before_anything_is_changed() {
        let one = machine(&MachineSpec::default());
        let two = machine(&MachineSpec { clusters: 2, ..MachineSpec::default() });
        let begin = |machine, request| AffinitySession::begin(machine, &request).err();
        let this = || Target::Process(std::process::id());
        let error = begin(&one, request(this(), Policy::Spread));
        let Some(Error::OneUnit { level: Level::Llc, others }) = &error else { unreachable!("{error:?}") };
        assert_eq!(others, &[Level::Core]);
        let said = error.as_ref().map(ToString::to_string).unwrap();
        assert!(
            said.contains("only one last-level cache") && said.contains("it has several cores"),
            "{said}"
        );
        assert!(matches!(begin(&two, request(this(), Policy::Auto)), Some(Error::AutoPolicy)));
        let nothing = AffinityRequest { groups: Vec::new(), ..request(this(), Policy::Pack) };
        assert!(matches!(begin(&two, nothing), Some(Error::NoTarget)));
        let gone = request(Target::Process(0x7fff_fff0), Policy::Pack);
        let error = begin(&two, gone);
        assert!(matches!(error, Some(Error::Control(manycore_control::Error::NoProcess(_)))), "{error:?}");
        let cgroup = request(Target::Cgroup("/no/such".to_owned()), Policy::Pack);
        assert!(matches!(begin(&two, cgroup), Some(Error::Target(_))));
    }
}

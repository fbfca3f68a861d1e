//! Keeps our scheduler in force until a signal or the end of the work, and reports what it does.

mod auto;
mod groups;
mod progress;
pub mod text;

pub use auto::{AutoDecision, AutoOutcome};

use crate::{
    affinity::ProcessSource,
    counters::Counters,
    engine::{NAME, Removal, Scheduler},
    error::{Error, Result},
    run::{FixedPolicy, Policy, Target, TargetPolicy},
    turn::{self, Turn},
};
use auto::AutoPolicy;
use groups::GroupPolicies;
use manycore_control::{
    journal::UndoResult,
    placement::{ConfinedThreads, FollowedCommand, SignalSource},
};
use manycore_linux::{
    scheduling_class::{self, EXT},
    tasks,
};
use manycore_topology::{Machine, SysTree};
use progress::ProgressCommand;
use std::{
    collections::BTreeSet,
    path::Path,
    process::ExitStatus,
    time::{Duration, Instant},
};

/// The scheduler is loaded again after CPUs have come or gone, so often without an interval in between.
const RELOADS: usize = 20;
/// Longest time between two looks whether the scheduler is in force.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// Looks for new tasks at the end, at most.
const LAST_LOOKS: usize = 20;

/// What to schedule, and how.
#[derive(Clone, Debug)]
pub struct ServiceRequest {
    /// The policy of all tasks that belong to no group.
    pub policy: Policy,
    /// Work with a policy of its own. With processes or a command among it, only these are scheduled by our scheduler,
    /// and all others by the kernel's own.
    pub groups: Vec<TargetPolicy>,
    /// Time between two reports.
    pub interval: Duration,
    /// A command that prints a number that grows with the work done, for [`Policy::Auto`].
    pub progress: Option<Vec<String>>,
    /// A description of the request for a reader of the journal.
    pub what: String,
}

/// Something that is reported while the scheduler is in force.
#[derive(Clone, Debug)]
pub enum ServiceEvent {
    /// The scheduler is in force.
    Loaded {
        /// Clusters, and last-level caches, of this machine.
        clusters: usize,
        /// The number of tasks that it schedules; `None` for all.
        tasks: Option<usize>,
    },
    /// An interval is over.
    Interval(ServiceReport),
    /// CPUs have come or gone, so the kernel has removed the scheduler, and it is loaded again.
    Reloaded(String),
    /// A control group with a policy has ended.
    GroupGone(String),
    /// Something about spread or pack was measured.
    Auto(AutoDecision),
    /// A process could not be scheduled by our scheduler.
    Refused {
        /// The process.
        pid: u32,
        /// Why.
        why: String,
    },
}

/// What the scheduler did in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceReport {
    /// Time since the scheduler was loaded.
    pub at: Duration,
    /// Length of the interval.
    pub length: Duration,
    /// The CPUs of each cluster, and what was counted in it.
    pub clusters: Vec<(usize, Counters)>,
}

/// Receives what happens.
pub trait ServiceObserver {
    /// Takes an event.
    fn event(&mut self, event: &ServiceEvent);
}

/// How the service ended.
#[derive(Debug)]
pub struct ServiceEnd {
    /// What was restored.
    pub restored: Result<UndoResult, manycore_control::Error>,
    /// Name of the journal, by which changes that could not be restored can be undone later.
    pub journal: String,
    /// The exit status of the command, if there was one and it has ended; [`Error::Removed`] if the kernel has removed the
    /// scheduler, or another reason for an early end.
    pub status: Result<Option<ExitStatus>>,
}

/// Our scheduler in force.
pub struct SchedulerService {
    tree: SysTree,
    /// Removed first.
    scheduler: Scheduler,
    policy: FixedPolicy,
    interval: Duration,
    groups: GroupPolicies,
    /// Processes that are scheduled by our scheduler; empty if it schedules all.
    sources: Vec<ProcessSource>,
    scheduled: BTreeSet<(u32, u64)>,
    known: BTreeSet<u32>,
    refused: BTreeSet<u32>,
    command: Option<FollowedCommand>,
    auto: Option<AutoPolicy>,
    tasks: ConfinedThreads,
    began: Instant,
}

/// Notes in the journal that the scheduler is ours, and loads it. Nothing is left in the journal if that fails.
fn load(
    threads: ConfinedThreads,
    policy: FixedPolicy,
    scheduler: impl FnOnce() -> Result<Scheduler>,
) -> Result<(Scheduler, ConfinedThreads)> {
    let noted = threads.own_scheduler(&format!("{NAME}_{}", policy.word()));
    match noted.map_err(Error::from).and_then(|()| scheduler()) {
        Ok(scheduler) => Ok((scheduler, threads)),
        Err(error) => {
            threads.restore()?;
            Err(error)
        }
    }
}

impl SchedulerService {
    /// Loads the scheduler, and starts the command if there is one.
    ///
    /// # Errors
    /// Those of [`Scheduler::load`], of finding the work, of the journal, and of starting the command; then nothing is
    /// changed. [`Error::NoProgress`] and [`Error::SeveralAuto`] for a policy that cannot be measured.
    pub fn begin(machine: &Machine, request: &ServiceRequest) -> Result<Self> {
        let tree = SysTree::open(Path::new("/"))?;
        let auto = AutoPolicy::of(request)?;
        let policy = request.policy.fixed().unwrap_or_default();
        let (cgroups, processes): (Vec<_>, Vec<_>) =
            request.groups.iter().partition(|group| matches!(group.target, Target::Cgroup(_)));
        let groups = GroupPolicies::find(&cgroups)?;
        let sources =
            processes.iter().map(|group| ProcessSource::find(&group.target)).collect::<Result<Vec<_>>>()?;
        let threads = ConfinedThreads::begin("sched", &request.what)?;
        let (scheduler, threads) =
            load(threads, policy, || Scheduler::load(&tree, machine, policy, !sources.is_empty()))?;
        let mut service = Self {
            tree,
            scheduler,
            policy,
            interval: request.interval,
            groups,
            sources,
            scheduled: BTreeSet::new(),
            known: BTreeSet::new(),
            refused: BTreeSet::new(),
            command: None,
            auto,
            tasks: threads,
            began: Instant::now(),
        };
        match service.start(request) {
            Ok(()) => Ok(service),
            Err(error) => {
                service.finish()?;
                Err(error)
            }
        }
    }

    /// Starts the command, with the class of loaded schedulers, which it inherits.
    fn start(&mut self, request: &ServiceRequest) -> Result {
        let words = request.groups.iter().find_map(|group| match &group.target {
            Target::Command(words) => Some(words),
            _ => None,
        });
        if let Some(words) = words {
            let own = scheduling_class::of(0).map_err(Error::SchedulingClass)?;
            // A real-time class cannot be restored so: that fails before the command is started.
            scheduling_class::set(0, own).map_err(Error::SchedulingClass)?;
            scheduling_class::set(0, EXT).map_err(Error::SchedulingClass)?;
            let started = FollowedCommand::start(words, &self.tasks);
            scheduling_class::set(0, own).map_err(Error::SchedulingClass)?;
            self.command = Some(started?);
        }
        self.apply_groups(&mut |_| {})
    }

    /// Keeps the scheduler in force until the command or all named processes have ended, or, without a command, a signal
    /// is received. A command gets the signals. The kernel's own scheduler is in force at the end, and all is restored.
    pub fn run(mut self, signals: &dyn SignalSource, observer: &mut dyn ServiceObserver) -> ServiceEnd {
        let status = self.follow(signals, observer);
        let journal = self.tasks.journal_id();
        ServiceEnd { status, restored: self.finish(), journal }
    }

    /// Removes the scheduler, and restores the classes of tasks.
    fn finish(mut self) -> Result<UndoResult, manycore_control::Error> {
        // Until no task was created since the look before.
        for _ in 0..LAST_LOOKS {
            if self.adopt(&mut |_| {}) == 0 {
                break;
            }
        }
        self.scheduler.remove();
        self.tasks.restore()
    }

    fn follow(
        &mut self,
        signals: &dyn SignalSource,
        observer: &mut dyn ServiceObserver,
    ) -> Result<Option<ExitStatus>> {
        self.adopt(&mut |event| observer.event(&event));
        let tasks = (!self.sources.is_empty()).then_some(self.scheduled.len());
        let clusters = self.scheduler.layout().clusters.len();
        observer.event(&ServiceEvent::Loaded { clusters, tasks });
        let (mut last, mut before, mut reloads) = (Instant::now(), self.scheduler.counters(), 0);
        let step = if self.auto.is_some() { AutoPolicy::tick() } else { LONGEST_STEP };
        let mut next_auto = Instant::now();
        loop {
            let left = step.min(self.interval.saturating_sub(last.elapsed()));
            if let Turn::End(status) = turn::wait(self.command.as_ref(), signals, left)? {
                return Ok(status);
            }
            if let Some(removal) = self.scheduler.removal() {
                reloads += 1;
                self.reload(removal, reloads, observer)?;
                (last, before) = (Instant::now(), self.scheduler.counters());
                next_auto = last + AutoPolicy::tick();
            }
            if Instant::now() >= next_auto
                && let Some(auto) = &mut self.auto
            {
                let (pause, decision) = auto.step(&self.scheduler, &mut self.groups)?;
                next_auto = Instant::now() + pause;
                if let Some(decision) = decision {
                    observer.event(&ServiceEvent::Auto(decision));
                }
            }
            if last.elapsed() < self.interval {
                continue;
            }
            if self.command.is_none()
                && !self.sources.is_empty()
                && self.sources.iter().all(ProcessSource::has_ended)
            {
                return Ok(None);
            }
            self.adopt(&mut |event| observer.event(&event));
            self.apply_groups(&mut |event| observer.event(&event))?;
            let now = self.scheduler.counters();
            let sizes = self.scheduler.layout().clusters.iter().map(|cluster| cluster.cpus.len());
            let clusters =
                sizes.zip(now.iter().zip(&before).map(|(now, before)| now.since(before))).collect();
            let report = ServiceReport { at: self.began.elapsed(), length: last.elapsed(), clusters };
            observer.event(&ServiceEvent::Interval(report));
            (last, before, reloads) = (Instant::now(), now, 0);
        }
    }

    /// Loads the scheduler again if the kernel has removed it because CPUs have come or gone.
    fn reload(&mut self, removal: Removal, reloads: usize, observer: &mut dyn ServiceObserver) -> Result {
        if !removal.may_restart || reloads > RELOADS {
            return Err(Error::Removed(removal.reason));
        }
        let machine = manycore_topology::read(&self.tree)?;
        match Scheduler::load(&self.tree, &machine, self.policy, !self.sources.is_empty()) {
            Ok(scheduler) => self.scheduler = scheduler,
            // More CPUs have come or gone meanwhile; the next turn tries again.
            Err(Error::Bpf(_)) if reloads < RELOADS => return Ok(()),
            Err(error) => return Err(error),
        }
        self.groups.forget();
        if let Some(auto) = &mut self.auto {
            auto.resume(&self.scheduler, &mut self.groups)?;
        }
        self.apply_groups(&mut |event| observer.event(&event))?;
        observer.event(&ServiceEvent::Reloaded(removal.reason));
        Ok(())
    }

    /// Gives new tasks of the named processes the class of loaded schedulers, and returns their number.
    fn adopt(&mut self, report: &mut dyn FnMut(ServiceEvent)) -> usize {
        let mut adopted = 0;
        let known: Vec<u32> = self.known.iter().copied().filter(|pid| tasks::is_alive(*pid)).collect();
        let own = self.tasks.own_processes();
        let processes =
            self.sources.iter().flat_map(|source| source.processes(self.command.as_ref(), &known));
        let processes: BTreeSet<u32> = processes.filter(|pid| !own.contains(pid)).collect();
        for &pid in &processes {
            let is_child = || tasks::parent(pid).is_some_and(|parent| processes.contains(&parent));
            let inherits = self.known.contains(&pid) || self.command.is_some() || is_child();
            for tid in tasks::threads(pid) {
                let Some(start) = tasks::start_time(tid) else { continue };
                if self.scheduled.contains(&(tid, start)) {
                    continue;
                }
                match self.tasks.schedule_by_loaded(tid, inherits) {
                    Ok(true) => {
                        self.scheduled.insert((tid, start));
                        adopted += 1;
                    }
                    Err(error) if tasks::start_time(tid).is_some() && self.refused.insert(pid) => {
                        report(ServiceEvent::Refused { pid, why: error.to_string() });
                    }
                    Ok(false) | Err(_) => {}
                }
            }
        }
        self.scheduled.retain(|(tid, start)| tasks::start_time(*tid) == Some(*start));
        self.known = processes;
        adopted
    }

    /// Sets the policies of control groups that are new below the named ones.
    fn apply_groups(&mut self, report: &mut dyn FnMut(ServiceEvent)) -> Result {
        self.groups.apply(&self.scheduler)?;
        for gone in self.groups.take_gone() {
            report(ServiceEvent::GroupGone(gone));
        }
        Ok(())
    }
}

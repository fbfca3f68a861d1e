//! Makes a plan from the command line and applies it. Used by `run` and `pin`.

use crate::error::{Error, Result};
use crate::placement::{AffinityEnforcer, PlacementJournal, WorkerCpus, memory_policy, worker_cpus};
use crate::{
    cpuset,
    journal::{self, Journal, UndoResult},
};
use manycore_linux::{affinity, realtime, tasks};
use manycore_placement::{MemoryPlacement, PlacementPlan, PlacementTrace, Policy, Reserve};
use manycore_topology::{CpuSet, Machine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::BorrowedFd,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Lifetime after which a command is moved into a control group. A command that ends earlier is held by its
/// affinity alone, because entering a control group takes a grace period of the kernel.
const CGROUP_DELAY: Duration = Duration::from_millis(100);

/// Rounds of searching for children that were created while their parents entered a group.
const ENTER_ROUNDS: usize = 3;

/// A plan for this machine, resolved to CPU sets.
pub struct ResolvedPlacement {
    /// Returns this machine.
    pub machine: Machine,
    /// The plan.
    pub plan: PlacementPlan,
    /// CPUs of each worker.
    pub workers: WorkerCpus,
    /// CPUs that this process may use, and with it every process that is started without a placement.
    pub own_cpus: CpuSet,
    /// The requested memory policy.
    pub memory: MemoryPlacement,
    /// What holds the tasks beside their affinities.
    pub enforcement: Enforcement,
}

/// A requested placement.
#[derive(Clone, Debug)]
pub struct PlacementRequest {
    /// A finished plan, such as one from a file; without one, a plan is made from the fields below.
    pub plan: Option<PlacementPlan>,
    /// The policy requested.
    pub policy: Policy,
    /// Number of workers; as many as the policy has room for where it is absent.
    pub workers: Option<usize>,
    /// CPUs that are kept free.
    pub reserve: Reserve,
    /// Whether each worker must have CPUs of its own.
    pub exclusive: bool,
    /// The memory policy.
    pub memory: MemoryPlacement,
    /// What holds the tasks beside their affinities.
    pub enforcement: Enforcement,
}

/// What holds tasks on their CPUs beside their affinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// A cpuset, where one can be had.
    Auto,
    /// Nothing.
    Affinity,
}

impl ResolvedPlacement {
    /// Pins the processes even if the plan has all CPUs of this process. For processes that may use other
    /// CPUs than this one.
    pub fn pin_everywhere(self) -> Self {
        let workers = self.plan.workers.iter().map(|worker| worker.cpus.clone()).collect();
        Self { workers: WorkerCpus { workers, ..self.workers }, ..self }
    }
}

/// Resolves a request on `machine`, which is this one.
///
/// # Errors
/// [`Error::Invalid`] where the request cannot be met here, [`Error::Unavailable`] where our own affinity cannot be read.
pub fn resolve_placement(machine: Machine, request: PlacementRequest) -> Result<ResolvedPlacement> {
    let PlacementRequest { plan, policy, workers, reserve, exclusive, memory, enforcement: hold } = request;
    let plan = match plan {
        Some(plan) => plan,
        None => {
            let workers = match workers {
                Some(count) => count,
                None => policy.capacity(&machine, &reserve).map_err(Error::invalid)?,
            };
            policy.plan(&machine, workers, &reserve).map_err(Error::invalid)?
        }
    };
    if exclusive {
        plan.check_exclusive().map_err(Error::invalid)?;
    }
    let place = worker_cpus(&machine, &plan, memory_policy(&machine, &memory, &plan)?);
    let inherited = affinity::allowed()
        .map_err(|error| Error::unavailable(format!("cannot read our own affinity: {error}")))?;
    Ok(ResolvedPlacement { machine, plan, workers: place, own_cpus: inherited, memory, enforcement: hold })
}

/// Opens a journal for `verb`.
///
/// # Errors
/// [`Error::Unavailable`]: without one nothing must be changed.
pub fn open_journal(verb: &str, what: &str, stays: bool) -> Result<Arc<Journal>> {
    let folder = journal::folder();
    Journal::begin(&folder, verb, what, stays).map(Arc::new).map_err(|error| {
        Error::unavailable(format!(
            "cannot write a journal in {}: {error}; nothing was changed",
            folder.display()
        ))
    })
}

/// Enforces a placement on processes until they end.
pub struct PlacementSession {
    enforcer: AffinityEnforcer,
    journal: Arc<Journal>,
    began: Instant,
    hold: CgroupState,
    nodes: CpuSet,
    cpus: CpuSet,
}

/// What holds the processes on their CPUs.
enum CgroupState {
    /// Affinities alone, with the reason; or a control group, with the processes in it.
    Settled(String),
    /// A control group, once the command has run for [`SETTLED`].
    Pending,
    /// A control group that is being entered. The thread returns a description of the result.
    Entering(JoinHandle<Result<String, String>>),
}

impl PlacementSession {
    /// Starts enforcing `aim` for `subject`, with changes recorded in `journal`.
    pub fn new(aim: &ResolvedPlacement, journal: Arc<Journal>, subject: String) -> Self {
        let recorder = PlacementJournal::new(
            Arc::clone(&journal),
            &aim.machine,
            aim.plan.clone(),
            subject,
            aim.own_cpus.clone(),
        );
        let keeper = AffinityEnforcer::new(&aim.workers, &aim.own_cpus).with_journal(recorder);
        let nodes = match aim.memory {
            MemoryPlacement::Bind(_) => aim.memory.nodes(&aim.plan).into_iter().collect(),
            _ => CpuSet::new(),
        };
        let hold = match (aim.enforcement, aim.workers.cpus()) {
            (Enforcement::Affinity, _) => CgroupState::Settled("affinities alone, as asked for".to_owned()),
            (Enforcement::Auto, None) if nodes.is_empty() => {
                CgroupState::Settled("nothing: all CPUs may be used".to_owned())
            }
            (Enforcement::Auto, _) => CgroupState::Pending,
        };
        let cpus = aim.workers.cpus().unwrap_or_else(|| aim.own_cpus.clone());
        Self { enforcer: keeper, journal, began: Instant::now(), hold, nodes, cpus }
    }

    /// Returns why not all tasks could be moved; `None` if all were moved.
    pub fn first_failure(&mut self) -> Option<String> {
        let broken = self.enforcer.journal().and_then(|recorder| recorder.journal_error().map(str::to_owned));
        if let Some(error) = broken {
            return Some(format!("cannot write the journal: {error}"));
        }
        if let Some((name, why)) = self.enforcer.refused().first_key_value() {
            let others = self.enforcer.refused().len() - 1;
            let more = if others == 0 { String::new() } else { format!(", and {others} more") };
            return Some(format!("{name} cannot be moved: {why}{more}"));
        }
        self.enforcer.processes().next().is_none().then(|| "it has ended".to_owned())
    }

    /// Returns the affinity enforcer.
    pub fn enforcer(&mut self) -> &mut AffinityEnforcer {
        &mut self.enforcer
    }

    /// Gives this process real-time priority, so that new tasks are pinned without delay even if CPUs are
    /// busy. To be called after the command has started, because the command must not inherit the priority.
    pub fn raise_priority(&self) {
        realtime::request();
    }

    /// Scans all processes below `roots` once. Then waits for an event, a signal or the end of the process
    /// of `pidfd`, but not longer than `longest`. Returns whether the process has ended.
    ///
    /// # Errors
    /// [`Failure::Missing`] with an error of `poll(2)`.
    pub fn wait(
        &mut self,
        roots: &dyn Fn() -> Vec<u32>,
        pidfd: BorrowedFd,
        wake: BorrowedFd,
        longest: Duration,
    ) -> Result<bool> {
        self.update_cgroup(roots);
        let pause = self.enforcer.scan_below(roots).min(longest);
        let limit = Timespec::try_from(pause).unwrap_or_default();
        let descriptors = [pidfd, wake];
        let mut descriptors = descriptors.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).to_vec();
        let births = self.enforcer.descriptor();
        descriptors.extend(births.map(|births| PollFd::from_borrowed_fd(births, PollFlags::IN)));
        match poll(&mut descriptors, Some(&limit)) {
            Ok(_) => Ok(!descriptors[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Error::unavailable(format!("cannot wait: {error}"))),
        }
    }

    /// Moves the processes into a control group once they have run long enough.
    fn update_cgroup(&mut self, roots: &dyn Fn() -> Vec<u32>) {
        match &self.hold {
            CgroupState::Pending if self.began.elapsed() >= CGROUP_DELAY => {
                self.start_entering_cgroup(&roots());
            }
            CgroupState::Entering(thread) if thread.is_finished() => self.finish_entering_cgroup(),
            _ => {}
        }
    }

    /// Moves the processes into a control group now, and waits until that is done.
    pub fn enter_cgroup_now(&mut self, roots: &[u32]) {
        if matches!(self.hold, CgroupState::Pending) {
            self.start_entering_cgroup(roots);
            self.finish_entering_cgroup();
        }
    }

    fn start_entering_cgroup(&mut self, roots: &[u32]) {
        let (journal, roots) = (Arc::clone(&self.journal), roots.to_vec());
        let (cpus, nodes) = (self.cpus.clone(), self.nodes.clone());
        let enter = move || enter_cgroup(&journal, &roots, &cpus, &nodes);
        self.enforcer.set_entering_cgroup(true);
        self.hold = CgroupState::Entering(thread::spawn(enter));
    }

    fn finish_entering_cgroup(&mut self) {
        if !matches!(self.hold, CgroupState::Entering(_)) {
            return;
        }
        let hold = std::mem::replace(&mut self.hold, CgroupState::Pending);
        let CgroupState::Entering(thread) = hold else { return };
        let entered = thread.join().unwrap_or_else(|_| Err("it failed".to_owned()));
        self.enforcer.set_entering_cgroup(false);
        self.hold = CgroupState::Settled(match entered {
            Ok(who) => {
                self.enforcer.repin_all();
                format!("a cpuset{who}, and affinities")
            }
            Err(why) => format!("affinities alone: {why}"),
        });
    }

    /// Stops enforcing the placement for all processes below `roots`. Returns the placement trace.
    pub fn finish(&mut self, roots: &[u32], seconds: f64) -> PlacementTrace {
        self.finish_entering_cgroup();
        self.enforcer.final_scan(roots);
        let mut notes: Vec<String> = Vec::new();
        for (task, cpus) in self.enforcer.own_affinities() {
            notes.push(format!("{task} set its own affinity to CPUs {cpus}: the plan does not hold for it"));
        }
        for (task, why) in self.enforcer.refused() {
            notes.push(format!("{task} could not be moved: {why}"));
        }
        let hold = match &self.hold {
            CgroupState::Settled(said) => said.clone(),
            CgroupState::Pending | CgroupState::Entering(_) => {
                "affinities alone: the command ended too soon for a cpuset".to_owned()
            }
        };
        let Some(recorder) = self.enforcer.journal() else { return PlacementTrace::default() };
        let mut trace = std::mem::take(recorder.trace());
        trace.pin_delays_ns.sort_unstable();
        PlacementTrace { held_by: hold, seconds, notes, ..trace }
    }

    /// The name of the journal, as `undo` takes it.
    pub fn journal_id(&self) -> String {
        self.journal.id()
    }

    /// Gives the tasks what they had before; returns what was restored, what was left and what failed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the journal cannot be read.
    pub fn restore(mut self) -> Result<UndoResult> {
        self.finish_entering_cgroup();
        drop(self.enforcer);
        let id = self.journal.id();
        let journal = Arc::try_unwrap(self.journal).map_err(|_| {
            Error::unavailable(format!("{id} is still in use: run 'manycore undo {id}' to restore"))
        })?;
        journal.undo().map_err(|error| Error::unavailable(format!("cannot read our journal {id}: {error}")))
    }
}

/// Moves `roots` and all their descendants into a control group. Returns a note if only some of them could
/// enter.
fn enter_cgroup(journal: &Journal, roots: &[u32], cpus: &CpuSet, nodes: &CpuSet) -> Result<String, String> {
    let first = *roots.first().ok_or("nothing runs")?;
    let hold = cpuset::CpusetGroup::create(journal, first, cpus, nodes)?;
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeMap::new());
    for _ in 0..ENTER_ROUNDS {
        for pid in tasks::with_descendants(roots) {
            match hold.move_process(journal, pid) {
                Ok(()) => drop(inside.insert(pid)),
                // A process that has ended needs no control group.
                Err(_) if !tasks::is_alive(pid) => {}
                Err(error) => drop(outside.insert(pid, error.to_string())),
            }
        }
    }
    outside.retain(|pid, _| !inside.contains(pid));
    match outside.first_key_value() {
        None => Ok(String::new()),
        Some((pid, why)) if inside.is_empty() => {
            let why = format!("process {pid} cannot enter a cpuset: {why}");
            hold.remove_unused();
            Err(why)
        }
        Some(_) => Ok(format!(" for {} of {} processes", inside.len(), inside.len() + outside.len())),
    }
}

//! Enforces the affinities of tasks, so that they run on the CPUs of their workers.

mod discovery;
mod pinning;
mod scan;

use crate::placement::{PlacementJournal, WorkerCpus};
use manycore_linux::{
    affinity,
    clock::now_ns,
    kernel,
    proc_events::{ProcEventBatch, ProcEvents},
    tasks,
};
use manycore_placement::TaskAssignment;
use manycore_topology::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// Time to the next scan after new tasks have appeared, and at the start.
const FIRST_SCAN: Duration = Duration::from_millis(1);

/// Maximum time between scans for new threads if the kernel does not report process events.
const MAX_PIN_DELAY: Duration = Duration::from_millis(8);

/// Time between scans of all tasks for their CPU time and their affinities.
const SCAN_INTERVAL: Duration = Duration::from_millis(128);

/// Time to the first such scan. Each later interval is longer by a quarter, so that short commands are
/// observed to their end.
const FIRST_SCAN_INTERVAL: Duration = Duration::from_millis(8);

/// Pins the threads of process trees to the workers' CPUs when they appear, and notices tasks that change
/// their own affinity.
///
/// Affinity is inherited, so between two scans no task leaves the CPUs of the whole placement.
pub struct AffinityEnforcer {
    /// The assignment of tasks to workers. A single worker means that all tasks share its CPUs.
    assignment: TaskAssignment,
    /// Since when each worker's CPUs have been those of a task, in nanoseconds of `CLOCK_MONOTONIC`.
    used_since: Vec<Option<u64>>,
    /// Whether each worker is a copy of a command, which starts on the worker's CPUs with all its tasks.
    copies: bool,
    /// The union of the workers' CPUs, or the CPUs that this process may use.
    all_cpus: CpuSet,
    proc_events: ProcEvents,
    tasks: BTreeMap<u32, KnownTask>,
    /// Processes of the tasks, with their start times.
    processes: BTreeMap<u32, Option<u64>>,
    /// Processes that had ended at the last scan of all tasks. Their earlier children belong to the command
    /// as well.
    ended: BTreeSet<u32>,
    /// Time until the next scan.
    pause: Duration,
    /// Time of the last search for processes.
    last_search: Instant,
    last_scan: Instant,
    scan_interval: Duration,
    own_affinities: BTreeMap<String, CpuSet>,
    refused: BTreeMap<String, String>,
    /// Former affinities of tasks that were taken over.
    former_affinities: BTreeSet<CpuSet>,
    /// CPUs that this process may use. The kernel gives them to tasks whose CPUs have all gone offline.
    own_cpus: CpuSet,
    /// Tasks that were pinned in the last scan. In a cpuset the kernel sets the affinity of a new task to
    /// its parent's after it has reported the creation (`cpuset_fork` in `copy_process`), which may undo an
    /// affinity set in between.
    newly_pinned: Vec<u32>,
    /// CPUs that were online at the last scan.
    online: Option<CpuSet>,
    /// Whether a control group is being entered. Kernels before 6.2 reset affinities then, in version 2 to
    /// all CPUs first.
    entering_cgroup: bool,
    /// Whether the kernel resets affinities whenever a cpuset changes.
    kernel_resets: bool,
    /// Tasks whose affinity the kernel rejects at the moment.
    rejected: BTreeSet<u32>,
    journal: Option<PlacementJournal>,
}

/// When a task was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Creation {
    /// Before the first scan.
    BeforeFirstScan,
    /// After the first scan, at an unknown time.
    AfterFirstScan,
    /// At this time in nanoseconds of `CLOCK_MONOTONIC`.
    At(u64),
}

impl Creation {
    /// Returns a time, in nanoseconds of `CLOCK_MONOTONIC`, at which the task existed: that of its creation, or now.
    fn latest_ns(self) -> u64 {
        match self {
            Self::At(at_ns) => at_ns,
            Self::BeforeFirstScan | Self::AfterFirstScan => now_ns(),
        }
    }

    /// Returns the delay in nanoseconds from the creation to `now_ns`, if the time of the creation is known.
    fn delay_ns(self, now_ns: u64) -> Option<u64> {
        match self {
            Self::At(at_ns) => Some(now_ns.saturating_sub(at_ns)),
            Self::BeforeFirstScan | Self::AfterFirstScan => None,
        }
    }
}

/// A known task.
struct KnownTask {
    pid: u32,
    /// CPU time in nanoseconds at the last scan.
    cpu_ns: u64,
    at_ns: u64,
    /// When it existed already, in nanoseconds of `CLOCK_MONOTONIC`.
    created_before: u64,
}

impl AffinityEnforcer {
    /// Enforces `place` for a command started by a process that may use `own_cpus`.
    pub fn new(place: &WorkerCpus, own_cpus: &CpuSet) -> Self {
        let all_cpus = place.cpus().unwrap_or_else(|| own_cpus.clone());
        let workers = if place.workers.is_empty() { vec![all_cpus.clone()] } else { place.workers.clone() };
        Self {
            used_since: vec![None; workers.len()],
            assignment: TaskAssignment::new(workers),
            copies: false,
            all_cpus,
            proc_events: ProcEvents::poll(),
            tasks: BTreeMap::new(),
            processes: BTreeMap::new(),
            ended: BTreeSet::new(),
            pause: FIRST_SCAN,
            last_search: Instant::now(),
            last_scan: Instant::now(),
            scan_interval: FIRST_SCAN_INTERVAL,
            own_affinities: BTreeMap::new(),
            refused: BTreeMap::new(),
            former_affinities: BTreeSet::new(),
            own_cpus: own_cpus.clone(),
            newly_pinned: Vec::new(),
            online: affinity::online(),
            entering_cgroup: false,
            kernel_resets: kernel::resets_affinities(),
            rejected: BTreeSet::new(),
            journal: None,
        }
    }

    /// Enforces `place` for copies of a command, each of which starts on the CPUs of the worker with its
    /// number.
    pub fn for_copies(place: &WorkerCpus, own_cpus: &CpuSet) -> Self {
        Self { copies: true, ..Self::new(place, own_cpus) }
    }

    /// Adds a journal for changes and for the placement trace, and subscribes to process events of the
    /// kernel if possible.
    pub(crate) fn with_journal(self, journal: PlacementJournal) -> Self {
        Self { proc_events: ProcEvents::subscribe(), journal: Some(journal), ..self }
    }

    /// Returns the tasks that changed their own affinity: name, and the CPUs that they chose last.
    pub fn own_affinities(&self) -> &BTreeMap<String, CpuSet> {
        &self.own_affinities
    }

    /// Whether all these CPUs are planned.
    pub fn is_planned(&self, cpus: &CpuSet) -> bool {
        cpus.is_subset(&self.all_cpus)
    }

    /// Returns the processes with tasks that could not be moved: name with id, and reason.
    pub fn refused(&self) -> &BTreeMap<String, String> {
        &self.refused
    }

    /// Returns the running processes whose affinity is enforced.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// Returns the journal, if there is one.
    pub(crate) fn journal(&mut self) -> Option<&mut PlacementJournal> {
        self.journal.as_mut()
    }

    /// Returns the file descriptor that becomes readable on process events, if the kernel reports them.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.proc_events.descriptor()
    }

    /// Returns whether tasks are pinned one by one to different workers.
    fn pins_individually(&self) -> bool {
        !self.copies && self.assignment.all().iter().any(|worker| *worker != self.all_cpus)
    }

    /// Scans the process trees below `roots`. Returns the time until the next scan is needed, unless
    /// `descriptor` becomes readable earlier.
    pub fn scan(&mut self, roots: &[u32]) -> Duration {
        self.scan_below(&|| roots.to_vec())
    }

    /// Does the same as [`scan`](Self::scan). `roots` is called only if all processes have to be searched.
    pub(crate) fn scan_below(&mut self, roots: &dyn Fn() -> Vec<u32>) -> Duration {
        let longest = match self.proc_events {
            ProcEvents::Polled(_) if self.pins_individually() => MAX_PIN_DELAY,
            _ => self.scan_interval,
        };
        self.repin_new_tasks();
        let appeared = match self.proc_events.next_batch() {
            ProcEventBatch::Unknown => self.find_new_tasks(&roots()),
            ProcEventBatch::Created(created) => {
                let before = self.tasks.len();
                for task in &created {
                    self.task_created(task);
                }
                self.tasks.len() > before
            }
            ProcEventBatch::None => false,
        };
        self.pause = if appeared || !self.newly_pinned.is_empty() {
            FIRST_SCAN
        } else {
            (self.pause * 2).min(longest)
        };
        if self.last_scan.elapsed() >= self.scan_interval {
            self.scan_all(roots);
        }
        self.pause
    }
}

fn name(tid: u32) -> String {
    tasks::name(tid).unwrap_or_else(|| "a task".to_owned())
}

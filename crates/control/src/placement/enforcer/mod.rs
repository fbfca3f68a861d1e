//! Enforces the affinities of tasks, so that they run on the CPUs of their workers.

mod scan;

use crate::placement::{PlacementJournal, WorkerCpus};
use manycore_linux::{
    affinity,
    clock::now_ns,
    proc_events::{ProcEventBatch, ProcEvents, TaskCreated},
    tasks,
};
use manycore_placement::TaskAssignment;
use manycore_topology::CpuSet;
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind},
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
    next_scan: Duration,
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

/// A known task.
struct KnownTask {
    pid: u32,
    /// CPU time in nanoseconds at the last scan.
    cpu_ns: u64,
    at_ns: u64,
}

impl AffinityEnforcer {
    /// Enforces `place` for a command started by a process that may use `inherited`.
    pub fn new(place: &WorkerCpus, inherited: &CpuSet) -> Self {
        let whole = place.cpus().unwrap_or_else(|| inherited.clone());
        let workers = if place.workers.is_empty() { vec![whole.clone()] } else { place.workers.clone() };
        Self {
            assignment: TaskAssignment::new(workers),
            copies: false,
            all_cpus: whole,
            proc_events: ProcEvents::poll(),
            tasks: BTreeMap::new(),
            processes: BTreeMap::new(),
            ended: BTreeSet::new(),
            next_scan: FIRST_SCAN,
            last_search: Instant::now(),
            last_scan: Instant::now(),
            scan_interval: FIRST_SCAN_INTERVAL,
            own_affinities: BTreeMap::new(),
            refused: BTreeMap::new(),
            former_affinities: BTreeSet::new(),
            own_cpus: inherited.clone(),
            newly_pinned: Vec::new(),
            online: affinity::online(),
            entering_cgroup: false,
            rejected: BTreeSet::new(),
            journal: None,
        }
    }

    /// Enforces `place` for copies of a command, each of which starts on the CPUs of the worker with its
    /// number.
    pub fn for_copies(place: &WorkerCpus, inherited: &CpuSet) -> Self {
        Self { copies: true, ..Self::new(place, inherited) }
    }

    /// Adds a recorder for changes and for the placement trace, and subscribes to process events of the
    /// kernel if possible.
    pub fn with_journal(self, recorder: PlacementJournal) -> Self {
        Self { proc_events: ProcEvents::subscribe(), journal: Some(recorder), ..self }
    }

    /// Returns the tasks that changed their own affinity: name, and the CPUs that they chose last.
    pub fn own_affinities(&self) -> &BTreeMap<String, CpuSet> {
        &self.own_affinities
    }

    /// Returns the tasks that could not be moved: name and reason.
    pub fn refused(&self) -> &BTreeMap<String, String> {
        &self.refused
    }

    /// Returns the running processes whose affinity is enforced.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// Returns the recorder.
    pub fn journal(&mut self) -> Option<&mut PlacementJournal> {
        self.journal.as_mut()
    }

    /// Returns the file descriptor that becomes readable on process events, if the kernel reports them.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.proc_events.descriptor()
    }

    /// Returns whether tasks are pinned one by one to different workers.
    fn pins_individually(&self) -> bool {
        !self.copies && self.assignment.all().iter().any(|worker| *worker != self.all_cpus)
    }

    /// Scans the process trees below `roots`. Returns the time until the next scan is needed, unless
    /// [`descriptor`](Self::descriptor) becomes readable earlier.
    pub fn scan(&mut self, roots: &[u32]) -> Duration {
        self.scan_below(&|| roots.to_vec())
    }

    /// The same. `roots` is called only if all processes have to be searched.
    pub fn scan_below(&mut self, roots: &dyn Fn() -> Vec<u32>) -> Duration {
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
        self.next_scan = if appeared || !self.newly_pinned.is_empty() {
            FIRST_SCAN
        } else {
            (self.next_scan * 2).min(longest)
        };
        if self.last_scan.elapsed() >= self.scan_interval {
            self.scan_all(roots);
        }
        self.next_scan
    }

    /// Moves all tasks of the trees below `roots` to another placement.
    pub fn move_to(&mut self, place: &WorkerCpus, inherited: &CpuSet, roots: &[u32]) {
        let own = std::mem::take(&mut self.own_affinities);
        *self = Self { own_affinities: own, ..Self::new(place, inherited) };
        self.take_over(roots);
    }

    /// Pins all tasks of the trees below `roots`, whatever affinity they have.
    pub fn take_over(&mut self, roots: &[u32]) {
        self.proc_events.next_batch();
        for pid in tasks::with_descendants(roots) {
            for tid in tasks::threads(pid) {
                if let Ok(cpus) = affinity::of(tid) {
                    self.assign_and_pin(pid, tid, &cpus, Creation::BeforeFirstScan);
                    self.former_affinities.insert(cpus);
                }
            }
        }
        // Tasks that were created meanwhile.
        self.find_new_tasks(roots);
    }

    /// Pins all tasks again whose affinity was reset. Control groups of version 1, and of version 2 before
    /// Linux 6.2, reset the affinities of tasks that enter.
    pub fn repin_all(&mut self) {
        let pinned: Vec<(u32, usize)> =
            self.assignment.tasks().filter_map(|tid| Some((tid, self.assignment.worker_of(tid)?))).collect();
        for (tid, worker) in pinned {
            if affinity::of(tid)
                .is_ok_and(|cpus| cpus == self.all_cpus && cpus != *self.assignment.cpus(worker))
            {
                self.move_task(tid, worker);
            }
        }
    }

    /// Searches for new tasks in the trees below `roots` and below known processes.
    fn find_new_tasks(&mut self, roots: &[u32]) -> bool {
        self.last_search = Instant::now();
        let roots: Vec<u32> = roots.iter().copied().chain(self.processes.keys().copied()).collect();
        let living: BTreeMap<u32, u32> = tasks::with_descendants(&roots)
            .into_iter()
            .flat_map(|pid| tasks::threads(pid).into_iter().map(move |tid| (tid, pid)))
            .collect();
        let ended = self.tasks.iter().filter(|(tid, known)| living.get(tid) != Some(&known.pid));
        for tid in ended.map(|(tid, _)| *tid).collect::<Vec<_>>() {
            // The CPU time of a zombie can still be read.
            self.update_task(tid, true);
        }
        self.assignment.retain(|tid| living.contains_key(&tid));
        self.tasks.retain(|tid, known| living.get(tid) == Some(&known.pid));
        let new: Vec<(u32, u32)> =
            living.into_iter().filter(|(tid, _)| !self.tasks.contains_key(tid)).collect();
        for &(tid, pid) in &new {
            self.add_task(pid, tid, Creation::AfterFirstScan);
        }
        !new.is_empty()
    }

    /// Pins a task whose creation the kernel reported, if it belongs to a known process.
    fn task_created(&mut self, task: &TaskCreated) {
        if !self.tasks.contains_key(&task.tid)
            && (self.belongs_to_command(task.pid) || self.belongs_to_command(task.parent))
        {
            self.add_task(task.pid, task.tid, Creation::At(task.at_ns));
            // A task that has already ended may have created others, as daemons do.
            self.processes.entry(task.pid).or_insert_with(|| tasks::start_time(task.pid));
        }
    }

    /// Returns whether process `pid` belongs to the command. It may have ended, and its id may be in use
    /// again.
    fn belongs_to_command(&self, pid: u32) -> bool {
        let now = tasks::start_time(pid);
        match self.processes.get(&pid) {
            Some(start) => now.is_none() || now == *start,
            None => now.is_none() && self.ended.contains(&pid),
        }
    }

    /// Pins tasks again whose affinity was reset during their creation, which is complete when they have
    /// run.
    fn repin_new_tasks(&mut self) {
        for tid in std::mem::take(&mut self.newly_pinned) {
            let (Some(worker), Some(known)) = (self.assignment.worker_of(tid), self.tasks.get(&tid)) else {
                continue;
            };
            let has_run = tasks::cpu_ns(known.pid, tid).is_none_or(|used| used > 0);
            if affinity::of(tid).is_ok_and(|now| {
                now != *self.assignment.cpus(worker) && self.inheritable_affinities().contains(&now)
            }) {
                self.move_task(tid, worker);
            }
            if !has_run {
                self.newly_pinned.push(tid);
            }
        }
    }

    /// Pins a new task, unless it has chosen its CPUs itself.
    fn add_task(&mut self, pid: u32, tid: u32, creation: Creation) {
        let Ok(cpus) = affinity::of(tid) else { return };
        if !self.inheritable_affinities().contains(&cpus) {
            self.register_task(pid, tid);
            self.record_own_affinity(tid, cpus);
        } else if self.copies {
            self.register_task(pid, tid);
        } else {
            self.assign_and_pin(pid, tid, &cpus, creation);
        }
    }

    fn register_task(&mut self, pid: u32, tid: u32) -> u64 {
        let cpu_ns = tasks::cpu_ns(pid, tid).unwrap_or(0);
        self.tasks.insert(tid, KnownTask { pid, cpu_ns, at_ns: now_ns() });
        self.processes.entry(pid).or_insert_with(|| tasks::start_time(pid));
        cpu_ns
    }

    /// Returns the affinities that a new task can have without having chosen one: the CPUs on which the
    /// command started, and those of workers with tasks that may have created it. A task on the CPUs of a
    /// worker without tasks went there itself.
    fn inheritable_affinities(&self) -> Vec<CpuSet> {
        if self.copies {
            return self.assignment.all().to_vec();
        }
        let taken: BTreeSet<usize> =
            self.assignment.tasks().filter_map(|tid| self.assignment.worker_of(tid)).collect();
        let taken = taken.into_iter().map(|worker| self.assignment.cpus(worker).clone());
        let lost = (self.entering_cgroup || self.assignment.any_offline()).then(|| self.own_cpus.clone());
        taken
            .chain([self.all_cpus.clone()])
            .chain(self.former_affinities.iter().cloned())
            .chain(lost)
            .collect()
    }

    /// Assigns a task to a worker and pins it; `now` is its current affinity.
    fn assign_and_pin(&mut self, pid: u32, tid: u32, now: &CpuSet, creation: Creation) {
        let Some(mut worker) = self.assignment.assign(tid) else { return };
        let mut placed = self.set_affinity(pid, tid, now, worker, creation);
        if placed.as_ref().is_err_and(|error| is(error, Errno::INVAL)) {
            // The worker's CPUs have gone offline since the last scan.
            self.leave_offline_cpus();
            let Some(other) = self.assignment.assign(tid).filter(|other| *other != worker) else {
                self.refuse(pid, tid, "its control group allows none of the planned CPUs");
                return;
            };
            worker = other;
            placed = self.set_affinity(pid, tid, now, worker, creation);
        }
        match placed {
            Ok(()) => {
                let arrived_ns = now_ns();
                let cpu_ns = self.register_task(pid, tid);
                if creation != Creation::BeforeFirstScan {
                    self.newly_pinned.push(tid);
                }
                if let Some(recorder) = &mut self.journal {
                    let delay = if let Creation::At(at) = creation {
                        Some(arrived_ns.saturating_sub(at))
                    } else {
                        None
                    };
                    recorder.task_pinned(pid, tid, worker, cpu_ns, delay);
                }
            }
            // A task that ends meanwhile need not be pinned.
            Err(error) if error.kind() == ErrorKind::NotFound || is(&error, Errno::SRCH) => {
                self.assignment.remove(tid);
            }
            Err(error) => self.refuse(pid, tid, &error.to_string()),
        }
    }

    /// Records the change in the journal and sets the affinity.
    fn set_affinity(
        &mut self,
        pid: u32,
        tid: u32,
        now: &CpuSet,
        worker: usize,
        creation: Creation,
    ) -> io::Result<()> {
        let cpus = self.assignment.cpus(worker).clone();
        if let Some(recorder) = &mut self.journal {
            recorder.record_change(pid, tid, now, &cpus, creation != Creation::BeforeFirstScan)?;
        }
        if *now == cpus { Ok(()) } else { affinity::restrict(tid, &cpus) }
    }

    fn refuse(&mut self, pid: u32, tid: u32, why: &str) {
        self.assignment.remove(tid);
        self.register_task(pid, tid);
        self.refused.insert(name(tid), why.to_owned());
    }

    /// Moves a known task to another worker.
    fn move_task(&mut self, tid: u32, worker: usize) {
        let Some(known) = self.tasks.get(&tid) else { return };
        // The id may be in use again by another task.
        let is_same =
            self.processes.get(&known.pid).is_some_and(|start| *start == tasks::start_time(known.pid))
                && tasks::threads(known.pid).contains(&tid);
        let Ok(now) = affinity::of(tid) else { return };
        let cpus = self.assignment.cpus(worker).clone();
        let noted = match &mut self.journal {
            Some(recorder) => recorder.record_change(known.pid, tid, &now, &cpus, false),
            None => Ok(()),
        };
        if !is_same || noted.is_err() {
            return;
        }
        // A CPU that has just come online enters the cpuset a moment later. A task that ends meanwhile need
        // not be pinned.
        match affinity::restrict(tid, &cpus) {
            Err(error) if is(&error, Errno::INVAL) => drop(self.rejected.insert(tid)),
            _ => drop(self.rejected.remove(&tid)),
        }
    }
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn name(tid: u32) -> String {
    tasks::name(tid).unwrap_or_else(|| "a task".to_owned())
}

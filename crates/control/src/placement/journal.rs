//! Records in the journal what is changed, and in the placement trace where tasks run.

use crate::{
    journal::{Change, Journal},
    placement::cpu_time::CpuTimeTotal,
};
use manycore_linux::{
    counters::{KernelCounters, TaskCounters},
    tasks,
};
use manycore_placement::{PlacementPlan, PlacementTrace, TaskReading};
use manycore_topology::{CpuSet, Machine};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Time between two readings of counters that are expensive to read: migrations and context switches.
const COUNTER_INTERVAL: Duration = Duration::from_secs(1);

/// The changes of a session, in the journal, and its placement trace.
pub struct PlacementJournal {
    journal: Arc<Journal>,
    /// The affinity to restore for each process.
    originals: BTreeMap<u32, CpuSet>,
    /// The affinity to restore for processes whose original affinity is unknown.
    own_cpus: CpuSet,
    /// Tasks whose affinity was changed.
    moved: BTreeSet<u32>,
    trace: PlacementTrace,
    /// Index in `trace` of each running task.
    trace_index: BTreeMap<u32, usize>,
    /// For each worker, the CPUs of the nodes with its memory.
    near_memory: Vec<CpuSet>,
    journal_error: Option<String>,
    kernel: KernelCounters,
    last_count: Option<Instant>,
    /// Whether this scan reads the expensive counters.
    counting: bool,
    total: Option<CpuTimeTotal>,
}

impl PlacementJournal {
    /// Creates the journal and the trace for `plan` on `machine`. Tasks created while they are observed get `own_cpus`
    /// back.
    pub fn new(
        journal: Arc<Journal>,
        machine: &Machine,
        plan: PlacementPlan,
        subject: String,
        own_cpus: CpuSet,
    ) -> Self {
        let near = |nodes: &[u32]| {
            let nodes = machine.nodes.iter().filter(|node| nodes.contains(&node.id) && !node.memory_only);
            CpuSet::union_of(nodes.map(|node| &node.cpus))
        };
        Self {
            journal,
            originals: BTreeMap::new(),
            own_cpus,
            moved: BTreeSet::new(),
            near_memory: plan.workers.iter().map(|worker| near(&worker.memory_nodes)).collect(),
            trace: PlacementTrace::for_plan(plan, subject),
            trace_index: BTreeMap::new(),
            journal_error: None,
            kernel: KernelCounters::at(Path::new("/")),
            last_count: None,
            counting: false,
            total: None,
        }
    }

    /// Counts from now on the CPU time of all placed processes. For processes that ran before this program
    /// started.
    pub fn count_cpu_time(&mut self) {
        self.total = Some(CpuTimeTotal::default());
    }

    /// Adds up the CPU time of all placed processes, if it is counted.
    pub(super) fn update_cpu_time(&mut self, known: &BTreeMap<u32, Option<u64>>) {
        if let Some(total) = &mut self.total {
            let used = total.count(known);
            self.trace.cpu_ns = Some(self.trace.cpu_ns.unwrap_or(0).max(used));
        }
    }

    /// Returns the placement trace, to be completed.
    pub fn trace(&mut self) -> &mut PlacementTrace {
        &mut self.trace
    }

    /// Records that a task's affinity is about to change from `old` to `new`. A task that was created while
    /// it was observed (`created_while_observed`) inherited `old` from a pinned task, so the affinity to
    /// restore is that of its process or its parent.
    ///
    /// # Errors
    /// The journal cannot be written; then the affinity must not be changed.
    pub(super) fn record_change(
        &mut self,
        pid: u32,
        tid: u32,
        old: &CpuSet,
        new: &CpuSet,
        created_while_observed: bool,
    ) -> io::Result<()> {
        let process = match self.originals.get(&pid) {
            Some(cpus) => cpus.clone(),
            None => {
                let parent = || self.originals.get(&tasks::parent(pid)?).cloned();
                let cpus = if created_while_observed {
                    parent().unwrap_or_else(|| self.own_cpus.clone())
                } else {
                    old.clone()
                };
                let start = tasks::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
                self.note(&Change::Process { pid, start, cpus: cpus.clone() })?;
                self.originals.insert(pid, cpus.clone());
                cpus
            }
        };
        // A task that inherited the CPUs of its own worker has an entry as well: if it is moved later, the CPUs that it has
        // then are not those to restore.
        let original = if created_while_observed { process } else { old.clone() };
        if original == *new {
            return Ok(());
        }
        if old != new {
            self.moved.insert(tid);
        }
        self.note(&Change::Affinity { pid, tid, old: original, new: new.clone() })
    }

    /// Returns the number of tasks whose affinity was changed; those that had it before do not count.
    pub(super) fn moved(&self) -> usize {
        self.moved.len()
    }

    /// Records that a task is pinned for the first time, with the delay since its creation if that is
    /// known.
    pub(super) fn task_pinned(
        &mut self,
        pid: u32,
        tid: u32,
        worker: usize,
        cpu_ns: u64,
        delay_ns: Option<u64>,
    ) {
        let name = tasks::name(tid).unwrap_or_default();
        let at = self.trace.add_task(tid, pid, name, Some(worker), cpu_ns);
        self.trace_index.insert(tid, at);
        self.trace.pin_delays_ns.extend(delay_ns);
    }

    /// Records that a task has chosen its CPUs itself, or has inherited them from a task that has.
    pub(super) fn record_own_affinity(&mut self, pid: u32, tid: u32, cpus: &CpuSet) {
        let at = match self.trace_index.get(&tid) {
            Some(&at) => at,
            None => {
                let cpu_ns = tasks::cpu_ns(pid, tid).unwrap_or(0);
                self.trace.add_task(tid, pid, tasks::name(tid).unwrap_or_default(), None, cpu_ns)
            }
        };
        self.trace_index.insert(tid, at);
        self.trace.tasks[at].own_affinity = Some(cpus.clone());
    }

    /// Records that process `pid` belongs to the command, if that is not recorded yet. For processes that
    /// have left their parents.
    pub(super) fn record_process(&mut self, pid: u32) {
        if self.originals.contains_key(&pid) {
            return;
        }
        let Some(start) = tasks::start_time(pid) else { return };
        let cpus = self.own_cpus.clone();
        if self.note(&Change::Process { pid, start, cpus: cpus.clone() }).is_ok() {
            self.originals.insert(pid, cpus);
        }
    }

    /// Returns why the journal can no longer be written; `None` if it can.
    pub fn journal_error(&self) -> Option<&str> {
        self.journal_error.as_deref()
    }

    /// Forgets processes that have ended, because their ids may be used again.
    pub(super) fn forget(&mut self, is_alive: impl Fn(u32) -> bool) {
        self.originals.retain(|pid, _| is_alive(*pid));
    }

    fn note(&mut self, change: &Change) -> io::Result<()> {
        self.journal.record(change).inspect_err(|error| self.journal_error = Some(error.to_string()))
    }

    /// Records where a task is; `last` if this is the last reading.
    pub(super) fn record_reading(
        &mut self,
        pid: u32,
        tid: u32,
        cpu_ns: u64,
        worker: Option<usize>,
        place: &CpuSet,
        last: bool,
    ) {
        let Some(&at) = self.trace_index.get(&tid) else { return };
        // A task that may use only one CPU is on that CPU.
        let only = place.first().filter(|_| worker.is_some() && place.len() == 1);
        let Some(cpu) = only.or_else(|| tasks::cpu(pid, tid)) else { return };
        let counters = if last || self.counting { self.kernel.task(tid) } else { TaskCounters::default() };
        let none = CpuSet::new();
        let task = &mut self.trace.tasks[at];
        task.add_reading(&TaskReading {
            cpu_ns,
            cpu,
            worker,
            worker_cpus: place,
            near_memory: worker.and_then(|worker| self.near_memory.get(worker)).unwrap_or(&none),
            migrations: counters.migrations,
            wakeups: counters.voluntary_switches,
        });
        // A program names its threads after it has started them.
        if self.counting {
            task.name = tasks::name(tid).unwrap_or_else(|| std::mem::take(&mut task.name));
        }
    }

    /// Begins a scan of all tasks.
    pub(super) fn begin_scan(&mut self) {
        self.counting = self.last_count.is_none_or(|at| at.elapsed() >= COUNTER_INTERVAL);
        if self.counting {
            self.last_count = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::affinity;
    use manycore_placement::PLAN_SCHEMA;
    use std::process::Command;

    /// Regression test: `undo` left a process of a killed `run` on the CPU that it had inherited.
    #[test]
    fn a_task_that_inherited_the_cpus_of_its_worker_gets_back_those_of_its_process() {
        let own = affinity::allowed().unwrap();
        let mut cpus = own.iter().map(CpuSet::single);
        let (Some(inherited), Some(other)) = (cpus.next(), cpus.next()) else {
            return println!("SKIPPED: it needs two CPUs");
        };
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        affinity::restrict(pid, &inherited).unwrap();
        let journal = Arc::new(Journal::begin(folder.path(), "run", "", false).unwrap());
        let plan = PlacementPlan {
            schema: PLAN_SCHEMA.to_owned(),
            machine_fingerprint: String::new(),
            policy: "spread".to_owned(),
            workers: Vec::new(),
        };
        let mut changes = PlacementJournal::new(
            Arc::clone(&journal),
            &Machine::default(),
            plan,
            "sleep".to_owned(),
            own.clone(),
        );
        changes.record_change(pid, pid, &inherited, &inherited, true).unwrap();
        assert_eq!(changes.moved(), 0);
        // SIGKILL arrives before the affinity is changed.
        changes.record_change(pid, pid, &inherited, &other, false).unwrap();
        drop(changes);
        Arc::into_inner(journal).unwrap().undo().unwrap();
        assert_eq!(affinity::of_thread(pid).unwrap(), own);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

//! Journals what a keeper changes, and records where its tasks run.

use crate::journal::{Change, Journal};
use manycore_linux::{
    counters::{Kernel, TaskCounters},
    tasks,
};
use manycore_placement::{Look, Plan, Residence};
use manycore_topology::{CpuSet, Machine};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Time between looks at counters that are dear to read: migrations and context switches.
const DEAR: Duration = Duration::from_secs(1);

/// What `run` and `pin` add to keeping.
pub struct Recorder {
    journal: Arc<Journal>,
    /// What each process is to have back.
    originals: BTreeMap<u32, CpuSet>,
    /// What those are to have back of which nothing else is known.
    inherited: CpuSet,
    stay: Residence,
    /// Where in `stay` each living task is.
    places: BTreeMap<u32, usize>,
    /// Of each worker: CPUs of the nodes with its memory.
    near: Vec<CpuSet>,
    broken: Option<String>,
    kernel: Kernel,
    counted: Option<Instant>,
    /// Whether dear counters are read in this look.
    counting: bool,
    total: Option<Total>,
}

/// CPU time of processes that were running before, and of their children: the kernel adds it up for no process of ours.
#[derive(Debug, Default)]
struct Total {
    /// When it was counted first.
    base_ns: Option<u64>,
    /// Of those that have ended and whose parents are not among them.
    ended_ns: u64,
    /// Of each with the children that it has waited for, and its parent.
    of: BTreeMap<u32, (u64, u32)>,
}

impl Total {
    /// Counts again the processes that are known, each with its start. Returns nanoseconds since the first time. What a
    /// process has used goes to its parent when that waits for it.
    fn count(&mut self, known: &BTreeMap<u32, Option<u64>>) -> u64 {
        let living = known.iter().filter_map(|(&pid, start)| {
            let usage = tasks::usage(pid).filter(|usage| Some(usage.start) == *start)?;
            Some((pid, (usage.cpu_ns, usage.parent)))
        });
        self.take(living.collect())
    }

    fn take(&mut self, now: BTreeMap<u32, (u64, u32)>) -> u64 {
        let ended =
            self.of.iter().filter(|(pid, (_, parent))| !now.contains_key(pid) && !now.contains_key(parent));
        self.ended_ns += ended.map(|(_, (used, _))| used).sum::<u64>();
        self.of = now;
        let total = self.ended_ns + self.of.values().map(|(used, _)| used).sum::<u64>();
        total.saturating_sub(*self.base_ns.get_or_insert(total))
    }
}

impl Recorder {
    /// For `plan` on `machine`; tasks get `inherited` back where they were born under our eyes.
    pub fn new(
        journal: Arc<Journal>,
        machine: &Machine,
        plan: Plan,
        subject: String,
        inherited: CpuSet,
    ) -> Self {
        let near = |nodes: &[u32]| {
            let nodes = machine.nodes.iter().filter(|node| nodes.contains(&node.id) && !node.memory_only);
            CpuSet::union_of(nodes.map(|node| &node.cpus))
        };
        Self {
            journal,
            originals: BTreeMap::new(),
            inherited,
            near: plan.workers.iter().map(|worker| near(&worker.memory_nodes)).collect(),
            stay: Residence::of(plan, subject),
            places: BTreeMap::new(),
            broken: None,
            kernel: Kernel::at(Path::new("/")),
            counted: None,
            counting: false,
            total: None,
        }
    }

    /// Counts from now on what all that is kept uses, for processes that were running before.
    pub fn count_all(&mut self) {
        self.total = Some(Total::default());
    }

    /// Adds up what all that is kept has used, where that is counted.
    pub(super) fn count(&mut self, known: &BTreeMap<u32, Option<u64>>) {
        if let Some(total) = &mut self.total {
            let used = total.count(known);
            self.stay.cpu_ns = Some(self.stay.cpu_ns.unwrap_or(0).max(used));
        }
    }

    /// What is remembered, to be completed.
    pub fn stay(&mut self) -> &mut Residence {
        &mut self.stay
    }

    /// Writes down that a task's affinity is about to change from `old` to `new`. One that was `born` under our
    /// eyes has `old` from us, and is to have back what its process or its parent had.
    ///
    /// # Errors
    /// It cannot be written down, and must not be changed.
    pub(super) fn before(
        &mut self,
        pid: u32,
        tid: u32,
        old: &CpuSet,
        new: &CpuSet,
        born: bool,
    ) -> io::Result<()> {
        let process = match self.originals.get(&pid) {
            Some(cpus) => cpus.clone(),
            None => {
                let parent = || self.originals.get(&tasks::parent(pid)?).cloned();
                let cpus =
                    if born { parent().unwrap_or_else(|| self.inherited.clone()) } else { old.clone() };
                let start = tasks::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
                self.note(&Change::Process { pid, start, cpus: cpus.clone() })?;
                self.originals.insert(pid, cpus.clone());
                cpus
            }
        };
        if old == new {
            return Ok(());
        }
        let old = if born { process } else { old.clone() };
        self.note(&Change::Affinity { pid, tid, old, new: new.clone() })
    }

    /// A task is on its seat for the first time, this long after its birth where that is known.
    pub(super) fn arrived(&mut self, pid: u32, tid: u32, worker: usize, cpu_ns: u64, delay_ns: Option<u64>) {
        let name = tasks::name(tid).unwrap_or_default();
        let at = self.stay.arrived(tid, pid, name, Some(worker), cpu_ns);
        self.places.insert(tid, at);
        self.stay.delays_ns.extend(delay_ns);
    }

    /// A task has chosen CPUs itself, or inherited them from one that has.
    pub(super) fn chose(&mut self, pid: u32, tid: u32, cpus: &CpuSet) {
        let at = match self.places.get(&tid) {
            Some(&at) => at,
            None => {
                let cpu_ns = tasks::cpu_ns(pid, tid).unwrap_or(0);
                self.stay.arrived(tid, pid, tasks::name(tid).unwrap_or_default(), None, cpu_ns)
            }
        };
        self.places.insert(tid, at);
        self.stay.tasks[at].chose = Some(cpus.clone());
    }

    /// Writes down that process `pid` is one of ours, where it is not yet: what it has left its parents for.
    pub(super) fn know(&mut self, pid: u32) {
        if self.originals.contains_key(&pid) {
            return;
        }
        let Some(start) = tasks::start_time(pid) else { return };
        let cpus = self.inherited.clone();
        if self.note(&Change::Process { pid, start, cpus: cpus.clone() }).is_ok() {
            self.originals.insert(pid, cpus);
        }
    }

    /// Why nothing more can be written down, once that was so.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Forgets processes that have ended: others may get their ids.
    pub(super) fn forget(&mut self, is_alive: impl Fn(u32) -> bool) {
        self.originals.retain(|pid, _| is_alive(*pid));
    }

    fn note(&mut self, change: &Change) -> io::Result<()> {
        self.journal.note(change).inspect_err(|error| self.broken = Some(error.to_string()))
    }

    /// Takes note of where a task is; `last` where there will be no other look.
    pub(super) fn saw(
        &mut self,
        pid: u32,
        tid: u32,
        cpu_ns: u64,
        seat: Option<usize>,
        place: &CpuSet,
        last: bool,
    ) {
        let Some(&at) = self.places.get(&tid) else { return };
        // Who may use one CPU only is on it.
        let only = place.first().filter(|_| seat.is_some() && place.len() == 1);
        let Some(cpu) = only.or_else(|| tasks::cpu(pid, tid)) else { return };
        let counters = if last || self.counting { self.kernel.task(tid) } else { TaskCounters::default() };
        let none = CpuSet::new();
        let task = &mut self.stay.tasks[at];
        task.saw(&Look {
            cpu_ns,
            cpu,
            worker: seat,
            place,
            near: seat.and_then(|seat| self.near.get(seat)).unwrap_or(&none),
            migrations: counters.migrations,
            wakeups: counters.voluntary_switches,
        });
        // A program names its threads after it has started them.
        if self.counting {
            task.name = tasks::name(tid).unwrap_or_else(|| std::mem::take(&mut task.name));
        }
    }

    /// A look at all tasks begins.
    pub(super) fn looking(&mut self) {
        self.counting = self.counted.is_none_or(|at| at.elapsed() >= DEAR);
        if self.counting {
            self.counted = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::placing::recorder::Total;

    /// `pin --check` had no total: of 1.7 s it saw 0.2, and said that the plan held.
    #[test]
    fn what_ended_between_two_looks_is_in_the_total() {
        let mut total = Total::default();
        let mut at = |now: &[(u32, u64, u32)]| {
            total.take(now.iter().map(|&(pid, used, parent)| (pid, (used, parent))).collect())
        };
        assert_eq!(at(&[(10, 500, 1), (11, 100, 10)]), 0);
        assert_eq!(at(&[(10, 600, 1), (11, 300, 10)]), 300);
        // 11 has ended, and 10 has waited for it; another one came and went between the looks.
        assert_eq!(at(&[(10, 600 + 310 + 40, 1)]), 350);
        // A child of its own, which loses its parent.
        assert_eq!(at(&[(10, 960, 1), (12, 20, 10)]), 380);
        assert_eq!(at(&[(12, 30, 1)]), 390);
        assert_eq!(at(&[]), 390);
    }
}

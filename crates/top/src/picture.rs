//! What happened between two samples.

mod counted;
mod cpus;
mod guests;
mod memory;
mod resources;
mod unit_sums;
mod users;
mod waits;

use crate::{
    details::ProcessDetails,
    plans::Plan,
    resources::{GuestSample, LatencySample},
    sample::{CpuTimes, ProcessSample, Sample, SystemCounters, TaskId, TaskName, TaskSample},
    task_list::{TaskBlock, TaskList},
    units::{LEVELS, LevelUnits},
};
pub use counted::CountedUse;
pub use cpus::{CpuShares, CpuUse};
pub(crate) use guests::GuestUse;
use manycore_topology::{CpuId, CpuSet, Level, Machine};
pub(crate) use memory::remote;
pub use resources::{BandwidthUse, GroupUse, InterruptUse, NodeUse};
use std::{iter::Peekable, sync::Arc};
pub use unit_sums::UnitUse;
pub use users::{UserNames, user_name};
pub use waits::WaitSums;

/// A change of the last CPU between two samples, by the largest distance. Migrations within the interval that end
/// where they began are not visible, nor is their number: a count of these is a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Migration {
    /// To another CPU of the same cluster; also if one of the CPUs is unknown to the machine.
    WithinCluster,
    /// To another cluster with the same last-level cache.
    AcrossCluster,
    /// To another last-level cache of the same node.
    AcrossLlc,
    /// To another node.
    AcrossNode,
}

/// What one thread did.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskUse {
    /// Its identity.
    pub id: TaskId,
    /// Its name.
    pub name: TaskName,
    /// The parent of its process.
    pub parent: u32,
    /// Its effective user; absent unless wanted.
    pub uid: Option<u32>,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// Whether it was not in the first sample. Then all its time counts, up to that of the interval. Also if its counters
    /// are not those of the first sample: a thread that calls exec takes over the id and start of the first thread of its
    /// process. Then its time is 0 and its rates are absent.
    pub is_new: bool,
    /// State at the second sample, as in [`TaskSample::state`].
    pub state: char,
    /// Last CPU at the second sample.
    pub cpu: CpuId,
    /// Time on a CPU, in CPUs.
    pub run: f64,
    /// Share of the time in which it waited for a CPU. A wait is added when it ends, so that it can be above 1. Absent
    /// without `schedstat`.
    pub wait: Option<f64>,
    /// Times that it was put on a CPU, per second; absent without `schedstat`.
    pub slices: Option<f64>,
    /// Voluntary context switches per second; absent unless wanted.
    pub voluntary: Option<f64>,
    /// Involuntary context switches per second; absent unless wanted.
    pub involuntary: Option<f64>,
    /// Change of the last CPU; absent if there was none.
    pub migration: Option<Migration>,
    /// Migrations per second by [`Migration`], in its order, counted exactly; absent without BPF.
    pub migrations: Option<Box<[f64; 4]>>,
    /// The CPUs that it may use; absent unless wanted.
    pub allowed: Option<Arc<CpuSet>>,
    /// Whether it is where it was placed; absent until [`Plans::mark`](crate::Plans::mark), and in recordings.
    pub plan: Option<Plan>,
    /// Resident set of its process in KiB.
    pub resident_kib: u64,
    /// What counters of the CPUs counted; absent unless it was counted in both samples, and enough of its time.
    pub counted: Option<Box<CountedUse>>,
}

/// What one process did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessUse {
    /// The process.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Time on CPUs, in CPUs, threads that have ended included. Absent in a tree that is not of the running system, and if
    /// its clock cannot be that of the first sample. That of a new process is at most its number of threads.
    pub run: Option<f64>,
    /// Number of its threads.
    pub threads: u32,
    /// Waits for a CPU, in tasks that wait, threads that have ended included; absent unless [`WaitSums`] were entered.
    pub wait: Option<f64>,
    /// The sum over its threads that were counted; absent unless these used 90 % of its CPU time.
    pub counted: Option<CountedUse>,
}

/// What happened between two samples. Tasks and processes that have ended are not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// CPUs that are online at the second sample, ascending.
    pub cpus: Vec<CpuUse>,
    /// Units of clusters, last-level caches and nodes, in this order of levels. A machine without clusters has one unit
    /// for each CPU at that level.
    pub units: Vec<UnitUse>,
    /// Threads, ascending by process and thread. A caller may keep some of them: sums over CPUs and units have all.
    pub tasks: Vec<TaskUse>,
    /// Processes, ascending by id.
    pub processes: Vec<ProcessUse>,
    /// Names of users, as far as the caller knows them.
    pub users: Arc<UserNames>,
    /// Tasks that run or wait for a CPU at the second sample (`procs_running`), the sampling thread included.
    pub runnable: Option<u64>,
    /// Tasks that wait for a disk at the second sample.
    pub blocked: Option<u64>,
    /// Context switches per second.
    pub switches: Option<f64>,
    /// Tasks created per second, threads included.
    pub created: Option<f64>,
    /// When the second sample was taken: milliseconds since 1970 (UTC).
    pub unix_ms: u64,
    /// Memory, and the part of it that programs can get without swapping, in KiB.
    pub memory_kib: Option<(u64, u64)>,
    /// Interrupts and softirqs that were handled, most often first; empty unless wanted, as all that follows.
    pub interrupts: Vec<InterruptUse>,
    /// Nodes, ascending.
    pub nodes: Vec<NodeUse>,
    /// Control groups, ascending by path.
    pub groups: Vec<GroupUse>,
    /// Virtual machines, ascending by process.
    pub guests: Vec<GuestSample>,
    /// Groups of resctrl, ascending by group and domain.
    pub bandwidth: Vec<BandwidthUse>,
    /// Details of single processes, ascending by process.
    pub details: Vec<(u32, ProcessDetails)>,
    /// Latencies of the interval; absent without BPF.
    pub latency: Option<LatencySample>,
    /// Whether threads were counted by counters of the CPUs, as far as they used enough CPU time.
    pub has_counters: bool,
    /// Whether all figures are means since boot.
    pub is_since_boot: bool,
}

/// A thread cannot run for more than this many intervals: reading a sample takes time, too.
const MOST_INTERVALS: u64 = 2;

/// Increase of a counter. One that has decreased counts as 0.
fn rate(before: Option<u64>, now: Option<u64>, seconds: f64) -> Option<f64> {
    before.zip(now).map(|(before, now)| now.saturating_sub(before) as f64 / seconds)
}

impl Picture {
    /// Returns what happened between `before` and `now`; `None` if no time has passed.
    pub fn new(machine: &Machine, before: &Sample, now: &Sample) -> Option<Self> {
        Self::reusing(Vec::new(), machine, before, now)
    }

    /// As [`Self::new`], in the memory of tasks that are not needed any more: the kernel takes long to clear new memory for
    /// thousands of them.
    pub fn reusing(
        mut tasks: Vec<TaskUse>,
        machine: &Machine,
        before: &Sample,
        now: &Sample,
    ) -> Option<Self> {
        let interval_ns = now.at_ns.checked_sub(before.at_ns).filter(|&ns| ns > 0)?;
        let seconds = interval_ns as f64 / 1e9;
        let levels = LEVELS.map(|level| LevelUnits::new(machine, level));
        let mut cpus: Vec<CpuUse> = joined(&before.cpus, &now.cpus, |one| one.cpu)
            .map(|(old, new)| CpuUse {
                cpu: new.cpu,
                shares: old.and_then(|old| CpuShares::between(old, new)),
                khz: new.khz,
                millidegrees: new.millidegrees,
                ..CpuUse::default()
            })
            .collect();
        tasks.clear();
        add_task_uses(&mut tasks, &levels, [&before.tasks, &now.tasks], interval_ns);
        let mut processes: Vec<ProcessUse> =
            joined(&before.processes, &now.processes, |one| (one.pid, one.start))
                .map(|(old, new)| process_use(old, new, seconds, cpus.len()))
                .collect();
        counted::enter(before, now, seconds, &mut tasks, &mut processes);
        unit_sums::add_tasks(&mut cpus, &tasks);
        Some(Self {
            seconds,
            units: levels.iter().flat_map(|level| unit_sums::of(level, &cpus)).collect(),
            cpus,
            tasks,
            processes,
            users: Arc::default(),
            runnable: now.system.runnable,
            blocked: now.system.blocked,
            switches: rate(before.system.switches, now.system.switches, seconds),
            created: rate(before.system.created, now.system.created, seconds),
            unix_ms: now.unix_ms,
            memory_kib: now.system.memory_kib.zip(now.system.available_kib),
            interrupts: resources::interrupts(before, now, seconds),
            nodes: resources::nodes(before, now, seconds),
            groups: resources::groups(before, now, seconds),
            guests: now.guests.clone(),
            bandwidth: resources::bandwidth(before, now, seconds),
            details: now.details.clone(),
            latency: resources::latency(before, now),
            has_counters: now.counted.is_some(),
            is_since_boot: false,
        })
    }

    /// Returns the means since boot, which a single sample has; `None` if no time has passed.
    pub fn since_boot(machine: &Machine, now: &Sample) -> Option<Self> {
        let boot = Sample {
            system: SystemCounters { switches: Some(0), created: Some(0), ..SystemCounters::default() },
            cpus: now.cpus.iter().map(|one| CpuTimes { cpu: one.cpu, ..CpuTimes::default() }).collect(),
            ..Sample::default()
        };
        let picture = Self::new(machine, &boot, now)?;
        Some(Self { is_since_boot: true, ..picture })
    }

    /// Returns the time that all tasks waited for a CPU, in tasks that wait, also where [`Self::tasks`] has only some of them.
    /// `None` without `schedstat`.
    pub fn wait(&self) -> Option<f64> {
        self.cpus.iter().filter_map(|one| one.wait).reduce(|sum, one| sum + one)
    }

    /// Returns the units of one level.
    pub fn units_of(&self, level: Level) -> impl Iterator<Item = &UnitUse> {
        self.units.iter().filter(move |unit| unit.level == level)
    }
}

/// Finds elements of an ascending list by keys that ascend, too.
pub(crate) struct Former<I: Iterator>(Peekable<I>);

impl<'a, T: 'a, I: Iterator<Item = &'a T>> Former<I> {
    pub(crate) fn new(list: impl IntoIterator<IntoIter = I>) -> Self {
        Self(list.into_iter().peekable())
    }

    /// Returns the element with a key.
    pub(crate) fn find<K: Ord>(&mut self, wanted: &K, key: impl Fn(&T) -> K) -> Option<&'a T> {
        while self.0.next_if(|old| key(old) < *wanted).is_some() {}
        self.0.next_if(|old| key(old) == *wanted)
    }
}

/// Pairs each element of `now` with that of `before` that has the same key. Both are ascending.
fn joined<'a, T, K: Ord>(
    before: &'a [T],
    now: &'a [T],
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = (Option<&'a T>, &'a T)> {
    let mut former = Former::new(before);
    now.iter().map(move |new| (former.find(&key(new), &key), new))
}

/// Fills in what each thread did. Blocks that both samples have are those of threads that did nothing, and are not compared.
fn add_task_uses(
    tasks: &mut Vec<TaskUse>,
    machine: &[LevelUnits; 3],
    [before, now]: [&TaskList; 2],
    interval_ns: u64,
) {
    let shared = now.shared_with(before);
    let is_shared = |block: &TaskBlock| shared.contains(&block.as_ptr());
    let changed = before.blocks().iter().filter(|block| !is_shared(block));
    let mut former = Former::new(changed.flat_map(|block| block.iter()));
    let (mut pid, mut resident_kib) = (0, 0);
    for block in now.blocks() {
        if block[0].id.pid != pid {
            (pid, resident_kib) = (block[0].id.pid, block[0].resident_kib);
        }
        let is_shared = is_shared(block);
        tasks.extend(block.iter().map(|new| {
            let old = if is_shared { Some(new) } else { former.find(&new.id, |task| task.id) };
            TaskUse { resident_kib, ..task_use(machine, old, new, interval_ns) }
        }));
    }
}

fn task_use(
    levels: &[LevelUnits; 3],
    old: Option<&TaskSample>,
    new: &TaskSample,
    interval_ns: u64,
) -> TaskUse {
    let seconds = interval_ns as f64 / 1e9;
    let most_ns = interval_ns.saturating_mul(MOST_INTERVALS);
    let is_other = old.is_some_and(|old| new.run_ns.saturating_sub(old.run_ns) > most_ns);
    let old = old.filter(|_| !is_other);
    let run_ns = match old {
        _ if is_other => 0,
        Some(old) => new.run_ns.saturating_sub(old.run_ns),
        None => new.run_ns.min(interval_ns),
    };
    // The counters of a new task begin at 0.
    let before = |of: fn(&TaskSample) -> Option<u64>| old.map_or((!is_other).then_some(0), of);
    let since = |of: fn(&TaskSample) -> Option<u64>| rate(before(of), of(new), seconds);
    let wait = since(|task| task.wait_ns).map(|ns_per_second| ns_per_second / 1e9);
    TaskUse {
        id: new.id,
        name: new.name,
        parent: new.parent,
        uid: new.uid,
        is_kernel: new.is_kernel,
        is_new: old.is_none(),
        state: new.state,
        cpu: new.cpu,
        run: run_ns as f64 / interval_ns as f64,
        // A new task has not waited for longer than the interval; a wait of others may have begun before it.
        wait: if old.is_none() { wait.map(|wait| wait.min(1.0)) } else { wait },
        slices: since(|task| task.slices),
        voluntary: since(|task| task.voluntary),
        involuntary: since(|task| task.involuntary),
        migration: old.and_then(|old| migration(levels, old.cpu, new.cpu)),
        migrations: new.migrations.as_deref().filter(|_| !is_other).and_then(|new| {
            let before = old.and_then(|old| old.migrations.as_deref().copied()).unwrap_or_default();
            // Counters that began again meanwhile tell nothing.
            let has_all = new.iter().zip(before).all(|(&new, before)| new >= before);
            has_all.then(|| Box::new(std::array::from_fn(|at| (new[at] - before[at]) as f64 / seconds)))
        }),
        allowed: new.allowed.clone(),
        plan: None,
        resident_kib: new.resident_kib,
        counted: None,
    }
}

/// `cpus` is the number of online CPUs.
fn process_use(old: Option<&ProcessSample>, new: &ProcessSample, seconds: f64, cpus: usize) -> ProcessUse {
    let before = old.map_or(Some(0), |old| old.cpu_ns);
    let run = rate(before, new.cpu_ns, seconds).map(|ns_per_second| ns_per_second / 1e9);
    let run = match old {
        None => run.map(|run| run.min(f64::from(new.threads.max(1)))),
        Some(old) => {
            // Threads that began and ended meanwhile are in neither number, but have run on the same CPUs.
            let most = old.threads.max(new.threads).max(cpus as u32).max(1);
            run.filter(|&run| run <= f64::from(most) * MOST_INTERVALS as f64)
        }
    };
    ProcessUse { pid: new.pid, start: new.start, run, threads: new.threads, wait: None, counted: None }
}

/// Returns the distance of a migration; `None` if it is none.
pub(crate) fn migration([cluster, llc, node]: &[LevelUnits; 3], from: CpuId, to: CpuId) -> Option<Migration> {
    (from != to).then(|| {
        if node.are_apart(from, to) {
            Migration::AcrossNode
        } else if llc.are_apart(from, to) {
            Migration::AcrossLlc
        } else if cluster.are_apart(from, to) {
            Migration::AcrossCluster
        } else {
            Migration::WithinCluster
        }
    })
}

#[cfg(test)]
mod tests;

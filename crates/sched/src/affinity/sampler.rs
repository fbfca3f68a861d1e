//! Samples the threads of the work: how busy they are, where they run, and what others changed.

use super::{
    decision::{Limits, ThreadReading},
    units::Units,
};
use manycore_control::placement::ThreadId;
use manycore_linux::{affinity, clock::now_ns, counters::KernelCounters, counters::ticks_per_second, tasks};
use manycore_topology::{CpuId, CpuSet};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Number of changes that the kernel may refuse before a thread is left alone. A CPU that has just come online enters a
/// cpuset a moment later.
const MAX_REFUSALS: u32 = 3;

/// A thread of the work.
struct KnownThread {
    id: ThreadId,
    group: usize,
    times: tasks::ThreadTimes,
    at_ns: u64,
    /// The CPUs that it may use without us.
    original: CpuSet,
    /// The affinity that was set, if it is in force.
    confined: Option<CpuSet>,
    /// Whether it has an affinity that it neither chose nor was meant to have.
    is_displaced: bool,
    is_fixed: bool,
    /// Whether it had another affinity than the one that was set at the last sample.
    was_changed: bool,
    refusals: u32,
}

/// A process of the work.
struct KnownProcess {
    start: u64,
    group: usize,
    /// The CPUs that threads get which it creates.
    original: CpuSet,
    /// The affinities that its threads were given, and may pass on.
    given: BTreeSet<CpuSet>,
}

/// Something that another program or the kernel did to a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Its affinity is not the one that was set, so it is left alone.
    ChoseCpus { thread: ThreadId, cpus: CpuSet },
    /// It inherited an affinity that was set for another, or the kernel replaced the one that was set. It has to get its
    /// own CPUs back.
    Displaced { tid: u32 },
}

/// What was found in an interval.
#[derive(Default)]
pub(super) struct Sample {
    pub readings: Vec<ThreadReading>,
    /// Load of all other work in each unit, in CPUs.
    pub foreign: Vec<f64>,
    pub findings: Vec<Finding>,
}

/// All threads of the work.
pub(super) struct ThreadSampler {
    threads: BTreeMap<u32, KnownThread>,
    processes: BTreeMap<u32, KnownProcess>,
    counters: KernelCounters,
    /// Busy ticks of each CPU at the last sample, without those of other virtual machines.
    ticks: BTreeMap<CpuId, u64>,
    at_ns: u64,
}

/// A thread that did something in an interval.
struct ActiveThread {
    tid: u32,
    demand: f64,
    run_cpus: f64,
}

impl ThreadSampler {
    pub fn new() -> Self {
        Self {
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            counters: KernelCounters::at(Path::new("/")),
            ticks: BTreeMap::new(),
            at_ns: now_ns(),
        }
    }

    /// Returns the running processes of a group.
    pub fn processes_of(&self, group: usize) -> Vec<u32> {
        self.processes.iter().filter(|(_, process)| process.group == group).map(|(pid, _)| *pid).collect()
    }

    /// Returns the number of threads.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Adds the threads of `processes` that are new. Those of another group stay there.
    pub fn discover(&mut self, group: usize, processes: &BTreeSet<u32>) {
        for &pid in processes {
            let known = self.processes.contains_key(&pid);
            if !known && !self.add_process(group, pid) {
                continue;
            }
            for tid in tasks::threads(pid) {
                if !self.threads.contains_key(&tid) {
                    self.add_thread(pid, tid);
                }
            }
        }
    }

    fn add_process(&mut self, group: usize, pid: u32) -> bool {
        let (Some(start), Ok(now)) = (tasks::start_time(pid), affinity::of_thread(pid)) else { return false };
        if tasks::is_kernel(pid) {
            return false;
        }
        // Its parent may have ended, as that of a daemon does.
        let parent = tasks::parent(pid).and_then(|parent| self.processes.get(&parent));
        let inherited = |process: &&KnownProcess| process.given.contains(&now);
        let same_group = || self.processes.values().filter(|process| process.group == group);
        let heir_of =
            parent.map_or_else(|| same_group().find(inherited), |parent| Some(parent).filter(inherited));
        let (original, given) = match heir_of {
            Some(parent) => (parent.original.clone(), parent.given.clone()),
            None => (now, BTreeSet::new()),
        };
        self.processes.insert(pid, KnownProcess { start, group, original, given });
        true
    }

    fn add_thread(&mut self, pid: u32, tid: u32) {
        let Some(process) = self.processes.get(&pid) else { return };
        let (Ok(now), Some(times)) = (affinity::of_thread(tid), tasks::times(pid, tid)) else { return };
        let is_inherited = process.given.contains(&now);
        let thread = KnownThread {
            id: ThreadId { pid, start: process.start, tid },
            group: process.group,
            times,
            at_ns: now_ns(),
            original: if is_inherited { process.original.clone() } else { now },
            confined: None,
            is_displaced: is_inherited,
            is_fixed: false,
            was_changed: false,
            refusals: 0,
        };
        self.threads.insert(tid, thread);
    }

    /// Samples all known threads.
    pub fn sample(&mut self, units: &Units, limits: &Limits) -> Sample {
        self.processes.retain(|pid, process| tasks::start_time(*pid) == Some(process.start));
        let online = affinity::online();
        let mut sample = Sample::default();
        let mut ours = vec![0.0; units.all.len()];
        for active in self.advance(limits) {
            let Some(thread) = self.threads.get_mut(&active.tid) else { continue };
            let Some(scheduling) = tasks::scheduling(thread.id.pid, active.tid) else { continue };
            if let Some(unit) = units.of_cpu(scheduling.cpu) {
                ours[unit] += active.run_cpus;
            }
            sample.findings.extend(thread.check(online.as_ref()));
            sample.readings.push(ThreadReading {
                tid: active.tid,
                group: thread.group,
                cpu: scheduling.cpu,
                demand: active.demand,
                original: thread.original.clone(),
                confined: thread.confined.clone(),
                is_fixed: thread.is_fixed || thread.was_changed || scheduling.is_realtime,
            });
        }
        sample.foreign = self.foreign(units, &ours);
        sample
    }

    /// Reads the times of all threads. Forgets those that have ended; returns those that ran, waited or are confined.
    fn advance(&mut self, limits: &Limits) -> Vec<ActiveThread> {
        let mut active = Vec::new();
        let processes = &self.processes;
        self.threads.retain(|&tid, thread| {
            let is_same =
                processes.get(&thread.id.pid).is_some_and(|process| process.start == thread.id.start);
            let Some(times) = tasks::times(thread.id.pid, tid).filter(|_| is_same) else { return false };
            let now = now_ns();
            let elapsed = now.saturating_sub(thread.at_ns).max(1) as f64;
            let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
            let run = share(times.run_ns, thread.times.run_ns);
            let demand = (run + share(times.wait_ns, thread.times.wait_ns)).min(1.0);
            (thread.times, thread.at_ns) = (times, now);
            if demand >= limits.idle || thread.confined.is_some() || thread.is_displaced {
                active.push(ActiveThread { tid, demand, run_cpus: run });
            }
            true
        });
        active
    }

    /// Returns the load of all other work in each unit, in CPUs: what `/proc/stat` counted there, without what our threads
    /// used (`ours`). A thread that migrated is counted where it is now, so only the sum over all units is exact: the
    /// loads are scaled to it.
    fn foreign(&mut self, units: &Units, ours: &[f64]) -> Vec<f64> {
        let ticks: BTreeMap<CpuId, u64> = self
            .counters
            .cpu_ticks()
            .into_iter()
            .map(|ticks| (ticks.cpu, ticks.busy.saturating_sub(ticks.steal)))
            .collect();
        let before = std::mem::replace(&mut self.ticks, ticks);
        let now = now_ns();
        let seconds = now.saturating_sub(std::mem::replace(&mut self.at_ns, now)) as f64 / 1e9;
        let busy = |cpu: CpuId| {
            let (now, before) = (self.ticks.get(&cpu)?, before.get(&cpu)?);
            Some(now.saturating_sub(*before) as f64 / ticks_per_second() as f64 / seconds.max(1e-3))
        };
        let all: Vec<f64> = units.all.iter().map(|unit| unit.cpus.iter().filter_map(busy).sum()).collect();
        let total = (all.iter().sum::<f64>() - ours.iter().sum::<f64>()).max(0.0);
        let surplus: Vec<f64> = all.iter().zip(ours).map(|(all, ours)| (all - ours).max(0.0)).collect();
        let scale = (total / surplus.iter().sum::<f64>().max(1e-9)).min(1.0);
        surplus.into_iter().map(|load| load * scale).collect()
    }

    /// Returns a thread and the affinities that a change of it needs: that which it has now, that which it gets at the end,
    /// and that of threads that its process creates.
    pub fn change(&self, tid: u32) -> Option<(ThreadId, CpuSet, CpuSet, CpuSet)> {
        let thread = self.threads.get(&tid)?;
        let now = thread.confined.clone().or_else(|| affinity::of_thread(tid).ok())?;
        let process = self.processes.get(&thread.id.pid)?;
        Some((thread.id, now, thread.original.clone(), process.original.clone()))
    }

    /// Records that a thread was given these CPUs.
    pub fn changed(&mut self, tid: u32, cpus: &CpuSet) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        (thread.refusals, thread.is_displaced) = (0, false);
        if *cpus == thread.original {
            thread.confined = None;
            return;
        }
        thread.confined = Some(cpus.clone());
        if let Some(process) = self.processes.get_mut(&thread.id.pid) {
            process.given.insert(cpus.clone());
        }
    }

    /// Records that a change was refused. Returns whether the thread is left alone from now on.
    pub fn refused(&mut self, tid: u32, is_final: bool) -> bool {
        let Some(thread) = self.threads.get_mut(&tid) else { return false };
        thread.refusals += 1;
        thread.is_fixed |= is_final || thread.refusals >= MAX_REFUSALS;
        thread.is_fixed
    }
}

impl KnownThread {
    /// Compares the affinity with the one that was set.
    fn check(&mut self, online: Option<&CpuSet>) -> Option<Finding> {
        let now = affinity::of_thread(self.id.tid).ok()?;
        let Some(confined) = &self.confined else {
            if self.is_displaced && !self.is_fixed {
                return Some(Finding::Displaced { tid: self.id.tid });
            }
            // It is free to change its affinity.
            if !self.is_fixed {
                self.original = now;
            }
            return None;
        };
        let expected = online.map_or_else(|| confined.clone(), |online| confined.intersection(online));
        let was_changed = std::mem::replace(&mut self.was_changed, now != expected);
        if now == expected {
            return None;
        }
        if expected.is_subset(&now) {
            (self.confined, self.is_displaced, self.was_changed) = (None, true, false);
            return Some(Finding::Displaced { tid: self.id.tid });
        }
        // While a CPU goes offline, affinities and the list of online CPUs do not change at the same time.
        if !was_changed {
            return None;
        }
        (self.confined, self.is_fixed, self.was_changed) = (None, true, false);
        Some(Finding::ChoseCpus { thread: self.id, cpus: now })
    }
}

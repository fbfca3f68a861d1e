//! The placement trace: where the tasks of a placed command ran, and whether the plan held.

use crate::{PlacementPlan, TaskId};
use manycore_topology::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`PlacementTrace::schema`] that this version writes.
pub const TRACE_SCHEMA: &str = "manycore/placement-trace/1";

/// Share of the CPU time that must have been observed to conclude anything.
const MIN_OBSERVED: f64 = 0.1;

/// Share of the CPU time that must have been observed to conclude that the plan held, and not only its
/// observed part.
pub const MIN_COVERAGE: f64 = 0.9;

/// What was observed of a placed command, or of processes that were placed while they ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacementTrace {
    /// Always [`TRACE_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = TRACE_SCHEMA)))]
    pub schema: String,
    /// What was placed, as readable text.
    pub subject: String,
    /// The plan.
    pub plan: Option<PlacementPlan>,
    /// What holds the tasks on their CPUs: a control group, or affinities alone with the reason.
    pub held_by: String,
    /// Elapsed time in seconds.
    pub seconds: f64,
    /// CPU time in nanoseconds of everything that was started, as counted by the kernel, including
    /// processes that left their parents. For processes that ran before: since they were placed, as far as
    /// readings of them or their parents show.
    pub cpu_ns: Option<u64>,
    /// Delays from the creation of a task until it was pinned, ascending, in nanoseconds, for creations
    /// that the kernel reported.
    pub pin_delays_ns: Vec<u64>,
    /// Tasks, in the order in which they were first observed.
    pub tasks: Vec<TaskTrace>,
    /// Remarks, one sentence each.
    pub notes: Vec<String>,
}

/// The trace of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskTrace {
    /// Thread id.
    pub tid: TaskId,
    /// Id of its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The last worker that the task was assigned to, from 0; absent if there was none.
    pub worker: Option<usize>,
    /// CPUs that the task, or a task that it inherited them from, chose itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_affinity: Option<CpuSet>,
    /// CPU time in nanoseconds at the last reading.
    pub cpu_ns: u64,
    /// CPU time in nanoseconds before the task was pinned.
    pub unpinned_ns: u64,
    /// CPU time in nanoseconds after that, by CPU. Time between two readings counts for the CPU of the
    /// second reading.
    pub cpu_ns_by_cpu: BTreeMap<CpuId, u64>,
    /// CPU time in nanoseconds on CPUs outside the worker's CPUs.
    pub outside_ns: u64,
    /// Migrations between CPUs since the first reading of the counter.
    pub migrations: Option<u64>,
    /// Number of wake-ups, counted as voluntary context switches.
    pub wakeups: Option<u64>,
    /// Number of wake-ups on a node without memory of the worker.
    pub wakeups_off_node: u64,
    #[serde(skip)]
    last: PreviousReading,
}

/// The previous reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PreviousReading {
    cpu_ns: u64,
    migrations: Option<u64>,
    wakeups: Option<u64>,
}

/// One reading of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskReading<'a> {
    /// CPU time so far in nanoseconds.
    pub cpu_ns: u64,
    /// CPU on which the task runs or ran last.
    pub cpu: CpuId,
    /// Worker that the task is assigned to.
    pub worker: Option<usize>,
    /// CPUs of that worker; all CPUs if there is none.
    pub worker_cpus: &'a CpuSet,
    /// CPUs of the nodes with the worker's memory; empty if the machine reports no nodes.
    pub near_memory: &'a CpuSet,
    /// Migrations so far, if they were read and the kernel counts them.
    pub migrations: Option<u64>,
    /// Voluntary context switches so far, if they were read.
    pub wakeups: Option<u64>,
}

impl PlacementTrace {
    /// Creates the trace for a plan that is about to be applied.
    pub fn for_plan(plan: PlacementPlan, subject: String) -> Self {
        let schema = TRACE_SCHEMA.to_owned();
        Self { schema, subject, plan: Some(plan), ..Self::default() }
    }

    /// Adds a task that is pinned for the first time or has chosen its own CPUs, with the CPU time that it
    /// used before. Returns its index.
    pub fn add_task(
        &mut self,
        tid: TaskId,
        pid: u32,
        name: String,
        worker: Option<usize>,
        cpu_ns: u64,
    ) -> usize {
        let last = PreviousReading { cpu_ns, ..PreviousReading::default() };
        let trace =
            TaskTrace { tid, pid, name, worker, cpu_ns, unpinned_ns: cpu_ns, last, ..TaskTrace::default() };
        self.tasks.push(trace);
        self.tasks.len() - 1
    }

    /// Returns the share of the CPU time after pinning that was used on the workers' CPUs; `None` if none
    /// was observed.
    pub fn share_in_place(&self) -> Option<f64> {
        let (outside, all) = self.tasks.iter().fold((0, 0), |(outside, all), task| {
            (outside + self.outside_ns(task), all + task.cpu_ns - task.unpinned_ns)
        });
        (all > 0).then(|| 1.0 - outside as f64 / all as f64)
    }

    /// Returns the CPU time in nanoseconds that a task used outside of its place: its worker's CPUs, or those of the whole plan
    /// if it has chosen its CPUs itself.
    pub fn outside_ns(&self, task: &TaskTrace) -> u64 {
        match (&task.own_affinity, &self.plan) {
            (Some(_), Some(plan)) => {
                let planned = plan.cpus();
                let outside = task.cpu_ns_by_cpu.iter().filter(|(cpu, _)| !planned.contains(**cpu));
                outside.map(|(_, ns)| ns).sum()
            }
            _ => task.outside_ns,
        }
    }

    /// Whether a task has chosen CPUs itself that are not planned.
    fn has_left(&self, task: &TaskTrace) -> bool {
        let is_planned = |own| self.plan.as_ref().is_some_and(|plan| CpuSet::is_subset(own, &plan.cpus()));
        task.own_affinity.as_ref().is_some_and(|own| !is_planned(own))
    }

    /// Returns the share of the command's CPU time that was observed while its tasks were pinned; `None` if
    /// the total is unknown.
    pub fn coverage(&self) -> Option<f64> {
        let seen: u64 = self.tasks.iter().map(|task| task.cpu_ns.saturating_sub(task.unpinned_ns)).sum();
        self.cpu_ns.filter(|&all| all > 0).map(|all| (seen as f64 / all as f64).min(1.0))
    }

    /// Returns whether all observed CPU time after pinning was on the planned CPUs and no task chose other
    /// CPUs itself; `None` if almost nothing was observed.
    pub fn held_as_observed(&self) -> Option<bool> {
        self.held_with_coverage(MIN_OBSERVED)
    }

    /// The same, but requires that at least this share of the CPU time was observed.
    pub fn held_with_coverage(&self, least: f64) -> Option<bool> {
        let seen = !self.tasks.is_empty() && self.coverage().is_none_or(|share| share >= least);
        let strayed = self.tasks.iter().any(|task| self.outside_ns(task) > 0 || self.has_left(task));
        if strayed { Some(false) } else { seen.then_some(true) }
    }

    /// Returns the delay in nanoseconds that this share of the pinned tasks did not exceed.
    pub fn pin_delay_ns(&self, share: f64) -> Option<u64> {
        let last = self.pin_delays_ns.len().checked_sub(1)?;
        self.pin_delays_ns.get((share * last as f64).round() as usize).copied()
    }
}

impl TaskTrace {
    /// Adds a reading.
    pub fn add_reading(&mut self, look: &TaskReading) {
        let used = look.cpu_ns.saturating_sub(self.last.cpu_ns);
        self.cpu_ns += used;
        self.worker = look.worker;
        if used > 0 {
            *self.cpu_ns_by_cpu.entry(look.cpu).or_default() += used;
            self.outside_ns += if look.worker_cpus.contains(look.cpu) { 0 } else { used };
        }
        let since = |now: Option<u64>, last: Option<u64>| Some(now?.saturating_sub(last?));
        if let Some(moved) = since(look.migrations, self.last.migrations) {
            self.migrations = Some(self.migrations.unwrap_or(0) + moved);
        }
        if let Some(woken) = since(look.wakeups, self.last.wakeups) {
            self.wakeups = Some(self.wakeups.unwrap_or(0) + woken);
            if !look.near_memory.is_empty() && !look.near_memory.contains(look.cpu) {
                self.wakeups_off_node += woken;
            }
        }
        self.last = PreviousReading {
            cpu_ns: look.cpu_ns.max(self.last.cpu_ns),
            migrations: look.migrations.or(self.last.migrations),
            wakeups: look.wakeups.or(self.last.wakeups),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlannedWorker;

    #[test]
    fn time_counts_for_the_cpu_that_is_found() {
        let mut trace = PlacementTrace::default();
        let (place, near): (CpuSet, CpuSet) = ("2".parse().unwrap(), "0-3".parse().unwrap());
        let at = trace.add_task(7, 7, "worker".into(), Some(0), 10);
        let look = |cpu_ns, cpu, count| TaskReading {
            cpu_ns,
            cpu,
            worker: Some(0),
            worker_cpus: &place,
            near_memory: &near,
            migrations: Some(count),
            wakeups: Some(count),
        };
        trace.tasks[at].add_reading(&look(40, 2, 5));
        assert_eq!(trace.held_as_observed(), Some(true));
        assert_eq!(trace.share_in_place(), Some(1.0));
        trace.tasks[at].add_reading(&look(50, 8, 8));
        let task = &trace.tasks[at];
        assert_eq!((task.cpu_ns, task.unpinned_ns, task.outside_ns), (50, 10, 10));
        assert_eq!(task.cpu_ns_by_cpu, BTreeMap::from([(2, 30), (8, 10)]));
        assert_eq!((task.migrations, task.wakeups, task.wakeups_off_node), (Some(3), Some(3), 3));
        assert_eq!((trace.held_as_observed(), trace.share_in_place()), (Some(false), Some(0.75)));
        // 10 of the 50 ns were used before the task was pinned.
        trace.cpu_ns = Some(100);
        assert_eq!(trace.coverage(), Some(0.4));
    }

    /// Regression test: a program that pinned its threads to planned CPUs in another order than the plan was reported as one that
    /// did not keep to it.
    #[test]
    fn a_task_that_chooses_planned_cpus_keeps_to_the_plan() {
        let worker =
            |cpu| PlannedWorker { cpus: CpuSet::single(cpu), memory_nodes: Vec::new(), why: String::new() };
        let [schema, machine_fingerprint, policy] = [(); 3].map(|()| String::new());
        let plan = PlacementPlan { schema, machine_fingerprint, policy, workers: vec![worker(0), worker(1)] };
        let held = |own: &str, ran_on: u32| {
            let mut trace = PlacementTrace::for_plan(plan.clone(), String::new());
            let at = trace.add_task(7, 7, "worker".into(), None, 0);
            trace.tasks[at].own_affinity = Some(own.parse().unwrap());
            (trace.tasks[at].cpu_ns, trace.tasks[at].outside_ns) = (50, 50);
            trace.tasks[at].cpu_ns_by_cpu = BTreeMap::from([(ran_on, 50)]);
            (trace.held_as_observed(), trace.share_in_place())
        };
        assert_eq!(held("1", 1), (Some(true), Some(1.0)));
        assert_eq!(held("0-1", 1), (Some(true), Some(1.0)));
        assert_eq!(held("1-2", 1), (Some(false), Some(1.0)));
        assert_eq!(held("2", 2), (Some(false), Some(0.0)));
    }

    #[test]
    fn unobserved_cpu_time_did_not_hold() {
        assert_eq!(PlacementTrace::default().held_as_observed(), None);
        let place: CpuSet = "2".parse().unwrap();
        let mut trace = PlacementTrace { cpu_ns: Some(10_000), ..PlacementTrace::default() };
        let at = trace.add_task(7, 7, "main".into(), Some(0), 0);
        let (near, none) = (&place, None);
        let look = TaskReading {
            cpu_ns: 14,
            cpu: 2,
            worker: Some(0),
            worker_cpus: &place,
            near_memory: near,
            migrations: none,
            wakeups: none,
        };
        trace.tasks[at].add_reading(&look);
        assert_eq!((trace.coverage(), trace.held_as_observed()), (Some(0.0014), None));
        trace.cpu_ns = Some(20);
        assert_eq!((trace.held_as_observed(), trace.held_with_coverage(MIN_COVERAGE)), (Some(true), None));
        trace.cpu_ns = Some(15);
        assert_eq!(trace.held_with_coverage(MIN_COVERAGE), Some(true));
    }

    #[test]
    fn delays_are_ranked() {
        let trace = PlacementTrace { pin_delays_ns: (0..=100).collect(), ..PlacementTrace::default() };
        assert_eq!([0.5, 0.99, 1.0].map(|share| trace.pin_delay_ns(share)), [Some(50), Some(99), Some(100)]);
        assert_eq!(PlacementTrace::default().pin_delay_ns(0.5), None);
        assert_eq!(PlacementTrace::default().share_in_place(), None);
    }
}

//! Where the tasks of a placed command really ran, and whether its plan held.

use super::{Plan, Task};
use manycore_topology::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`Residence::schema`] that this version writes.
pub const RESIDENCE_SCHEMA: &str = "manycore/residence/1";

/// Share of the CPU time that must have been seen to say anything.
const SEEN: f64 = 0.1;

/// Share of the CPU time that must have been seen to say that a plan held, and not only what was seen of it.
pub const SHOWN: f64 = 0.9;

/// What was seen of a placed command, or of processes that were placed while they ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Residence {
    /// Always [`RESIDENCE_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// What was placed, for people.
    pub subject: String,
    /// The plan.
    pub plan: Option<Plan>,
    /// What holds the tasks where they are: a control group, or affinities alone, and then why.
    pub hold: String,
    /// Wall time in seconds.
    pub seconds: f64,
    /// CPU time in nanoseconds of all that was started, as the kernel counted it, also of what left its parents. Of
    /// processes that ran before: since they were placed, as far as a look at them or at their parents could tell.
    pub cpu_ns: Option<u64>,
    /// Times from the birth of a task until it was on its seat, ascending, in nanoseconds; where the kernel told
    /// of the birth.
    pub delays_ns: Vec<u64>,
    /// Tasks, in the order in which they were seen first.
    pub tasks: Vec<TaskStay>,
    /// What was remarkable, a sentence each.
    pub notes: Vec<String>,
}

/// One task's stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStay {
    /// Thread id.
    pub tid: Task,
    /// Process that it is a thread of.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Number of the worker in whose place it was last, from 0; absent where it was on none.
    pub worker: Option<usize>,
    /// CPUs that it, or who made it, chose instead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chose: Option<CpuSet>,
    /// CPU time in nanoseconds from the first look at it to the last.
    pub cpu_ns: u64,
    /// Of it: what it had used before it was on its seat.
    pub before_ns: u64,
    /// Of it: by CPU, after that. Time between two looks counts for the CPU that the second one finds.
    pub on: BTreeMap<CpuId, u64>,
    /// Of it: on CPUs outside its place.
    pub outside_ns: u64,
    /// Migrations between CPUs since the first look that the kernel counted.
    pub migrations: Option<u64>,
    /// Times that it woke up after waiting, as its voluntary context switches.
    pub wakeups: Option<u64>,
    /// Of them: on a node that its place has no memory on.
    pub wakeups_elsewhere: u64,
    #[serde(skip)]
    last: Last,
}

/// The look before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Last {
    cpu_ns: u64,
    migrations: Option<u64>,
    wakeups: Option<u64>,
}

/// One look at a task.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// CPU time until now in nanoseconds.
    pub cpu_ns: u64,
    /// CPU that it is on, or was last.
    pub cpu: CpuId,
    /// Worker in whose place it is.
    pub worker: Option<usize>,
    /// CPUs of that place; all where it has none.
    pub place: &'a CpuSet,
    /// CPUs of the nodes with the place's memory; empty where the machine has no nodes.
    pub near: &'a CpuSet,
    /// Migrations until now, where they were read and the kernel counts them.
    pub migrations: Option<u64>,
    /// Voluntary context switches until now, where they were read.
    pub wakeups: Option<u64>,
}

impl Residence {
    /// Of a plan that is about to be applied.
    pub fn of(plan: Plan, subject: String) -> Self {
        let schema = RESIDENCE_SCHEMA.to_owned();
        Self { schema, subject, plan: Some(plan), ..Self::default() }
    }

    /// A task is on its seat for the first time, or goes its own way, with this much CPU time used before.
    pub fn arrived(
        &mut self,
        tid: Task,
        pid: u32,
        name: String,
        worker: Option<usize>,
        cpu_ns: u64,
    ) -> usize {
        let last = Last { cpu_ns, ..Last::default() };
        let stay =
            TaskStay { tid, pid, name, worker, cpu_ns, before_ns: cpu_ns, last, ..TaskStay::default() };
        self.tasks.push(stay);
        self.tasks.len() - 1
    }

    /// Share of the CPU time after seating that was used within the places; absent where none was seen.
    pub fn share_in_place(&self) -> Option<f64> {
        let (outside, all) = self.tasks.iter().fold((0, 0), |(outside, all), task| {
            (outside + task.outside_ns, all + task.cpu_ns - task.before_ns)
        });
        (all > 0).then(|| 1.0 - outside as f64 / all as f64)
    }

    /// Share of the command's CPU time that was seen while its tasks were placed; absent where the kernel told no
    /// total.
    pub fn coverage(&self) -> Option<f64> {
        let seen: u64 = self.tasks.iter().map(|task| task.cpu_ns.saturating_sub(task.before_ns)).sum();
        self.cpu_ns.filter(|&all| all > 0).map(|all| (seen as f64 / all as f64).min(1.0))
    }

    /// Whether all that was seen after seating stayed in its place, and no task chose CPUs of its own; absent where
    /// next to nothing was seen.
    pub fn held(&self) -> Option<bool> {
        self.shown(SEEN)
    }

    /// The same, where at least this share of the CPU time has to be seen: what was not seen is not shown.
    pub fn shown(&self, least: f64) -> Option<bool> {
        let seen = !self.tasks.is_empty() && self.coverage().is_none_or(|share| share >= least);
        let strayed = self.tasks.iter().any(|task| task.outside_ns > 0 || task.chose.is_some());
        if strayed { Some(false) } else { seen.then_some(true) }
    }

    /// The delay that this share of the seated tasks had at most, in nanoseconds.
    pub fn delay_ns(&self, share: f64) -> Option<u64> {
        let last = self.delays_ns.len().checked_sub(1)?;
        self.delays_ns.get((share * last as f64).round() as usize).copied()
    }
}

impl TaskStay {
    /// Takes note of a look.
    pub fn saw(&mut self, look: &Look) {
        let used = look.cpu_ns.saturating_sub(self.last.cpu_ns);
        self.cpu_ns += used;
        self.worker = look.worker;
        if used > 0 {
            *self.on.entry(look.cpu).or_default() += used;
            self.outside_ns += if look.place.contains(look.cpu) { 0 } else { used };
        }
        let since = |now: Option<u64>, last: Option<u64>| Some(now?.saturating_sub(last?));
        if let Some(moved) = since(look.migrations, self.last.migrations) {
            self.migrations = Some(self.migrations.unwrap_or(0) + moved);
        }
        if let Some(woken) = since(look.wakeups, self.last.wakeups) {
            self.wakeups = Some(self.wakeups.unwrap_or(0) + woken);
            if !look.near.is_empty() && !look.near.contains(look.cpu) {
                self.wakeups_elsewhere += woken;
            }
        }
        self.last = Last {
            cpu_ns: look.cpu_ns.max(self.last.cpu_ns),
            migrations: look.migrations.or(self.last.migrations),
            wakeups: look.wakeups.or(self.last.wakeups),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_for_the_cpu_that_is_found() {
        let mut stay = Residence::default();
        let (place, near): (CpuSet, CpuSet) = ("2".parse().unwrap(), "0-3".parse().unwrap());
        let at = stay.arrived(7, 7, "worker".into(), Some(0), 10);
        let look = |cpu_ns, cpu, count| Look {
            cpu_ns,
            cpu,
            worker: Some(0),
            place: &place,
            near: &near,
            migrations: Some(count),
            wakeups: Some(count),
        };
        stay.tasks[at].saw(&look(40, 2, 5));
        assert_eq!(stay.held(), Some(true));
        assert_eq!(stay.share_in_place(), Some(1.0));
        stay.tasks[at].saw(&look(50, 8, 8));
        let task = &stay.tasks[at];
        assert_eq!((task.cpu_ns, task.before_ns, task.outside_ns), (50, 10, 10));
        assert_eq!(task.on, BTreeMap::from([(2, 30), (8, 10)]));
        assert_eq!((task.migrations, task.wakeups, task.wakeups_elsewhere), (Some(3), Some(3), 3));
        assert_eq!((stay.held(), stay.share_in_place()), (Some(false), Some(0.75)));
        // Of the 50 ns that the task has used, 10 were before it was placed.
        stay.cpu_ns = Some(100);
        assert_eq!(stay.coverage(), Some(0.4));
    }

    #[test]
    fn what_was_not_seen_did_not_hold() {
        assert_eq!(Residence::default().held(), None);
        let place: CpuSet = "2".parse().unwrap();
        let mut stay = Residence { cpu_ns: Some(10_000), ..Residence::default() };
        let at = stay.arrived(7, 7, "main".into(), Some(0), 0);
        let (near, none) = (&place, None);
        let look = Look {
            cpu_ns: 14,
            cpu: 2,
            worker: Some(0),
            place: &place,
            near,
            migrations: none,
            wakeups: none,
        };
        stay.tasks[at].saw(&look);
        assert_eq!((stay.coverage(), stay.held()), (Some(0.0014), None));
        stay.cpu_ns = Some(20);
        assert_eq!((stay.held(), stay.shown(SHOWN)), (Some(true), None));
        stay.cpu_ns = Some(15);
        assert_eq!(stay.shown(SHOWN), Some(true));
    }

    #[test]
    fn delays_are_ranked() {
        let stay = Residence { delays_ns: (0..=100).collect(), ..Residence::default() };
        assert_eq!([0.5, 0.99, 1.0].map(|share| stay.delay_ns(share)), [Some(50), Some(99), Some(100)]);
        assert_eq!(Residence::default().delay_ns(0.5), None);
        assert_eq!(Residence::default().share_in_place(), None);
    }
}

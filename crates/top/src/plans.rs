//! Whether threads are where `manycore` has placed them, by its journals.

mod reader;
#[cfg(test)]
mod tests;

pub use reader::PlanReader;

use crate::picture::{Picture, TaskUse};
use manycore_topology::CpuSet;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// Whether a thread is where it was placed. The CPUs are those that it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// No journal has placed it.
    None,
    /// It may use the CPUs that it was given, and no others.
    Kept(Arc<CpuSet>),
    /// It may use other CPUs, or is on one that it was not given.
    Broken(Arc<CpuSet>),
}

/// Whether a process or a thread is where it was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// `manycore` has not placed it, or no journal that this user can read says so.
    None,
    /// It may use the CPUs that it was given, and no others; all placed threads of a process.
    Kept,
    /// It may use other CPUs, or is on one that it was not given; at least one thread of a process.
    Broken,
}

impl PlanState {
    /// Returns its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Kept => "kept",
            Self::Broken => "broken",
        }
    }

    /// Returns the state of several threads; absent if that of all is.
    pub(crate) fn of(tasks: &[TaskUse]) -> Option<Self> {
        tasks.iter().filter_map(|task| task.plan.as_ref()).map(Plan::state).max()
    }
}

impl Plan {
    /// Returns the state.
    pub fn state(&self) -> PlanState {
        match self {
            Self::None => PlanState::None,
            Self::Kept(_) => PlanState::Kept,
            Self::Broken(_) => PlanState::Broken,
        }
    }
}

/// What journals say of running processes, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plans(BTreeMap<u32, ProcessPlan>);

/// What a journal says of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessPlan {
    /// Start time in clock ticks since boot.
    start: u64,
    threads: BTreeMap<u32, ThreadPlan>,
    /// All CPUs that its threads were given, for those that it has created since.
    all: Arc<CpuSet>,
}

/// What a journal says of a thread, and what the kernel did when the journal was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadPlan {
    given: Arc<CpuSet>,
    /// The CPUs that it may use.
    now: Arc<CpuSet>,
    is_kept: bool,
}

impl Plans {
    /// Sets [`TaskUse::plan`] of all threads. Those that were placed and do not run get the CPUs that they may use now: the
    /// sampler reads these late.
    pub fn mark(&self, picture: &mut Picture) {
        let mut process = (0, None);
        for task in &mut picture.tasks {
            if process.0 != task.id.pid {
                process = (task.id.pid, self.of_process(task.id.pid, &picture.processes));
            }
            task.plan = Some(process.1.map_or(Plan::None, |plan| plan.of(task)));
            let thread = process.1.and_then(|plan| plan.threads.get(&task.id.tid));
            if let Some(thread) = thread.filter(|_| task.state != 'R') {
                task.allowed = Some(Arc::clone(&thread.now));
            }
        }
    }

    /// Returns the plan of a process, not that of an earlier one with the same id.
    fn of_process(&self, pid: u32, processes: &[crate::ProcessUse]) -> Option<&ProcessPlan> {
        let plan = self.0.get(&pid)?;
        let at = processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        (processes[at].start == plan.start).then_some(plan)
    }
}

impl ProcessPlan {
    fn of(&self, task: &TaskUse) -> Plan {
        let Some(ThreadPlan { given, is_kept, .. }) = self.threads.get(&task.id.tid) else {
            // It inherits the CPUs of the thread that created it, and may have chosen its own since.
            let is_within = |allowed: &Arc<CpuSet>| !allowed.is_empty() && allowed.is_subset(&self.all);
            let is_kept = task.allowed.as_ref().is_some_and(is_within);
            return if is_kept { Plan::Kept(Arc::clone(&self.all)) } else { Plan::None };
        };
        // The last CPU of a thread that sleeps may be the one from before it was placed.
        let is_there = task.state != 'R' || task.allowed.as_ref() != Some(given) || given.contains(task.cpu);
        let plan = if *is_kept && is_there { Plan::Kept } else { Plan::Broken };
        plan(Arc::clone(given))
    }
}

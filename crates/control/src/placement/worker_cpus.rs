//! The CPUs of the workers of a command, as processes are started and moved with them.

use crate::error::{Error, Result};
use manycore_linux::{child::StartPlacement, memory_policy::MemoryPolicy};
use manycore_placement::{MemoryPlacement, PlacementPlan, PlannedWorker, Policy, PolicyKind, Reserve};
use manycore_topology::{CpuSet, Machine};

/// The CPUs of each worker, and the memory policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerCpus {
    /// CPUs of each worker. Empty: wherever this process may run.
    pub workers: Vec<CpuSet>,
    /// The memory policy.
    pub memory: MemoryPolicy,
}

impl WorkerCpus {
    /// Returns a placement of one worker on `cpus`.
    pub fn single(cpus: CpuSet) -> Self {
        Self { workers: vec![cpus], memory: MemoryPolicy::Default }
    }

    /// Returns the CPUs of a plan's workers. If every worker may use all CPUs, the command runs where it
    /// would run without a plan.
    ///
    /// # Errors
    /// Those of the memory policy: a node that does not exist or has no memory, or
    /// [`Error::NoMemoryNodes`].
    pub(super) fn of_plan(machine: &Machine, plan: &PlacementPlan, memory: &MemoryPlacement) -> Result<Self> {
        let memory = memory_policy(machine, plan, memory)?;
        let usable = machine.usable();
        let everywhere = plan.workers.iter().all(|worker| worker.cpus == usable);
        let workers = plan.workers.iter().filter(|_| !everywhere).map(|worker| worker.cpus.clone());
        Ok(Self { workers: workers.collect(), memory })
    }

    /// Returns the CPUs of all workers; `None` if they may run anywhere.
    pub fn cpus(&self) -> Option<CpuSet> {
        (!self.workers.is_empty()).then(|| self.workers.iter().flat_map(CpuSet::iter).collect())
    }

    /// Returns the placement of one of several copies of a command: that of the worker with the copy's
    /// number.
    pub fn of_copy(&self, copy: usize) -> Self {
        let own = self.workers.get(copy % self.workers.len().max(1)).cloned();
        Self { workers: own.into_iter().collect(), memory: self.memory.clone() }
    }

    /// Returns how a command with this placement starts.
    pub fn start(&self) -> StartPlacement {
        StartPlacement { cpus: self.cpus(), memory: self.memory.clone(), nice: None }
    }
}

/// Returns the placement of `workers` workers by `policy`, and its plan. Without a policy the workers may
/// run anywhere.
///
/// # Errors
/// This machine cannot meet the policy or the memory policy.
pub fn place_workers(
    machine: &Machine,
    policy: Option<&Policy>,
    memory: &MemoryPlacement,
    workers: usize,
) -> Result<(WorkerCpus, PlacementPlan)> {
    let free = Policy::new(PolicyKind::Free, false);
    let policy = policy.unwrap_or(&free);
    let plan = policy.plan(machine, workers, &Reserve::Nothing)?;
    let mut placed = WorkerCpus::of_plan(machine, &plan, memory)?;
    if *policy == free {
        placed.workers.clear();
    }
    Ok((placed, plan))
}

/// Returns the memory policy of each worker of a plan, with the nodes of its own CPUs where the policy names none.
///
/// # Errors
/// This machine cannot meet the memory policy.
pub fn memory_of_workers(
    machine: &Machine,
    plan: &PlacementPlan,
    memory: &MemoryPlacement,
) -> Result<Vec<MemoryPolicy>> {
    let alone = |worker: &PlannedWorker| PlacementPlan { workers: vec![worker.clone()], ..plan.clone() };
    plan.workers.iter().map(|worker| memory_policy(machine, &alone(worker), memory)).collect()
}

fn memory_policy(machine: &Machine, plan: &PlacementPlan, memory: &MemoryPlacement) -> Result<MemoryPolicy> {
    memory.check(machine)?;
    let nodes = memory.nodes(plan);
    Ok(match memory {
        MemoryPlacement::Default => MemoryPolicy::Default,
        MemoryPlacement::Local => MemoryPolicy::Local,
        MemoryPlacement::Interleave(_) | MemoryPlacement::Bind(_) if nodes.is_empty() => {
            return Err(Error::NoMemoryNodes { policy: memory.to_string() });
        }
        MemoryPlacement::Interleave(_) => MemoryPolicy::Interleave(nodes),
        MemoryPlacement::Bind(_) => MemoryPolicy::Bind(nodes),
    })
}

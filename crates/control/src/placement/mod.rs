//! Places commands and processes on CPUs, and enforces the placement of their tasks.

mod command_processes;
mod enforcer;
mod journal;
mod session;

pub use command_processes::CommandProcesses;
pub use enforcer::AffinityEnforcer;
pub use journal::PlacementJournal;
pub use session::{
    Enforcement, PlacementRequest, PlacementSession, ResolvedPlacement, open_journal, resolve_placement,
};

use crate::error::{Error, Result};
use manycore_linux::{child::StartPlacement, memory_policy::MemoryPolicy};
use manycore_placement::{MemoryPlacement, PlacementPlan, Policy, PolicyKind, Reserve};
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
    pub fn on(cpus: CpuSet) -> Self {
        Self { workers: vec![cpus], memory: MemoryPolicy::Default }
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
        StartPlacement { cpus: self.cpus(), memory: self.memory.clone() }
    }
}

/// Returns the placement of `workers` workers by `policy`, and its plan.
///
/// # Errors
/// [`Failure::Input`] if this machine cannot meet the policy.
pub fn place_workers(
    machine: &Machine,
    policy: Option<&Policy>,
    memory: &MemoryPlacement,
    workers: usize,
) -> Result<(WorkerCpus, PlacementPlan)> {
    let free = Policy::of(PolicyKind::Free, false);
    let policy = policy.unwrap_or(&free);
    let plan = policy.plan(machine, workers, &Reserve::Nothing).map_err(Error::invalid)?;
    let memory = memory_policy(machine, memory, &plan)?;
    let place = if *policy == free {
        WorkerCpus { workers: Vec::new(), memory }
    } else {
        worker_cpus(machine, &plan, memory)
    };
    Ok((place, plan))
}

/// Converts a plan. If every worker may use all CPUs, the command runs where it would run without a plan.
fn worker_cpus(machine: &Machine, plan: &PlacementPlan, memory: MemoryPolicy) -> WorkerCpus {
    let everywhere = |cpus: &CpuSet| *cpus == machine.allowed.cpus;
    let workers = if plan.workers.iter().all(|worker| everywhere(&worker.cpus)) {
        Vec::new()
    } else {
        plan.workers.iter().map(|worker| worker.cpus.clone()).collect()
    };
    WorkerCpus { workers, memory }
}

fn memory_policy(machine: &Machine, memory: &MemoryPlacement, plan: &PlacementPlan) -> Result<MemoryPolicy> {
    memory.check(machine).map_err(Error::invalid)?;
    let nodes = memory.nodes(plan);
    if nodes.is_empty() && matches!(memory, MemoryPlacement::Interleave(_) | MemoryPlacement::Bind(_)) {
        return Err(Error::invalid(format!(
            "--memory {memory}: the plan has no memory nodes; name nodes with {memory}=LIST"
        )));
    }
    Ok(match memory {
        MemoryPlacement::Default => MemoryPolicy::Default,
        MemoryPlacement::Local => MemoryPolicy::Local,
        MemoryPlacement::Interleave(_) => MemoryPolicy::Interleave(nodes),
        MemoryPlacement::Bind(_) => MemoryPolicy::Bind(nodes),
    })
}

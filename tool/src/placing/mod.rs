//! Where commands and processes run, and what keeps their tasks there.

mod keeper;
mod recorder;

pub use keeper::Keeper;
pub use recorder::Recorder;

use crate::failure::{Failure, Outcome};
use manycore_host::{child::Start, memory_policy::MemoryPolicy};
use manycore_model::{
    CpuSet, Machine,
    placement::{Memory, Plan, Policy, PolicyKind, Reserve},
};

/// CPUs for each worker, and where memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// CPUs of each worker; none: wherever this process may run.
    pub workers: Vec<CpuSet>,
    /// Where memory comes from.
    pub memory: MemoryPolicy,
}

impl Place {
    /// All on `cpus`.
    pub fn on(cpus: CpuSet) -> Self {
        Self { workers: vec![cpus], memory: MemoryPolicy::Default }
    }

    /// CPUs of all workers together; absent where they may run anywhere.
    pub fn cpus(&self) -> Option<CpuSet> {
        (!self.workers.is_empty()).then(|| self.workers.iter().flat_map(CpuSet::iter).collect())
    }

    /// The place of one copy of a command out of several: that of the worker of its number.
    pub fn of_copy(&self, copy: usize) -> Self {
        let own = self.workers.get(copy % self.workers.len().max(1)).cloned();
        Self { workers: own.into_iter().collect(), memory: self.memory.clone() }
    }

    /// How a command starts here.
    pub fn start(&self) -> Start {
        Start { cpus: self.cpus(), memory: self.memory.clone() }
    }
}

/// The place that `policy` gives `workers`.
///
/// # Errors
/// [`Failure::Input`] where it cannot be met here.
pub fn placed(
    machine: &Machine,
    policy: Option<&Policy>,
    memory: &Memory,
    workers: usize,
) -> Outcome<(Place, Plan)> {
    let free = Policy { kind: PolicyKind::Free, nosmt: false };
    let policy = policy.unwrap_or(&free);
    let plan = policy.plan(machine, workers, &Reserve::Nothing).map_err(Failure::input)?;
    let memory = memory_policy(machine, memory, &plan)?;
    // Where every worker may use all CPUs, the command runs where it would anyway.
    let everywhere = |cpus: &CpuSet| *cpus == machine.allowed.cpus;
    let workers = if *policy == free || plan.workers.iter().all(|worker| everywhere(&worker.cpus)) {
        Vec::new()
    } else {
        plan.workers.iter().map(|worker| worker.cpus.clone()).collect()
    };
    Ok((Place { workers, memory }, plan))
}

fn memory_policy(machine: &Machine, memory: &Memory, plan: &Plan) -> Outcome<MemoryPolicy> {
    let nodes = memory.nodes(plan);
    let unknown = nodes.iter().find(|node| !machine.nodes.iter().any(|known| known.id == **node));
    if let Some(node) = unknown {
        return Err(Failure::input(format!("there is no NUMA node {node} on this machine")));
    }
    Ok(match memory {
        Memory::Default => MemoryPolicy::Default,
        Memory::Local => MemoryPolicy::Local,
        Memory::Interleave(_) => MemoryPolicy::Interleave(nodes),
        Memory::Bind(_) => MemoryPolicy::Bind(nodes),
    })
}

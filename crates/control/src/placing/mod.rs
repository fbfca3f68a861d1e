//! Where commands and processes run, and what keeps their tasks there.

mod apply;
mod family;
mod keeper;
mod recorder;

pub use apply::{Aim, Follow, Hold, Request, aim, journal};
pub use family::Family;
pub use keeper::Keeper;
pub use recorder::Recorder;

use crate::error::{Error, Result};
use manycore_linux::{child::Start, memory_policy::MemoryPolicy};
use manycore_placement::{Memory, Plan, Policy, PolicyKind, Reserve};
use manycore_topology::{CpuSet, Machine};

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
/// [`Error::Invalid`] where it cannot be met here.
pub fn placed(
    machine: &Machine,
    policy: Option<&Policy>,
    memory: &Memory,
    workers: usize,
) -> Result<(Place, Plan)> {
    let free = Policy::of(PolicyKind::Free, false);
    let policy = policy.unwrap_or(&free);
    let plan = policy.plan(machine, workers, &Reserve::Nothing).map_err(Error::invalid)?;
    let memory = memory_policy(machine, memory, &plan)?;
    let place = if *policy == free {
        Place { workers: Vec::new(), memory }
    } else {
        place_of(machine, &plan, memory)
    };
    Ok((place, plan))
}

/// A plan as a place. Where every worker may use all CPUs, the command runs where it would anyway.
fn place_of(machine: &Machine, plan: &Plan, memory: MemoryPolicy) -> Place {
    let everywhere = |cpus: &CpuSet| *cpus == machine.allowed.cpus;
    let workers = if plan.workers.iter().all(|worker| everywhere(&worker.cpus)) {
        Vec::new()
    } else {
        plan.workers.iter().map(|worker| worker.cpus.clone()).collect()
    };
    Place { workers, memory }
}

fn memory_policy(machine: &Machine, memory: &Memory, plan: &Plan) -> Result<MemoryPolicy> {
    memory.check(machine).map_err(Error::invalid)?;
    let nodes = memory.nodes(plan);
    if nodes.is_empty() && matches!(memory, Memory::Interleave(_) | Memory::Bind(_)) {
        return Err(Error::invalid(format!(
            "--memory {memory}: the plan names no memory nodes; name them, {memory}=LIST"
        )));
    }
    Ok(match memory {
        Memory::Default => MemoryPolicy::Default,
        Memory::Local => MemoryPolicy::Local,
        Memory::Interleave(_) => MemoryPolicy::Interleave(nodes),
        Memory::Bind(_) => MemoryPolicy::Bind(nodes),
    })
}

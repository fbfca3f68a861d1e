//! A requested placement, and the CPUs that it comes to on this machine.

use crate::{
    error::{Error, Result},
    placement::WorkerCpus,
};
use manycore_linux::affinity;
use manycore_placement::{MemoryPlacement, PlacementPlan, Policy, Reserve};
use manycore_topology::{CpuSet, Machine};

/// A requested placement.
#[derive(Clone, Debug)]
pub struct PlacementRequest {
    /// A finished plan, for example from a file. Without one, a plan is made from the fields below.
    pub plan: Option<PlacementPlan>,
    /// The policy.
    pub policy: Policy,
    /// Number of workers; if absent, as many as get a CPU each.
    pub workers: Option<usize>,
    /// CPUs that no worker gets.
    pub reserve: Reserve,
    /// Whether each worker must have CPUs of its own.
    pub exclusive: bool,
    /// The memory policy.
    pub memory: MemoryPlacement,
    /// What holds the tasks on their CPUs beside their affinities.
    pub enforcement: Enforcement,
}

/// What holds tasks on their CPUs beside their affinities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// A cpuset, where one is available.
    Auto,
    /// Nothing.
    Affinity,
}

/// A plan for this machine, resolved to CPU sets.
#[derive(Clone, Debug)]
pub struct ResolvedPlacement {
    /// This machine.
    pub machine: Machine,
    /// The plan.
    pub plan: PlacementPlan,
    /// CPUs of each worker.
    pub workers: WorkerCpus,
    /// CPUs that this process may use, and with it every process that is started without a placement.
    pub own_cpus: CpuSet,
    /// The requested memory policy.
    pub memory: MemoryPlacement,
    /// What holds the tasks on their CPUs beside their affinities.
    pub enforcement: Enforcement,
    /// Whether the processes run already, so that only a control group can bind their memory.
    pub running: bool,
}

impl PlacementRequest {
    /// Makes the plan that is requested, on `machine`, which is this one.
    ///
    /// # Errors
    /// [`Error::Placement`] if this machine cannot meet the request, [`Error::NoMemoryNodes`] if the memory
    /// policy needs nodes, [`Error::OwnAffinity`] if the affinity of this process cannot be read.
    pub fn resolve(self, machine: Machine) -> Result<ResolvedPlacement> {
        let plan = match self.plan {
            Some(plan) => plan,
            None => {
                let workers =
                    self.workers.map_or_else(|| self.policy.capacity(&machine, &self.reserve), Ok)?;
                self.policy.plan(&machine, workers, &self.reserve)?
            }
        };
        if self.exclusive {
            plan.check_exclusive()?;
        }
        let workers = WorkerCpus::of_plan(&machine, &plan, &self.memory)?;
        let own_cpus = affinity::allowed().map_err(Error::OwnAffinity)?;
        let (memory, enforcement) = (self.memory, self.enforcement);
        Ok(ResolvedPlacement { machine, plan, workers, own_cpus, memory, enforcement, running: false })
    }
}

impl ResolvedPlacement {
    /// Pins the processes even if the plan has all CPUs of this process. For processes that may use other
    /// CPUs than this one.
    pub(super) fn pin_everywhere(self) -> Self {
        let workers = self.plan.workers.iter().map(|worker| worker.cpus.clone()).collect();
        Self { workers: WorkerCpus { workers, ..self.workers }, running: true, ..self }
    }

    /// Returns the nodes that a control group restricts the processes to; empty if the memory policy does
    /// not bind.
    pub(super) fn bound_nodes(&self) -> CpuSet {
        match self.memory {
            MemoryPlacement::Bind(_) => self.memory.nodes(&self.plan).into_iter().collect(),
            _ => CpuSet::new(),
        }
    }
}

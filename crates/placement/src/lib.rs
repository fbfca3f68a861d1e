//! Placement: the CPUs and the memory of each worker.
//!
//! A [`Policy`] is what a user writes, a [`PlacementPlan`] what it comes to on one machine. Nothing is applied here.
#![forbid(unsafe_code)]

mod assignment;
mod canonical;
mod cpu_tree;
mod error;
mod export;
mod memory_placement;
mod near_memory;
mod order;
mod policy;
mod pool;
mod reasons;
mod reserve;
#[cfg(test)]
mod tests;
mod trace;
mod unused_cpus;

pub use assignment::{TaskAssignment, TaskId};
pub use canonical::CanonicalPlan;
pub use error::PlacementError;
pub use export::{Export, ExportFormat};
pub use memory_placement::{MemoryPlacement, ParseMemoryPlacementError};
pub use policy::{CpuList, Level, ParsePolicyError, Policy, PolicyKind};
pub use reserve::{ParseReserveError, Reserve};
pub use trace::{MIN_COVERAGE, PlacementTrace, TRACE_SCHEMA, TaskReading, TaskTrace};
pub use unused_cpus::UnusedCpus;

use cpu_tree::CpuTree;
use manycore_topology::{CpuSet, Machine};
use near_memory::NearMemory;
use reasons::Reasons;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Value of [`PlacementPlan::schema`] that this version writes.
pub const PLAN_SCHEMA: &str = "manycore/plan/1";

/// Maximum number of workers of a plan.
pub const MAX_WORKERS: usize = 65_536;

/// Maximum number of usable CPUs of a machine. The largest machines that run Linux have 8,192.
pub const MAX_CPUS: usize = 65_536;

/// The CPUs and the memory of every worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementPlan {
    /// Always [`PLAN_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// [`Machine::fingerprint`] of the machine that the plan is for.
    pub machine: String,
    /// The policy that the plan was made with, as on the command line.
    pub place: String,
    /// All workers, in order.
    pub workers: Vec<PlannedWorker>,
}

/// The CPUs and the memory of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// CPUs that the worker may use.
    pub cpus: CpuSet,
    /// NUMA nodes with the memory nearest to these CPUs, ascending. Empty if the machine reports no nodes.
    pub memory_nodes: Vec<u32>,
    /// A short sentence that explains the choice.
    pub why: String,
}

/// To what extent workers share CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSharing {
    /// Number of workers that may use a CPU which another worker may use as well.
    pub workers: usize,
    /// Maximum number of workers that may use the same CPU.
    pub most: usize,
}

impl Policy {
    /// Places `workers` workers on the machine's CPUs that are online, allowed, not isolated (unless
    /// `cpus=` names them or `+isolated` is set) and not reserved.
    ///
    /// # Errors
    /// Returns the part of the policy, the count or the reserve that this machine cannot meet.
    pub fn plan(
        &self,
        machine: &Machine,
        workers: usize,
        reserve: &Reserve,
    ) -> Result<PlacementPlan, PlacementError> {
        match workers {
            0 => return Err(PlacementError::NoWorkers),
            1..=MAX_WORKERS => {}
            requested => return Err(PlacementError::TooManyWorkers { requested, most: MAX_WORKERS }),
        }
        let pool = pool::usable(machine, self, reserve)?;
        let workers = self.workers(machine, workers, &pool)?;
        Ok(PlacementPlan {
            schema: PLAN_SCHEMA.to_owned(),
            machine: machine.fingerprint(),
            place: self.to_string(),
            workers,
        })
    }

    /// Returns the number of workers that get one CPU each: the number of CPUs that the policy may use, or
    /// the number of entries of `cpus=LIST`.
    ///
    /// # Errors
    /// The same as [`Policy::plan`].
    pub fn capacity(&self, machine: &Machine, reserve: &Reserve) -> Result<usize, PlacementError> {
        let pool = pool::usable(machine, self, reserve)?;
        let (tree, _) = self.candidate_cpus(machine, &pool)?;
        Ok(match &self.kind {
            PolicyKind::Cpus(list) => list.iter().filter(|&cpu| tree.index_of(cpu).is_some()).count(),
            _ => tree.leaves.len(),
        })
    }

    /// Returns the CPUs of the pool that the policy may use, and a remark on its device.
    fn candidate_cpus<'a>(
        &self,
        machine: &'a Machine,
        pool: &CpuSet,
    ) -> Result<(CpuTree<'a>, Option<String>), PlacementError> {
        let (cpus, device) = match &self.kind {
            PolicyKind::Near(name) => {
                let near = pool::near(machine, name, pool)?;
                (near.cpus, Some(near.why))
            }
            PolicyKind::Cpus(list) => (list.set(), None),
            _ => (pool.clone(), None),
        };
        let mut tree = CpuTree::new(machine, &cpus);
        if self.nosmt {
            tree = CpuTree::new(machine, &tree.first_siblings());
        }
        Ok((tree, device))
    }

    fn workers(
        &self,
        machine: &Machine,
        workers: usize,
        pool: &CpuSet,
    ) -> Result<Vec<PlannedWorker>, PlacementError> {
        let (tree, device) = self.candidate_cpus(machine, pool)?;
        let why = Reasons::new(&tree);
        let spots = match &self.kind {
            PolicyKind::Free => {
                let cpus: CpuSet = tree.leaves.iter().map(|leaf| leaf.cpu).collect();
                let why = reasons::free(&cpus, self.nosmt);
                vec![NearMemory::new(machine).worker(cpus, why); workers]
            }
            PolicyKind::Close => {
                one_cpu_per_worker(&tree, &order::close(&tree), workers, |step| why.close(step))
            }
            PolicyKind::Spread => {
                one_cpu_per_worker(&tree, &order::spread(&tree), workers, |step| why.spread(step))
            }
            PolicyKind::Near(_) => {
                let suffix = device.unwrap_or_default();
                one_cpu_per_worker(&tree, &order::spread(&tree), workers, |step| {
                    format!("{}; {suffix}", why.spread(step))
                })
            }
            PolicyKind::Cpus(list) => {
                let order: Vec<usize> =
                    list.iter().filter_map(|cpu| tree.index_of(cpu)).take(workers).collect();
                one_cpu_per_worker(&tree, &order, workers, |step| why.listed(step))
            }
            PolicyKind::SpreadAt(level) => groups(&tree, *level, workers)?,
        };
        Ok(spots)
    }
}

/// The turn of one worker in an order of CPUs.
struct PlacementStep<'a> {
    order: &'a [usize],
    worker: usize,
}

/// Gives each worker one CPU in the given order, which starts again at its end.
fn one_cpu_per_worker(
    tree: &CpuTree,
    order: &[usize],
    workers: usize,
    why: impl Fn(&PlacementStep) -> String,
) -> Vec<PlannedWorker> {
    let memory = NearMemory::new(tree.machine);
    let spot = |worker: usize| {
        let cpu = tree.leaves[order[worker % order.len()]].cpu;
        memory.worker(CpuSet::single(cpu), why(&PlacementStep { order, worker }))
    };
    (0..if order.is_empty() { 0 } else { workers }).map(spot).collect()
}

/// Gives each worker the usable CPUs of a group.
fn groups(tree: &CpuTree, level: Level, workers: usize) -> Result<Vec<PlannedWorker>, PlacementError> {
    let groups = pool::groups(tree, level)?;
    let sizes: Vec<usize> = groups.iter().map(|group| group.cpus.len()).collect();
    let counts = order::apportion(workers, &sizes);
    let total = sizes.iter().sum();
    let memory = NearMemory::new(tree.machine);
    let used = groups.into_iter().zip(counts).filter(|(_, count)| *count > 0);
    let mut left: Vec<(PlannedWorker, usize)> = used
        .map(|(group, count)| {
            let why = reasons::grouped(&group, count, workers, total);
            (memory.worker(group.cpus, why), count)
        })
        .collect();
    let mut dealt = Vec::with_capacity(workers);
    while !left.is_empty() {
        for (worker, count) in &mut left {
            dealt.push(worker.clone());
            *count -= 1;
        }
        left.retain(|(_, count)| *count > 0);
    }
    Ok(dealt)
}

impl PlacementPlan {
    /// Returns the CPUs that any worker may use.
    pub fn cpus(&self) -> CpuSet {
        CpuSet::union_of(self.classes().into_keys())
    }

    /// Returns a plan with one worker that has the CPUs of all workers: for one program, one container or
    /// one unit.
    pub fn together(&self) -> Self {
        let nodes = self.workers.iter().flat_map(|worker| worker.memory_nodes.iter().copied());
        let nodes: BTreeSet<u32> = nodes.collect();
        let why = format!("the CPUs of all {} workers", self.workers.len());
        let all = PlannedWorker { cpus: self.cpus(), memory_nodes: nodes.into_iter().collect(), why };
        Self { workers: vec![all], ..self.clone() }
    }

    /// Returns whether every worker has exactly one CPU, so that each of its threads runs there.
    pub fn one_cpu_each(&self) -> bool {
        self.workers.iter().all(|worker| worker.cpus.len() == 1)
    }

    /// Returns how many workers share CPUs, and how many use the busiest CPU.
    pub fn cpu_sharing(&self) -> CpuSharing {
        let classes = self.classes();
        let mut edges: BTreeMap<u32, isize> = BTreeMap::new();
        for (cpus, &count) in &classes {
            for (first, last) in cpus.ranges() {
                *edges.entry(first).or_default() += count.cast_signed();
                *edges.entry(last + 1).or_default() -= count.cast_signed();
            }
        }
        let (mut level, mut most, mut from, mut crowded) = (0, 0, 0, Vec::new());
        for (&at, change) in &edges {
            if level > 1 {
                crowded.push((from, at - 1));
            }
            level += change;
            most = most.max(level);
            from = at;
        }
        let crowded = CpuSet::from_ranges(crowded);
        let workers =
            classes.iter().filter(|(cpus, _)| cpus.intersects(&crowded)).map(|(_, count)| count).sum();
        CpuSharing { workers, most: most.unsigned_abs() }
    }

    /// Checks that there is a CPU for each worker: in total, and for each set of CPUs among the workers
    /// with exactly this set.
    ///
    /// # Errors
    /// Returns the CPUs that have more workers than there are CPUs.
    pub fn check_exclusive(&self) -> Result<(), PlacementError> {
        let all = self.cpus();
        let sets = std::iter::once((&all, self.workers.len())).chain(self.classes());
        let mut crowded = sets.filter(|(cpus, count)| *count > cpus.len());
        crowded.next().map_or(Ok(()), |(cpus, workers)| {
            Err(PlacementError::NotExclusive { workers, cpus: cpus.clone() })
        })
    }

    /// Returns the canonical form of the plan on a machine, by which equivalent plans are recognized; see
    /// [`CanonicalPlan`].
    pub fn canonical(&self, machine: &Machine) -> CanonicalPlan {
        canonical::of(self, machine)
    }

    /// Returns the number of workers for each set of CPUs.
    fn classes(&self) -> BTreeMap<&CpuSet, usize> {
        let mut classes = BTreeMap::new();
        self.workers.iter().for_each(|worker| *classes.entry(&worker.cpus).or_default() += 1);
        classes
    }
}

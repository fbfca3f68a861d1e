//! Makes plans: from a policy and a machine to the CPUs of each worker.

use crate::{
    Level, MAX_WORKERS, PLAN_SCHEMA, PlacementError, PlacementPlan, PlannedWorker, Policy, PolicyKind,
    Reserve,
    cpu_tree::CpuTree,
    near_memory::NearMemory,
    order, pool,
    reasons::{self, Reasons},
};
use manycore_topology::{CpuSet, Machine};

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
            machine_fingerprint: machine.fingerprint(),
            policy: self.to_string(),
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
                let near = pool::near_device(machine, name, pool)?;
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
        let workers = match &self.kind {
            PolicyKind::Free => {
                let cpus: CpuSet = tree.leaves.iter().map(|leaf| leaf.cpu).collect();
                let why = reasons::free_reason(&cpus, self.nosmt);
                vec![NearMemory::new(machine).worker(cpus, why); workers]
            }
            PolicyKind::Close => {
                one_cpu_per_worker(&tree, &order::close_order(&tree, workers), workers, |step| {
                    why.close(step)
                })
            }
            PolicyKind::Spread => {
                one_cpu_per_worker(&tree, &order::spread_order(&tree), workers, |step| why.spread(step))
            }
            PolicyKind::Near(_) => {
                let suffix = device.unwrap_or_default();
                one_cpu_per_worker(&tree, &order::spread_order(&tree), workers, |step| {
                    format!("{}; {suffix}", why.spread(step))
                })
            }
            PolicyKind::Cpus(list) => {
                let order: Vec<usize> =
                    list.iter().filter_map(|cpu| tree.index_of(cpu)).take(workers).collect();
                one_cpu_per_worker(&tree, &order, workers, |step| why.listed_reason(step))
            }
            PolicyKind::SpreadAt(level) => groups(&tree, *level, workers)?,
        };
        Ok(workers)
    }
}

/// The turn of one worker in an order of CPUs.
pub(super) struct PlacementStep<'a> {
    pub order: &'a [usize],
    pub worker: usize,
}

/// Gives each worker one CPU in the given order, which starts again at its end.
fn one_cpu_per_worker(
    tree: &CpuTree,
    order: &[usize],
    workers: usize,
    why: impl Fn(&PlacementStep) -> String,
) -> Vec<PlannedWorker> {
    let memory = NearMemory::new(tree.machine);
    let placed = |worker: usize| {
        let cpu = tree.leaves[order[worker % order.len()]].cpu;
        memory.worker(CpuSet::single(cpu), why(&PlacementStep { order, worker }))
    };
    (0..if order.is_empty() { 0 } else { workers }).map(placed).collect()
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

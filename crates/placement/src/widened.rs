//! Plans in which each worker has several neighbouring CPUs.

use crate::{PlacementPlan, PlannedWorker, near_memory::NearMemory};
use manycore_topology::{CpuId, CpuSet, Machine, TopologyDistance};

impl PlacementPlan {
    /// Returns a plan with workers of at least `width` CPUs each, in the order of this plan. A worker keeps its CPUs, and gets
    /// those of the plan that are nearest to its first one, and that no worker before it has; so there are fewer workers. A
    /// plan in which all workers are as wide stays as it is. If the CPUs are too few for one worker, it has all of them.
    ///
    /// `machine` is the one that the plan is for.
    #[must_use]
    pub fn widened(&self, machine: &Machine, width: usize) -> Self {
        if self.workers.iter().all(|worker| worker.cpus.len() >= width) {
            return self.clone();
        }
        let all = self.cpus();
        let memory = NearMemory::new(machine);
        let levels = TopologyDistance::ALL.map(|distance| distance.groups(machine, &all));
        let mut left = all;
        let mut workers: Vec<PlannedWorker> = Vec::new();
        // First the workers that need no more than a last-level cache, then those that need no more than a node.
        for within in [TopologyDistance::Llc, TopologyDistance::Node, TopologyDistance::Remote] {
            let levels = &levels[..=within as usize];
            for first in self.workers.iter().filter(|worker| !worker.cpus.is_empty()) {
                if !first.cpus.is_subset(&left) {
                    continue;
                }
                let cpus = neighbours(&first.cpus, width, &left, levels);
                let is_last_resort = within == TopologyDistance::Remote && workers.is_empty();
                if cpus.len() < width && !is_last_resort {
                    continue;
                }
                left = left.difference(&cpus);
                workers.push(memory.worker(cpus, format!("{}, with its neighbours", first.why)));
            }
        }
        Self { workers, ..self.clone() }
    }
}

/// Returns `own` with the CPUs of `left` that are nearest to its first one, up to `width` of them. `levels` are the groups of
/// CPUs at each distance, nearest first.
fn neighbours(own: &CpuSet, width: usize, left: &CpuSet, levels: &[Vec<CpuSet>]) -> CpuSet {
    let mut found = own.clone();
    let Some(first) = own.first() else { return found };
    for level in levels {
        let group = level.iter().find(|group| group.contains(first));
        let free = group.map(|group| group.intersection(left).difference(&found)).unwrap_or_default();
        let mut free: Vec<CpuId> = free.iter().collect();
        free.sort_by_key(|cpu| cpu.abs_diff(first));
        for cpu in free.into_iter().take(width.saturating_sub(found.len())) {
            found.insert(cpu);
        }
    }
    found
}

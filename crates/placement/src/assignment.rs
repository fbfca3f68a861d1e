//! Assigns tasks to workers while tasks are created, end, wait and run.
//!
//! A command has tasks that work and tasks that wait for them: the shell of a pipeline, or the thread that
//! joins the workers. So tasks are weighted by the CPU time that they use. A new task counts as working
//! until it is seen to wait, and is assigned to the worker with the fewest working tasks. If later one
//! worker has several working tasks and another has none, a task moves. So a plan with enough workers ends
//! with one working task on each.

use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Mean share of a CPU above which a task counts as working.
const BUSY_THRESHOLD: f64 = 0.2;

/// Weight of earlier readings in that mean.
const PAST_WEIGHT: f64 = 0.5;

/// A task: a thread id of the kernel.
pub type TaskId = u32;

/// The workers' CPUs in the order of the plan, and the tasks assigned to them.
#[derive(Clone, Debug)]
pub struct TaskAssignment {
    worker_cpus: Vec<CpuSet>,
    /// For each worker, whether all its CPUs are offline.
    offline: Vec<bool>,
    assigned: BTreeMap<TaskId, AssignedTask>,
    last_sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct AssignedTask {
    worker: usize,
    /// Mean share of a CPU that the task used recently.
    busy: f64,
    /// Order of assignment. The task assigned last moves first.
    sequence: u64,
}

impl TaskAssignment {
    /// Creates workers with these CPUs and without tasks.
    pub fn new(worker_cpus: Vec<CpuSet>) -> Self {
        let offline = vec![false; worker_cpus.len()];
        Self { worker_cpus, offline, assigned: BTreeMap::new(), last_sequence: 0 }
    }

    /// Returns the CPUs of a worker.
    pub fn cpus(&self, worker: usize) -> &CpuSet {
        &self.worker_cpus[worker]
    }

    /// Returns the CPUs of all workers.
    pub fn all(&self) -> &[CpuSet] {
        &self.worker_cpus
    }

    /// Returns the worker that a task is assigned to.
    pub fn worker_of(&self, task: TaskId) -> Option<usize> {
        self.assigned.get(&task).map(|task| task.worker)
    }

    /// Returns the assigned tasks, ascending.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.assigned.keys().copied()
    }

    /// Assigns a new task to the worker with the fewest working tasks, and among those the fewest tasks.
    /// Returns the worker; `None` if the CPUs of all workers are offline.
    pub fn assign(&mut self, task: TaskId) -> Option<usize> {
        self.remove(task);
        let load = self.load();
        let open = (0..self.worker_cpus.len()).filter(|&worker| !self.offline[worker]);
        let worker = open.min_by_key(|&worker| (load[worker], worker))?;
        self.last_sequence += 1;
        self.assigned.insert(task, AssignedTask { worker, busy: 1.0, sequence: self.last_sequence });
        Some(worker)
    }

    /// Forgets a task.
    pub fn remove(&mut self, task: TaskId) {
        self.assigned.remove(&task);
    }

    /// Forgets all tasks that are not alive.
    pub fn retain(&mut self, is_alive: impl Fn(TaskId) -> bool) {
        self.assigned.retain(|task, _| is_alive(*task));
    }

    /// Records that a task used this share of a CPU since the last reading.
    pub fn update_load(&mut self, task: TaskId, share: f64) {
        if let Some(assigned) = self.assigned.get_mut(&task) {
            assigned.busy = assigned.busy * PAST_WEIGHT + share.clamp(0.0, 1.0) * (1.0 - PAST_WEIGHT);
        }
    }

    /// Moves working tasks, the latest first, from workers with several working tasks to workers with none.
    /// Returns the moved tasks with their new workers.
    pub fn rebalance(&mut self) -> Vec<(TaskId, usize)> {
        let mut moved = Vec::new();
        loop {
            let load = self.load();
            let open = || (0..self.worker_cpus.len()).filter(|&worker| !self.offline[worker]);
            let idle = open().find(|&worker| load[worker].0 == 0);
            let busiest = open().max_by_key(|&worker| load[worker]).filter(|&worker| load[worker].0 > 1);
            let (Some(idle), Some(busiest)) = (idle, busiest) else { return moved };
            let candidates = self
                .assigned
                .iter_mut()
                .filter(|(_, assigned)| assigned.worker == busiest && assigned.busy >= BUSY_THRESHOLD);
            let Some((task, assigned)) = candidates.max_by_key(|(_, assigned)| assigned.sequence) else {
                return moved;
            };
            assigned.worker = idle;
            moved.push((*task, idle));
        }
    }

    /// Excludes workers whose CPUs are all offline and readmits those with online CPUs. Returns the tasks
    /// that moved, with their new workers. No task moves if the CPUs of all workers are offline.
    pub fn update_online(&mut self, online: &CpuSet) -> Vec<(TaskId, usize)> {
        self.offline = self.worker_cpus.iter().map(|cpus| !cpus.intersects(online)).collect();
        if self.offline.iter().all(|offline| *offline) {
            return Vec::new();
        }
        let stranded: Vec<TaskId> = self
            .assigned
            .iter()
            .filter(|(_, assigned)| self.offline[assigned.worker])
            .map(|(task, _)| *task)
            .collect();
        stranded.into_iter().filter_map(|task| Some((task, self.assign(task)?))).collect()
    }

    /// Returns whether all CPUs of any worker are offline.
    pub fn any_offline(&self) -> bool {
        self.offline.contains(&true)
    }

    /// Returns for each worker the number of working tasks and of all tasks.
    fn load(&self) -> Vec<(usize, usize)> {
        let mut load = vec![(0, 0); self.worker_cpus.len()];
        for assigned in self.assigned.values() {
            load[assigned.worker].0 += usize::from(assigned.busy >= BUSY_THRESHOLD);
            load[assigned.worker].1 += 1;
        }
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one_cpu_each(count: u32) -> TaskAssignment {
        TaskAssignment::new((0..count).map(CpuSet::single).collect())
    }

    /// Adds readings until earlier ones no longer matter.
    fn settle(assignment: &mut TaskAssignment, working: impl Fn(TaskId) -> bool) {
        for _ in 0..8 {
            for task in assignment.tasks().collect::<Vec<_>>() {
                assignment.update_load(task, if working(task) { 0.95 } else { 0.0 });
            }
        }
    }

    #[test]
    fn working_task_shares_with_waiting_task() {
        let mut assignment = one_cpu_each(4);
        // The main thread, then four workers.
        let taken: Vec<_> = (10..15).filter_map(|task| assignment.assign(task)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 0]);
        settle(&mut assignment, |task| task != 10);
        assert!(assignment.rebalance().is_empty());
    }

    #[test]
    fn waiting_parents_do_not_displace_workers() {
        let mut assignment = one_cpu_each(4);
        // Three shells and four workers, as in a pipeline.
        for task in 10..17 {
            assignment.assign(task);
        }
        settle(&mut assignment, |task| task >= 13);
        assignment.rebalance();
        let mut places: Vec<_> = (13..17).filter_map(|task| assignment.worker_of(task)).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3]);
        assert!(assignment.rebalance().is_empty());
    }

    #[test]
    fn worker_with_offline_cpus_is_left_and_reused() {
        let mut assignment = one_cpu_each(3);
        assert_eq!((1..=3).filter_map(|task| assignment.assign(task)).count(), 3);
        settle(&mut assignment, |_| true);
        assert_eq!(assignment.update_online(&"0,2".parse().unwrap()), [(2, 0)]);
        assert_eq!(assignment.assign(4), Some(2));
        assert_eq!(assignment.update_online(&"0-2".parse().unwrap()), []);
        assert_eq!(assignment.rebalance().first().map(|moved| moved.1), Some(1));
        assert!(assignment.update_online(&"7".parse().unwrap()).is_empty());
    }

    proptest! {
        #[test]
        fn no_sharing_while_a_worker_is_idle(count in 1_u32..9, tasks in prop::collection::vec(any::<bool>(), 0..40)) {
            let mut assignment = one_cpu_each(count);
            for task in 0..tasks.len() as TaskId {
                assignment.assign(task);
            }
            settle(&mut assignment, |task| tasks[task as usize]);
            assignment.rebalance();
            let works: Vec<usize> = assignment.load().into_iter().map(|(working, _)| working).collect();
            prop_assert!(!works.contains(&0) || works.iter().all(|&working| working <= 1), "{works:?}");
            prop_assert!(assignment.rebalance().is_empty());
        }
    }
}

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
    /// Whether the task has chosen the CPUs itself and stays on them.
    fixed: bool,
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
        self.insert(task, worker, false);
        Some(worker)
    }

    /// Assigns a task that has chosen these CPUs itself to the worker that has them. It counts as a task of this worker and is not
    /// moved. Returns the worker; `None` if no worker has these CPUs.
    pub fn adopt(&mut self, task: TaskId, cpus: &CpuSet) -> Option<usize> {
        let worker = self.worker_cpus.iter().position(|worker| worker == cpus)?;
        self.insert(task, worker, true);
        Some(worker)
    }

    /// Whether the task has chosen its CPUs itself.
    pub fn is_adopted(&self, task: TaskId) -> bool {
        self.assigned.get(&task).is_some_and(|task| task.fixed)
    }

    fn insert(&mut self, task: TaskId, worker: usize, fixed: bool) {
        self.last_sequence += 1;
        self.assigned.insert(task, AssignedTask { worker, busy: 1.0, sequence: self.last_sequence, fixed });
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
            let Some(idle) = idle else { return moved };
            // From the worker with the most working tasks, of those with one that may move.
            let candidates = self.assigned.iter_mut().filter(|(_, assigned)| {
                load[assigned.worker].0 > 1 && assigned.busy >= BUSY_THRESHOLD && !assigned.fixed
            });
            let latest = candidates
                .max_by_key(|(_, assigned)| (load[assigned.worker], assigned.worker, assigned.sequence));
            let Some((task, assigned)) = latest else { return moved };
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

    #[test]
    fn a_task_that_chose_its_cpus_stays_and_others_leave_them() {
        let mut assignment = one_cpu_each(3);
        assert_eq!((assignment.assign(10), assignment.assign(11)), (Some(0), Some(1)));
        // 11 goes to the CPU of 10.
        assert_eq!(assignment.adopt(11, &CpuSet::single(0)), Some(0));
        assert!(assignment.is_adopted(11) && !assignment.is_adopted(10));
        settle(&mut assignment, |_| true);
        assert_eq!(assignment.rebalance(), [(10, 1)]);
        assert_eq!(assignment.worker_of(11), Some(0));
        // No worker has these.
        assert_eq!(assignment.adopt(12, &CpuSet::single(7)), None);
        assert_eq!(assignment.worker_of(12), None);
    }

    proptest! {
        #[test]
        fn no_sharing_while_a_worker_is_idle(
            count in 1_u32..9,
            // Whether it works, and the CPU that it chose.
            tasks in prop::collection::vec((any::<bool>(), prop::option::weighted(0.2, 0_u32..9)), 0..40),
        ) {
            let mut assignment = one_cpu_each(count);
            for (task, (_, own)) in tasks.iter().enumerate() {
                let adopted = own.and_then(|cpu| assignment.adopt(task as TaskId, &CpuSet::single(cpu)));
                if adopted.is_none() {
                    assignment.assign(task as TaskId);
                }
            }
            settle(&mut assignment, |task| tasks[task as usize].0);
            let moved = assignment.rebalance();
            prop_assert!(moved.iter().all(|(task, _)| !assignment.is_adopted(*task)));
            let load = assignment.load();
            let may_move = |worker: usize| assignment.tasks().any(|task| {
                assignment.worker_of(task) == Some(worker) && tasks[task as usize].0 && !assignment.is_adopted(task)
            });
            let is_idle = load.iter().any(|(working, _)| *working == 0);
            let shares = (0..load.len()).any(|worker| load[worker].0 > 1 && may_move(worker));
            prop_assert!(!is_idle || !shares, "{load:?}");
            prop_assert!(assignment.rebalance().is_empty());
        }
    }
}

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
const WORKS: f64 = 0.2;

/// Weight of earlier readings in that mean.
const MEMORY: f64 = 0.5;

/// A task: a thread id of the kernel.
pub type Task = u32;

/// The workers' CPUs in the order of the plan, and the tasks assigned to them.
#[derive(Clone, Debug)]
pub struct Seats {
    places: Vec<CpuSet>,
    /// For each worker, whether all its CPUs are offline.
    closed: Vec<bool>,
    seated: BTreeMap<Task, Seated>,
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seated {
    seat: usize,
    /// Mean share of a CPU that the task used recently.
    busy: f64,
    /// Order of assignment. The task assigned last moves first.
    turn: u64,
}

impl Seats {
    /// Creates workers with these CPUs and without tasks.
    pub fn new(seats: Vec<CpuSet>) -> Self {
        let closed = vec![false; seats.len()];
        Self { places: seats, closed, seated: BTreeMap::new(), turn: 0 }
    }

    /// Returns the CPUs of a worker.
    pub fn cpus(&self, seat: usize) -> &CpuSet {
        &self.places[seat]
    }

    /// Returns the CPUs of all workers.
    pub fn all(&self) -> &[CpuSet] {
        &self.places
    }

    /// Returns the worker that a task is assigned to.
    pub fn seat(&self, task: Task) -> Option<usize> {
        self.seated.get(&task).map(|seated| seated.seat)
    }

    /// Returns the assigned tasks, ascending.
    pub fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        self.seated.keys().copied()
    }

    /// Assigns a new task to the worker with the fewest working tasks, and among those the fewest tasks.
    /// Returns the worker; `None` if the CPUs of all workers are offline.
    pub fn take(&mut self, task: Task) -> Option<usize> {
        self.leave(task);
        let load = self.load();
        let open = (0..self.places.len()).filter(|&seat| !self.closed[seat]);
        let seat = open.min_by_key(|&seat| (load[seat], seat))?;
        self.turn += 1;
        self.seated.insert(task, Seated { seat, busy: 1.0, turn: self.turn });
        Some(seat)
    }

    /// Forgets a task.
    pub fn leave(&mut self, task: Task) {
        self.seated.remove(&task);
    }

    /// Forgets all tasks that are not alive.
    pub fn keep(&mut self, is_alive: impl Fn(Task) -> bool) {
        self.seated.retain(|task, _| is_alive(*task));
    }

    /// Records that a task used this share of a CPU since the last reading.
    pub fn weigh(&mut self, task: Task, share: f64) {
        if let Some(seated) = self.seated.get_mut(&task) {
            seated.busy = seated.busy * MEMORY + share.clamp(0.0, 1.0) * (1.0 - MEMORY);
        }
    }

    /// Moves working tasks, the latest first, from workers with several working tasks to workers with none.
    /// Returns the moved tasks with their new workers.
    pub fn even_out(&mut self) -> Vec<(Task, usize)> {
        let mut moved = Vec::new();
        loop {
            let load = self.load();
            let open = || (0..self.places.len()).filter(|&seat| !self.closed[seat]);
            let idle = open().find(|&seat| load[seat].0 == 0);
            let crowded = open().max_by_key(|&seat| load[seat]).filter(|&seat| load[seat].0 > 1);
            let (Some(idle), Some(crowded)) = (idle, crowded) else { return moved };
            let of_crowd =
                self.seated.iter_mut().filter(|(_, seated)| seated.seat == crowded && seated.busy >= WORKS);
            let Some((task, seated)) = of_crowd.max_by_key(|(_, seated)| seated.turn) else { return moved };
            seated.seat = idle;
            moved.push((*task, idle));
        }
    }

    /// Excludes workers whose CPUs are all offline and readmits those with online CPUs. Returns the tasks
    /// that moved, with their new workers. No task moves if the CPUs of all workers are offline.
    pub fn follow(&mut self, online: &CpuSet) -> Vec<(Task, usize)> {
        self.closed = self.places.iter().map(|cpus| !cpus.intersects(online)).collect();
        if self.closed.iter().all(|closed| *closed) {
            return Vec::new();
        }
        let homeless: Vec<Task> = self
            .seated
            .iter()
            .filter(|(_, seated)| self.closed[seated.seat])
            .map(|(task, _)| *task)
            .collect();
        homeless.into_iter().filter_map(|task| Some((task, self.take(task)?))).collect()
    }

    /// Returns whether all CPUs of any worker are offline.
    pub fn any_closed(&self) -> bool {
        self.closed.contains(&true)
    }

    /// Returns for each worker the number of working tasks and of all tasks.
    fn load(&self) -> Vec<(usize, usize)> {
        let mut load = vec![(0, 0); self.places.len()];
        for seated in self.seated.values() {
            load[seated.seat].0 += usize::from(seated.busy >= WORKS);
            load[seated.seat].1 += 1;
        }
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seats(count: u32) -> Seats {
        Seats::new((0..count).map(CpuSet::single).collect())
    }

    /// Adds readings until earlier ones no longer matter.
    fn settle(seats: &mut Seats, working: impl Fn(Task) -> bool) {
        for _ in 0..8 {
            for task in seats.tasks().collect::<Vec<_>>() {
                seats.weigh(task, if working(task) { 0.95 } else { 0.0 });
            }
        }
    }

    #[test]
    fn a_worker_sits_beside_the_one_that_waits() {
        let mut seats = seats(4);
        // The main thread, then four workers.
        let taken: Vec<_> = (10..15).filter_map(|task| seats.take(task)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 0]);
        settle(&mut seats, |task| task != 10);
        assert!(seats.even_out().is_empty());
    }

    #[test]
    fn waiting_parents_take_no_seat_from_workers() {
        let mut seats = seats(4);
        // Three shells and four workers, as in a pipeline.
        for task in 10..17 {
            seats.take(task);
        }
        settle(&mut seats, |task| task >= 13);
        seats.even_out();
        let mut places: Vec<_> = (13..17).filter_map(|task| seats.seat(task)).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2, 3]);
        assert!(seats.even_out().is_empty());
    }

    #[test]
    fn a_seat_without_cpus_is_left_and_comes_back() {
        let mut seats = seats(3);
        assert_eq!((1..=3).filter_map(|task| seats.take(task)).count(), 3);
        settle(&mut seats, |_| true);
        assert_eq!(seats.follow(&"0,2".parse().unwrap()), [(2, 0)]);
        assert_eq!(seats.take(4), Some(2));
        assert_eq!(seats.follow(&"0-2".parse().unwrap()), []);
        assert_eq!(seats.even_out().first().map(|moved| moved.1), Some(1));
        assert!(seats.follow(&"7".parse().unwrap()).is_empty());
    }

    proptest! {
        #[test]
        fn nobody_shares_while_a_seat_is_free(count in 1_u32..9, tasks in prop::collection::vec(any::<bool>(), 0..40)) {
            let mut seats = seats(count);
            for task in 0..tasks.len() as Task {
                seats.take(task);
            }
            settle(&mut seats, |task| tasks[task as usize]);
            seats.even_out();
            let works: Vec<usize> = seats.load().into_iter().map(|(working, _)| working).collect();
            prop_assert!(!works.contains(&0) || works.iter().all(|&working| working <= 1), "{works:?}");
            prop_assert!(seats.even_out().is_empty());
        }
    }
}

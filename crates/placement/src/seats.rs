//! Which task sits on which worker's CPUs, while tasks come, go, wait and work.
//!
//! A command has tasks that work and others that wait for them: the shell of a pipeline, the thread that joins the
//! workers. So tasks are weighed by the CPU time that they use. A new one counts as working until it was seen
//! to wait, and gets the seat with the least work; where the weighing later shows two that work on one seat while
//! another seat has none, one of them moves. A plan with a seat for every worker so ends with a worker on each.

use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Share of a CPU, as a mean over the last weighings, from which on a task works rather than waits.
const WORKS: f64 = 0.2;

/// Weight of the past in that mean.
const MEMORY: f64 = 0.5;

/// A task: a thread id of the kernel.
pub type Task = u32;

/// Seats, in the order of the workers of a plan, and who sits on them.
#[derive(Clone, Debug)]
pub struct Seats {
    places: Vec<CpuSet>,
    /// Whether a seat has lost all its CPUs.
    closed: Vec<bool>,
    seated: BTreeMap<Task, Seated>,
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seated {
    seat: usize,
    /// Mean share of a CPU that it used lately.
    busy: f64,
    /// Who came later moves first.
    turn: u64,
}

impl Seats {
    /// Empty seats with these CPUs.
    pub fn new(seats: Vec<CpuSet>) -> Self {
        let closed = vec![false; seats.len()];
        Self { places: seats, closed, seated: BTreeMap::new(), turn: 0 }
    }

    /// CPUs of a seat.
    pub fn cpus(&self, seat: usize) -> &CpuSet {
        &self.places[seat]
    }

    /// All seats.
    pub fn all(&self) -> &[CpuSet] {
        &self.places
    }

    /// The seat of a task.
    pub fn seat(&self, task: Task) -> Option<usize> {
        self.seated.get(&task).map(|seated| seated.seat)
    }

    /// Tasks that sit somewhere, ascending.
    pub fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        self.seated.keys().copied()
    }

    /// Seats a new task where the least work is done, then where the fewest sit; returns its seat. None where no
    /// seat is open.
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

    /// Forgets all tasks but these.
    pub fn keep(&mut self, is_alive: impl Fn(Task) -> bool) {
        self.seated.retain(|task, _| is_alive(*task));
    }

    /// Takes note that a task used this share of a CPU since it was weighed last.
    pub fn weigh(&mut self, task: Task, share: f64) {
        if let Some(seated) = self.seated.get_mut(&task) {
            seated.busy = seated.busy * MEMORY + share.clamp(0.0, 1.0) * (1.0 - MEMORY);
        }
    }

    /// Moves working tasks, the youngest first, from seats where several work to those where nobody does; returns who
    /// moved where.
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

    /// Closes seats whose CPUs are all offline and opens those that have some again; returns who moved where from
    /// seats that closed. Nobody moves where no seat is open.
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

    /// Whether any seat has lost all its CPUs.
    pub fn any_closed(&self) -> bool {
        self.closed.contains(&true)
    }

    /// Of each seat: tasks that work, and all tasks.
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

    /// Weighs tasks until the past is forgotten.
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
        // Three shells and four workers, as below a pipeline.
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

//! Four tasks of k inversions of M times its transpose: serial, in threads, and in processes.

use crate::{Suite, error::Result, parameters, pilot, treatment};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    pool_subject::{Trial, WorkerOrder},
    record::{factor, id},
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_topology::CpuSet;
use manycore_workload::LoadKind;

/// Number of tasks, as in the published evaluation.
pub(super) const TASKS: usize = 4;

/// Rows of M and inversions per task, in the published evaluation.
pub(super) const PUBLISHED: (u64, u64) = (1000, 50);

/// Rows of M in the shorter profiles.
const SIZE: u64 = 300;

/// Planned seconds of the four tasks in serial, in the shorter profiles.
const SERIAL_SECONDS: f64 = 0.3;

/// Minimum number of blocks from which an interval can be computed.
pub(super) const MIN_BLOCKS: usize = 6;

pub(super) fn measure(suite: &mut Suite) -> Result {
    let (size, repeats) =
        if suite.profile.published { PUBLISHED } else { (SIZE, repeats(pilot(LoadKind::Inverse, SIZE))) };
    let cpus = suite.machine().usable();
    let trial = |mode: &str| {
        // Threads are workers 0 to 3, processes 4 to 7.
        let (workers, tasks_each) = match mode {
            "serial" => (0..1, TASKS as u64),
            "threads" => (0..TASKS, 1),
            _ => (TASKS..2 * TASKS, 1),
        };
        let orders = workers.map(|worker| order(worker, &cpus, size, repeats * tasks_each)).collect();
        let workers = if mode == "serial" { 1 } else { TASKS };
        let trial = Trial { orders, servers: Vec::new(), unit_per_tick: 1.0 / repeats as f64 };
        (treatment(mode.to_owned(), workers, (factor::MODE, mode.to_owned())), trial)
    };
    let mode = SamplingMode::FixedWork;
    let spec = ExperimentSpec {
        parameters: parameters([
            ("program", "manycore".to_owned()),
            ("tasks", TASKS.to_string()),
            ("n", size.to_string()),
            ("k", repeats.to_string()),
        ]),
        budget: Budget { min_blocks: MIN_BLOCKS, ..Budget::seconds(suite.profile.modes) },
        ..ExperimentSpec::new(id::MODES, mode.method(), "tasks")
    };
    let pool = WorkerPool::start(LoadKind::Inverse, TASKS, TASKS)?;
    suite.pool_experiment(pool, mode, spec, ["serial", "threads", "processes"].map(trial).into(), (0.0, 1.0))
}

fn order(worker: usize, cpus: &CpuSet, parameter: u64, ticks: u64) -> WorkerOrder {
    WorkerOrder { worker, cpus: cpus.clone(), parameter, ticks, expected_cpu: None }
}

/// Returns the inversions per task with which four tasks take [`SERIAL_SECONDS`]. The argument is the seconds
/// of one inversion.
pub(super) fn repeats(seconds_of_one: f64) -> u64 {
    (SERIAL_SECONDS / TASKS as f64 / seconds_of_one).round().clamp(1.0, PUBLISHED.1 as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_fill_the_time_but_never_vanish() {
        assert_eq!(repeats(0.0075), 10);
        assert_eq!(repeats(100.0), 1);
        assert_eq!(repeats(1e-9), 50);
    }
}

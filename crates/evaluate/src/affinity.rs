//! Processes that each sum an array in cache: unpinned against pinned to a CPU.

use crate::{Suite, error::Result, parameters, pilot};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    pool_subject::{Trial, WorkerOrder},
    record::{Treatment, id},
    sampling::SamplingMode,
    worker_pool::WorkerPool,
};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::LoadKind;
use std::collections::BTreeMap;

/// Processes on each CPU; the published evaluation has 20 on two CPUs.
const PER_CPU: usize = 10;

/// Maximum number of CPUs, so that a heat map of the processes stays readable.
const MAX_CPUS: usize = 16;

/// Rounds of each variant: A1 to A10 and B1 to B10. A larger budget makes them longer.
const ROUNDS: usize = 10;

/// Share of the budget that the rounds fill; the rest is for the time between them.
const MEASURED: f64 = 0.8;

/// Minimum number of CPU checks of each process in a round, as in the published evaluation.
const CPU_CHECKS: u64 = 10_000;

/// Size in bytes of the array if the cache sizes are unknown.
const UNKNOWN_CACHE: u64 = 32 << 10;

pub(super) fn measure(suite: &mut Suite) -> Result {
    let cpus = spread(&suite.machine().usable(), MAX_CPUS);
    let shared: CpuSet = cpus.iter().copied().collect();
    let bytes = suite
        .session
        .record
        .machine
        .caches_at(1)
        .filter_map(|cache| cache.size_bytes)
        .min()
        .unwrap_or(UNKNOWN_CACHE)
        / 2;
    // The processes of a CPU share it during a round, and both variants have their rounds.
    let seconds = suite.profile.affinity * MEASURED / (2 * ROUNDS * PER_CPU) as f64;
    let ticks = CPU_CHECKS.max((seconds / pilot(LoadKind::Sum, bytes)) as u64);
    let processes = cpus.len() * PER_CPU;
    let trial = |name: &str| {
        let order = |worker: usize| {
            let cpu = cpus[worker % cpus.len()];
            WorkerOrder {
                worker,
                cpus: if name == "pinned" { CpuSet::single(cpu) } else { shared.clone() },
                parameter: bytes,
                ticks,
                expected_cpu: Some(cpu),
            }
        };
        let treatment =
            Treatment { name: name.to_owned(), workers: processes, factors: BTreeMap::new(), latency: None };
        (
            treatment,
            Trial { orders: (0..processes).map(order).collect(), servers: Vec::new(), unit_per_tick: 1.0 },
        )
    };
    let mode = SamplingMode::FixedWork;
    let spec = ExperimentSpec {
        parameters: parameters([
            ("processes", processes.to_string()),
            ("cpus", shared.to_string()),
            ("array_bytes", bytes.to_string()),
            ("sums", ticks.to_string()),
        ]),
        budget: Budget { min_blocks: ROUNDS, max_blocks: ROUNDS, seconds: suite.profile.affinity },
        ..ExperimentSpec::new(id::AFFINITY, mode.method(), "sums")
    };
    let pool = WorkerPool::start(LoadKind::Sum, 0, processes)?;
    suite.pool_experiment(pool, mode, spec, vec![trial("unpinned"), trial("pinned")], (0.0, 1.0))
}

/// Returns at most `most` of `cpus`, evenly spread over them.
fn spread(cpus: &CpuSet, most: usize) -> Vec<CpuId> {
    let step = cpus.len().div_ceil(most).max(1);
    cpus.iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cpus_take_part_on_a_large_machine() {
        assert_eq!(spread(&"0-1".parse().unwrap(), 16), [0, 1]);
        assert_eq!(spread(&"0-319".parse().unwrap(), 16).len(), 16);
        assert!(spread(&"0-16".parse().unwrap(), 16).len() <= 16);
    }
}

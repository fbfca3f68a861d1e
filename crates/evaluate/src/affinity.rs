//! Processes that each sum an array in cache: unpinned against pinned to a CPU.

use crate::error::Result;
use crate::{Plan, Stage, parameters, pilot};
use manycore_experiment::record::{Treatment, id};
use manycore_experiment::{
    crew::Crew,
    engine::Budget,
    live::{Order, Trial},
    pace::Pace,
};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::Kind;
use std::collections::BTreeMap;

/// Processes on each CPU; the published evaluation has 20 on two CPUs.
const PER_CPU: usize = 10;

/// Largest number of CPUs, so that a heat map of the processes stays readable.
const MOST_CPUS: usize = 16;

/// Rounds of each variant: A1 to A10 and B1 to B10. A larger budget makes them longer.
const ROUNDS: usize = 10;

/// Share of the budget that the rounds fill; the rest is for the time between them.
const MEASURED: f64 = 0.8;

/// Smallest number of CPU checks of each process in a round, as in the published evaluation.
const LOOKS: u64 = 10_000;

/// Size in bytes of the array if the cache sizes are unknown.
const UNKNOWN_CACHE: u64 = 32 << 10;

pub(super) fn measure(stage: &mut Stage) -> Result {
    let cpus = spread(&stage.session.record.machine.usable(), MOST_CPUS);
    let shared: CpuSet = cpus.iter().copied().collect();
    let bytes = stage
        .session
        .record
        .machine
        .caches_at(1)
        .filter_map(|cache| cache.size_bytes)
        .min()
        .unwrap_or(UNKNOWN_CACHE)
        / 2;
    // The processes of a CPU share it during a round, and both variants have their rounds.
    let seconds = stage.profile.affinity * MEASURED / (2 * ROUNDS * PER_CPU) as f64;
    let ticks = LOOKS.max((seconds / pilot(Kind::Sum, bytes)) as u64);
    let processes = cpus.len() * PER_CPU;
    let trial = |name: &str| {
        let order = |worker: usize| {
            let cpu = cpus[worker % cpus.len()];
            Order {
                worker,
                cpus: if name == "bound" { CpuSet::single(cpu) } else { shared.clone() },
                parameter: bytes,
                ticks,
                watch: Some(cpu),
            }
        };
        let treatment =
            Treatment { name: name.to_owned(), workers: processes, factors: BTreeMap::new(), latency: None };
        (
            treatment,
            Trial { orders: (0..processes).map(order).collect(), servers: Vec::new(), unit_per_tick: 1.0 },
        )
    };
    let plan = Plan {
        id: id::AFFINITY,
        pace: Pace::Whole,
        unit: "sums",
        parameters: parameters([
            ("processes", processes.to_string()),
            ("cpus", shared.to_string()),
            ("array_bytes", bytes.to_string()),
            ("sums", ticks.to_string()),
        ]),
        trials: vec![trial("free"), trial("bound")],
        budget: Budget { least_blocks: ROUNDS, most_blocks: ROUNDS, seconds: stage.profile.affinity },
        part: (0.0, 1.0),
    };
    stage.crew_experiment(Crew::hire(Kind::Sum, 0, processes)?, plan)
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

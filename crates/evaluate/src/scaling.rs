//! Prime events with 1, 2, 4, ... all CPUs and twice as many workers, and the clock of the CPUs, one at a
//! time and all at once.

use crate::{
    Suite,
    error::{Error, Result},
    parameters,
    profile::PUBLISHED_SECONDS,
    treatment, unpinned_orders,
};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    pool_subject::{Trial, WorkerOrder},
    record::{factor, id},
    sampling::{SLICE, slices},
    worker_pool::WorkerPool,
};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::{ADDITIONS_PER_TICK, DEFAULT_MAX_PRIME, LoadKind};

/// Maximum number of CPUs whose clock is measured one at a time.
const MAX_ALONE: usize = 8;

pub(super) fn measure(suite: &mut Suite) -> Result {
    let total = suite.profile.clock + suite.profile.scaling;
    let until_clock = suite.profile.clock / total;
    match clock(suite, (0.0, until_clock)) {
        // The clock explains the scaling, but the section is useful without it.
        Err(Error::Failed(why)) => suite.session.record_missing("clock of the CPUs", &why),
        other => other?,
    }
    let cpus = suite.machine().usable();
    let counts = worker_counts(cpus.len());
    let trials = counts
        .iter()
        .map(|&workers| {
            let treatment = treatment(workers.to_string(), workers, (factor::WORKERS, workers.to_string()));
            (treatment, prime_trial(workers, &cpus))
        })
        .collect();
    let published = (PUBLISHED_SECONDS / SLICE.as_secs_f64()).ceil() as usize;
    let min_blocks = if suite.profile.published { published } else { 1 };
    let mode = slices(suite.machine());
    let spec = ExperimentSpec {
        parameters: parameters([("max_prime", DEFAULT_MAX_PRIME.to_string())]),
        budget: Budget { min_blocks, ..Budget::seconds(suite.profile.scaling) },
        ..ExperimentSpec::new(id::SCALING, mode.method(), "events")
    };
    let pool = WorkerPool::start(LoadKind::Prime, cpus.len() * 2, 0)?;
    suite.pool_experiment(pool, mode, spec, trials, (until_clock, 1.0))
}

/// Numbers of workers, up to the number of CPUs, that a scalability law needs.
const LAW_POINTS: usize = 5;

/// Returns the powers of two up to `cpus`, `cpus` itself, and twice as many. If these are too few for a law,
/// one and a half times the powers are added.
pub(super) fn worker_counts(cpus: usize) -> Vec<usize> {
    let powers = || (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    let mut counts: Vec<usize> = powers().chain([cpus]).collect();
    if counts.len() < LAW_POINTS {
        counts.extend(powers().map(|power| power * 3 / 2).filter(|&count| count < cpus));
        counts.sort_unstable();
        counts.dedup();
    }
    counts.push(cpus * 2);
    counts
}

/// Returns a trial of `workers` workers at prime events, unpinned on `cpus`.
pub(super) fn prime_trial(workers: usize, cpus: &CpuSet) -> Trial {
    let mut load = LoadKind::Prime.load();
    load.prepare(DEFAULT_MAX_PRIME);
    Trial {
        orders: unpinned_orders(workers, cpus, DEFAULT_MAX_PRIME),
        servers: Vec::new(),
        unit_per_tick: 1.0 / load.ticks_per_event() as f64,
    }
}

/// Measures additions per second of CPUs one at a time, and of all of them at once.
fn clock(suite: &mut Suite, part: (f64, f64)) -> Result {
    let cpus: Vec<CpuId> = suite.machine().usable().iter().collect();
    let order = |worker: usize| WorkerOrder {
        worker,
        cpus: CpuSet::single(cpus[worker]),
        parameter: ADDITIONS_PER_TICK,
        ticks: 0,
        expected_cpu: None,
    };
    let trial = |orders: Vec<WorkerOrder>| Trial {
        orders,
        servers: Vec::new(),
        unit_per_tick: ADDITIONS_PER_TICK as f64,
    };
    let step = cpus.len().div_ceil(MAX_ALONE).max(1);
    let mut trials: Vec<_> = (0..cpus.len())
        .step_by(step)
        .map(|worker| {
            let name = format!("CPU {} alone", cpus[worker]);
            (treatment(name, 1, (factor::CPU, cpus[worker].to_string())), trial(vec![order(worker)]))
        })
        .collect();
    if cpus.len() > 1 {
        let all = treatment("all busy".to_owned(), cpus.len(), (factor::CPU, "all".to_owned()));
        trials.push((all, trial((0..cpus.len()).map(order).collect())));
    }
    let mode = slices(suite.machine());
    let spec = ExperimentSpec {
        budget: Budget::seconds(suite.profile.clock),
        ..ExperimentSpec::new(id::CLOCK, mode.method(), "additions")
    };
    let pool = WorkerPool::start(LoadKind::Cycles, cpus.len(), 0)?;
    suite.pool_experiment(pool, mode, spec, trials, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_counts_end_with_all_cpus_and_twice_as_many() {
        for (cpus, counts) in [
            (1, vec![1, 2]),
            (2, vec![1, 2, 4]),
            (4, vec![1, 2, 3, 4, 8]),
            (6, vec![1, 2, 3, 4, 6, 12]),
            (8, vec![1, 2, 3, 4, 6, 8, 16]),
            (16, vec![1, 2, 4, 8, 16, 32]),
            (320, vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 320, 640]),
        ] {
            assert_eq!(worker_counts(cpus), counts);
        }
    }
}

//! Prime events with 1, 2, 4, ... all CPUs and twice as many workers, and the clock of the CPUs, one at a
//! time and all at once.

use crate::error::{Error, Result};
use crate::{Plan, Stage, free, parameters, profile::PUBLISHED_SECONDS, treatment};
use manycore_experiment::pace::SLICE;
use manycore_experiment::pace::slices;
use manycore_experiment::record::id;
use manycore_experiment::{
    crew::Crew,
    engine::Budget,
    live::{Order, Trial},
};
use manycore_topology::{CpuId, CpuSet};
use manycore_workload::{ADDITIONS_PER_TICK, DEFAULT_MAX_PRIME, Kind};

/// Largest number of CPUs whose clock is measured one at a time.
const MOST_ALONE: usize = 8;

pub(super) fn measure(stage: &mut Stage) -> Result {
    let total = stage.profile.clock + stage.profile.scaling;
    let until_clock = stage.profile.clock / total;
    match clock(stage, (0.0, until_clock)) {
        // The clock explains the scaling, but the section is useful without it.
        Err(Error::Failed(why)) => stage.session.miss("clock of the CPUs", &why),
        other => other?,
    }
    let cpus = stage.session.record.machine.usable();
    let counts = worker_counts(cpus.len());
    let trials = counts
        .iter()
        .map(|&workers| {
            let treatment = treatment(workers.to_string(), workers, ("workers", workers.to_string()));
            (treatment, prime_trial(workers, &cpus))
        })
        .collect();
    let published = (PUBLISHED_SECONDS / SLICE.as_secs_f64()).ceil() as usize;
    let least_blocks = if stage.profile.published { published } else { 1 };
    let plan = Plan {
        id: id::SCALING,
        pace: slices(&stage.session.record.machine),
        unit: "events",
        parameters: parameters([("max_prime", DEFAULT_MAX_PRIME.to_string())]),
        trials,
        budget: Budget { least_blocks, ..Budget::seconds(stage.profile.scaling) },
        part: (until_clock, 1.0),
    };
    stage.crew_experiment(Crew::hire(Kind::Prime, cpus.len() * 2, 0)?, plan)
}

/// Numbers of workers, up to the number of CPUs, that a scalability law needs.
const LAW: usize = 5;

/// Returns the powers of two up to `cpus`, `cpus` itself, and twice as many. If these are too few for a law,
/// one and a half times the powers are added.
pub(super) fn worker_counts(cpus: usize) -> Vec<usize> {
    let powers = || (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    let mut counts: Vec<usize> = powers().chain([cpus]).collect();
    if counts.len() < LAW {
        counts.extend(powers().map(|power| power * 3 / 2).filter(|&count| count < cpus));
        counts.sort_unstable();
        counts.dedup();
    }
    counts.push(cpus * 2);
    counts
}

/// Returns a trial of `workers` workers at prime events, unpinned on `cpus`.
pub(super) fn prime_trial(workers: usize, cpus: &CpuSet) -> Trial {
    let mut load = Kind::Prime.load();
    load.prepare(DEFAULT_MAX_PRIME);
    Trial {
        orders: free(workers, cpus, DEFAULT_MAX_PRIME),
        servers: Vec::new(),
        unit_per_tick: 1.0 / load.ticks_per_event() as f64,
    }
}

/// Measures additions per second of CPUs one at a time, and of all of them at once.
fn clock(stage: &mut Stage, part: (f64, f64)) -> Result {
    let cpus: Vec<CpuId> = stage.session.record.machine.usable().iter().collect();
    let order = |worker: usize| Order {
        worker,
        cpus: CpuSet::single(cpus[worker]),
        parameter: ADDITIONS_PER_TICK,
        ticks: 0,
        watch: None,
    };
    let trial =
        |orders: Vec<Order>| Trial { orders, servers: Vec::new(), unit_per_tick: ADDITIONS_PER_TICK as f64 };
    let step = cpus.len().div_ceil(MOST_ALONE).max(1);
    let mut trials: Vec<_> = (0..cpus.len())
        .step_by(step)
        .map(|worker| {
            let name = format!("CPU {} alone", cpus[worker]);
            (treatment(name, 1, ("cpu", cpus[worker].to_string())), trial(vec![order(worker)]))
        })
        .collect();
    if cpus.len() > 1 {
        let all = treatment("together".to_owned(), cpus.len(), ("together", "all".to_owned()));
        trials.push((all, trial((0..cpus.len()).map(order).collect())));
    }
    let plan = Plan {
        id: id::CLOCK,
        pace: slices(&stage.session.record.machine),
        unit: "additions",
        parameters: parameters([]),
        trials,
        budget: Budget::seconds(stage.profile.clock),
        part,
    };
    stage.crew_experiment(Crew::hire(Kind::Cycles, cpus.len(), 0)?, plan)
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

//! A/A: the differences that this machine shows between two identical treatments.

use crate::{Suite, error::Result, parameters, scaling::prime_trial, treatment};
use manycore_experiment::{
    engine::{Budget, ExperimentSpec},
    record::{factor, id},
    sampling::slices,
    worker_pool::WorkerPool,
};
use manycore_workload::{DEFAULT_MAX_PRIME, LoadKind};

pub(super) fn measure(suite: &mut Suite) -> Result {
    let cpus = suite.machine().usable();
    let counts = if cpus.len() > 1 { vec![1, cpus.len()] } else { vec![1] };
    let trials = counts
        .iter()
        .flat_map(|&workers| ["A", "B"].map(|variant| (workers, variant)))
        .map(|(workers, variant)| {
            let name = format!("{variant} with {workers}");
            (treatment(name, workers, (factor::VARIANT, variant.to_owned())), prime_trial(workers, &cpus))
        })
        .collect();
    let mode = slices(suite.machine());
    let spec = ExperimentSpec {
        parameters: parameters([("max_prime", DEFAULT_MAX_PRIME.to_string())]),
        budget: Budget::seconds(suite.profile.noise),
        ..ExperimentSpec::new(id::NOISE, mode.method(), "events")
    };
    let pool = WorkerPool::start(LoadKind::Prime, cpus.len(), 0)?;
    suite.pool_experiment(pool, mode, spec, trials, (0.0, 1.0))
}

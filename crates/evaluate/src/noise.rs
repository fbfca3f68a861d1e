//! A against A: the differences that this machine shows between two identical treatments.

use crate::error::Result;
use crate::{Plan, Stage, parameters, scaling::prime_trial, treatment};
use manycore_experiment::pace::slices;
use manycore_experiment::record::id;
use manycore_experiment::{crew::Crew, engine::Budget};
use manycore_workload::{DEFAULT_MAX_PRIME, Kind};

pub(super) fn measure(stage: &mut Stage) -> Result {
    let cpus = stage.session.record.machine.usable();
    let counts = if cpus.len() > 1 { vec![1, cpus.len()] } else { vec![1] };
    let trials = counts
        .iter()
        .flat_map(|&workers| ["A", "B"].map(|side| (workers, side)))
        .map(|(workers, side)| {
            let name = format!("{side} with {workers}");
            (treatment(name, workers, ("side", side.to_owned())), prime_trial(workers, &cpus))
        })
        .collect();
    let plan = Plan {
        id: id::NOISE,
        pace: slices(&stage.session.record.machine),
        unit: "events",
        parameters: parameters([("max_prime", DEFAULT_MAX_PRIME.to_string())]),
        trials,
        budget: Budget::seconds(stage.profile.noise),
        part: (0.0, 1.0),
    };
    stage.crew_experiment(Crew::hire(Kind::Prime, cpus.len(), 0)?, plan)
}

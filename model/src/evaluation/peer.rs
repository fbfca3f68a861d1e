//! Ours against another program's, interleaved on the same machine.

use super::with_factor;
use crate::{
    record::{Experiment, Treatment},
    stats::Estimate,
};
use serde::Serialize;

/// Ours against another program at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    /// Threads of both.
    pub workers: usize,
    /// Operations (events) per second of ours.
    pub ours: Estimate,
    /// Events per second of the other one.
    pub theirs: Estimate,
    /// Ours over theirs, from pairs of the same block.
    pub ratio: Estimate,
}

/// One [`Peer`] for each number of workers that has both.
pub(crate) fn judge(experiment: &Experiment) -> Vec<Peer> {
    with_factor(experiment, "program", "manycore")
        .filter_map(|ours| {
            let workers = experiment.treatments[ours].workers;
            let other = |treatment: &Treatment| {
                let program = treatment.factors.get("program");
                program.is_some_and(|program| program != "manycore") && treatment.workers == workers
            };
            let theirs = experiment.treatments.iter().position(other)?;
            Some(Peer {
                workers,
                ours: Estimate::of(&experiment.rates(ours))?,
                theirs: Estimate::of(&experiment.rates(theirs))?,
                ratio: Estimate::of(&experiment.log_ratios(theirs, ours))?.map(f64::exp),
            })
        })
        .collect()
}

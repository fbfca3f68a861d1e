//! The built-in load relative to another program's, interleaved on the same machine.

use super::with_factor;
use manycore_experiment::record::{Experiment, Treatment, factor};
use manycore_stats::Estimate;
use serde::Serialize;

/// The built-in load relative to another program at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramComparison {
    /// Threads of each program.
    pub workers: usize,
    /// Operations (events) per second of the built-in load.
    pub built_in: Estimate,
    /// Events per second of the other program.
    pub other: Estimate,
    /// Built-in over other, from pairs of the same block. `None` where the operations differ, so that a
    /// ratio would be meaningless, and where there are too few pairs for an interval.
    pub ratio: Option<Estimate>,
    /// Number of pairs.
    pub pairs: usize,
}

/// Returns one [`ProgramComparison`] for each number of workers that has both programs. `is_same` says whether an
/// operation is the same in both.
pub(crate) fn evaluate(experiment: &Experiment, is_same: bool) -> Vec<ProgramComparison> {
    with_factor(experiment, factor::PROGRAM, "manycore")
        .filter_map(|ours| {
            let workers = experiment.treatments[ours].workers;
            let other = |treatment: &Treatment| {
                let program = treatment.factors.get(factor::PROGRAM);
                program.is_some_and(|program| program != "manycore") && treatment.workers == workers
            };
            let theirs = experiment.treatments.iter().position(other)?;
            let ratios = experiment.log_ratios(theirs, ours);
            let ratio = Estimate::from_samples(&ratios).filter(|ratio| is_same && ratio.interval.is_some());
            Some(ProgramComparison {
                workers,
                built_in: Estimate::from_samples(&experiment.rates(ours))?,
                other: Estimate::from_samples(&experiment.rates(theirs))?,
                ratio: ratio.map(|ratio| ratio.map(f64::exp)),
                pairs: ratios.len(),
            })
        })
        .collect()
}

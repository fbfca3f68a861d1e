//! Our prime events against sysbench's, interleaved on the same machine.

use super::with_factor;
use crate::{record::Experiment, stats::Estimate};
use serde::Serialize;

/// Ours against sysbench at one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peer {
    /// Threads of both.
    pub workers: usize,
    /// Events per second of ours.
    pub ours: Estimate,
    /// Events per second of sysbench.
    pub theirs: Estimate,
    /// Ours over theirs, from pairs of the same block.
    pub ratio: Estimate,
}

/// One [`Peer`] for each number of workers that has both.
pub(crate) fn judge(experiment: &Experiment) -> Vec<Peer> {
    with_factor(experiment, "program", "manycore")
        .filter_map(|ours| {
            let workers = experiment.treatments[ours].workers;
            let theirs = with_factor(experiment, "program", "sysbench")
                .find(|&theirs| experiment.treatments[theirs].workers == workers)?;
            Some(Peer {
                workers,
                ours: Estimate::of(&experiment.rates(ours))?,
                theirs: Estimate::of(&experiment.rates(theirs))?,
                ratio: Estimate::of(&experiment.log_ratios(theirs, ours))?.map(f64::exp),
            })
        })
        .collect()
}

//! The same tasks one after another, in threads, and in processes.

use super::with_factor;
use manycore_experiment::record::{Experiment, factor};
use manycore_stats::{
    Estimate,
    verdict::{DecisionRule, Verdict},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The modes of one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ParallelModes {
    /// Id of the experiment.
    pub id: String,
    /// What was run: `program`, `tasks`, `n`, `k`, `blas`, `blas_threads`.
    pub parameters: BTreeMap<String, String>,
    /// Serial, threads, processes.
    pub modes: Vec<ParallelMode>,
    /// Processes (B) relative to threads (A).
    pub processes_over_threads: Option<Verdict>,
}

/// One mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ParallelMode {
    /// `serial`, `threads` or `processes`.
    pub name: String,
    /// Seconds for all tasks.
    pub seconds: Estimate,
    /// Speed-up over serial, from pairs of the same block; 1 for serial itself.
    pub speedup: Estimate,
}

/// Evaluates one experiment with the factor `mode`. Returns `None` where serial was not measured.
pub(crate) fn evaluate(experiment: &Experiment, floor: Option<f64>) -> Option<ParallelModes> {
    let index = |mode| with_factor(experiment, factor::MODE, mode).next();
    let serial = index("serial")?;
    let modes: Vec<ParallelMode> = ["serial", "threads", "processes"]
        .into_iter()
        .filter_map(|name| {
            let this = index(name)?;
            let seconds: Vec<f64> =
                experiment.samples_of(this).map(|sample| sample.wall_ns as f64 / 1e9).collect();
            Some(ParallelMode {
                name: name.to_owned(),
                seconds: Estimate::from_samples(&seconds)?,
                speedup: Estimate::from_samples(&experiment.log_ratios(serial, this))?.map(f64::exp),
            })
        })
        .collect();
    let both = index("threads").zip(index("processes"));
    Some(ParallelModes {
        id: experiment.id.clone(),
        parameters: experiment.parameters.clone(),
        processes_over_threads: both.and_then(|(a, b)| {
            Verdict::new(
                &experiment.log_ratios(a, b),
                DecisionRule::from_parameters(&experiment.parameters),
                floor,
            )
        }),
        modes,
    })
}

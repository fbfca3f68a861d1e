//! Processes left to the scheduler against processes bound to CPUs.

use manycore_experiment::record::{Experiment, Sample};
use manycore_stats::verdict::{Rule, Verdict};
use serde::Serialize;

/// Free against bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Affinity {
    /// Seconds of each process (first index) in each free round: P1..Pn by A1..Am.
    pub free: Vec<Vec<f64>>,
    /// The same bound: P1..Pn by B1..Bm.
    pub bound: Vec<Vec<f64>>,
    /// Bound (B) against free (A).
    pub verdict: Option<Verdict>,
    /// CPUs that both sides shared.
    pub cpus: Option<String>,
    /// How often bound processes looked where they ran.
    pub checks: u64,
    /// How often one found itself on another CPU; anything but 0 means that the binding did not hold.
    pub elsewhere: u64,
}

/// Judges the experiment; absent where a side was not measured.
pub(crate) fn judge(experiment: &Experiment, floor: Option<f64>) -> Option<Affinity> {
    let (free, bound) = (experiment.treatment("free")?, experiment.treatment("bound")?);
    let count = |pick: fn(&Sample) -> Option<u64>| experiment.samples_of(bound).filter_map(pick).sum();
    Some(Affinity {
        cpus: experiment.parameters.get("cpus").cloned(),
        free: by_process(experiment, free),
        bound: by_process(experiment, bound),
        verdict: Verdict::of(&experiment.log_ratios(free, bound), Rule::of(&experiment.parameters), floor),
        checks: count(|sample| sample.around.checks),
        elsewhere: count(|sample| sample.around.elsewhere),
    })
}

/// Turns samples (rounds) of processes into processes of rounds.
fn by_process(experiment: &Experiment, treatment: usize) -> Vec<Vec<f64>> {
    let rounds: Vec<&Sample> = experiment.samples_of(treatment).collect();
    let processes = rounds.iter().map(|round| round.per_worker.len()).min().unwrap_or(0);
    (0..processes).map(|process| rounds.iter().map(|round| round.per_worker[process]).collect()).collect()
}

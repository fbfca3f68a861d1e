//! Compares processes that the scheduler places with processes that are pinned to CPUs.

use manycore_experiment::record::{Experiment, Sample};
use manycore_stats::verdict::{Rule, Verdict};
use serde::Serialize;

/// Unpinned processes compared with pinned ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Affinity {
    /// Seconds of each process (first index) in each unpinned round: P1..Pn by A1..Am.
    pub free: Vec<Vec<f64>>,
    /// Seconds of each process in each pinned round: P1..Pn by B1..Bm.
    pub bound: Vec<Vec<f64>>,
    /// Pinned (B) relative to unpinned (A).
    pub verdict: Option<Verdict>,
    /// CPUs that both variants shared.
    pub cpus: Option<String>,
    /// Number of times that pinned processes checked which CPU they ran on.
    pub checks: u64,
    /// Number of checks that found a pinned process on another CPU. Any value but 0 means that the affinity
    /// was not enforced.
    pub elsewhere: u64,
}

/// Evaluates the experiment. Returns `None` where a variant was not measured.
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

/// Transposes samples (rounds, each with all processes) into one vector of rounds for each process.
fn by_process(experiment: &Experiment, treatment: usize) -> Vec<Vec<f64>> {
    let rounds: Vec<&Sample> = experiment.samples_of(treatment).collect();
    let processes = rounds.iter().map(|round| round.per_worker.len()).min().unwrap_or(0);
    (0..processes).map(|process| rounds.iter().map(|round| round.per_worker[process]).collect()).collect()
}

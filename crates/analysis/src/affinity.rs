//! Compares processes that the scheduler places with processes that are pinned to CPUs.

use manycore_experiment::record::{Experiment, Sample};
use manycore_stats::verdict::{DecisionRule, Verdict};
use serde::Serialize;

/// Unpinned processes compared with pinned ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PinningComparison {
    /// Seconds of each process (first index) in each unpinned round: P1..Pn by A1..Am.
    pub unpinned_seconds: Vec<Vec<f64>>,
    /// Seconds of each process in each pinned round: P1..Pn by B1..Bm.
    pub pinned_seconds: Vec<Vec<f64>>,
    /// Pinned (B) relative to unpinned (A).
    pub verdict: Option<Verdict>,
    /// CPUs that both variants shared.
    pub cpus: Option<String>,
    /// Number of times that pinned processes checked which CPU they ran on.
    pub cpu_checks: u64,
    /// Number of checks that found a pinned process on another CPU. Any value but 0 means that the affinity
    /// was not enforced.
    pub off_cpu_checks: u64,
}

/// Evaluates the experiment. Returns `None` where a variant was not measured.
pub(crate) fn evaluate(experiment: &Experiment, floor: Option<f64>) -> Option<PinningComparison> {
    let (unpinned, pinned) = (experiment.treatment("unpinned")?, experiment.treatment("pinned")?);
    let count = |pick: fn(&Sample) -> Option<u64>| experiment.samples_of(pinned).filter_map(pick).sum();
    Some(PinningComparison {
        cpus: experiment.parameters.get("cpus").cloned(),
        unpinned_seconds: transpose_rounds(experiment, unpinned),
        pinned_seconds: transpose_rounds(experiment, pinned),
        verdict: Verdict::new(
            &experiment.log_ratios(unpinned, pinned),
            DecisionRule::from_parameters(&experiment.parameters),
            floor,
        ),
        cpu_checks: count(|sample| sample.counters.cpu_checks),
        off_cpu_checks: count(|sample| sample.counters.off_cpu_checks),
    })
}

/// Transposes samples (rounds, each with all processes) into one vector of rounds for each process.
fn transpose_rounds(experiment: &Experiment, treatment: usize) -> Vec<Vec<f64>> {
    let rounds: Vec<&Sample> = experiment.samples_of(treatment).collect();
    let processes = rounds.iter().map(|round| round.per_worker.len()).min().unwrap_or(0);
    (0..processes).map(|process| rounds.iter().map(|round| round.per_worker[process]).collect()).collect()
}

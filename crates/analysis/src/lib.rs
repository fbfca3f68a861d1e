//! The meaning of a record: estimates with intervals, verdicts, and findings in words.
//!
//! [`Evaluation::from_record`] is a pure function of the record. An [`Evaluation`] holds the verdicts of all comparisons, the
//! fits, and the findings. A verdict is the result of a single comparison. Experiments are found by the ids in
//! [`manycore_experiment::record::id`]. An experiment that is missing or was cut short leaves its part empty.
//!
//! # Interim analyses
//!
//! `compare` and the confirmation of `tune` have up to three planned interim analyses: as many as leave enough pairs
//! for an interval at the first one (36 pairs for three, 18 for two). The record holds their number (`analyses`), the
//! one at which the experiment ended (`analysis`) and the margin (`equivalent`). A verdict in JSON has them with its
//! level, so it can be computed again. An interrupted experiment has the level of the analysis that would have come
//! next.
//!
//! # Findings
//!
//! Findings are sentences with the figures that they rest on, one file for each topic (`findings`). What the conditions
//! support is decided in one place for all of them (`findings::support`), from the CPU time that other work took over
//! all samples of an experiment. Single treatments are too short for that, with ticks of 10 ms.
//!
//! How much of a CPU one worker needs (`demand` of the scaling) is its CPU time where some CPUs were idle. It is
//! unknown where all were in use. Our own loads only compute.
//!
//! # Summary
//!
//! [`summary::summarize`] answers the question of each section in one line, with a mark and the next command. It is for
//! the first lines of a report.
//!
//! # Planning
//!
//! The minimum detectable effect and the number of pairs that an answer needs (`power_analysis`) follow from the width of
//! the interval. Tests simulate whole runs with their analyses for four kinds of noise. The effect is found, and the
//! recommended number of pairs gives an answer, in at least three of four runs in each case, and in about four of
//! five over all.
//!
//! # Tuning
//!
//! A round of `tune` keeps half of its candidates, by the median over blocks of a candidate's rate relative to the
//! block's mean. The best two and the present behaviour are then measured anew. Their tests are corrected with Holm's
//! procedure.
#![forbid(unsafe_code)]

mod affinity;
mod comparison;
mod contention;
mod deciding;
mod density;
pub mod differences;
mod distribution;
mod disturbance;
mod findings;
pub mod gate;
mod latency;
pub mod limits;
mod matrix;
mod metric_by_workers;
mod noise;
mod other_program;
mod parallel_modes;
mod power_analysis;
mod requests;
mod resource_trend;
mod scaling;
mod scheduler_counters;
mod spawning;
mod stream;
pub mod summary;
mod trade_off;
mod tuning;
mod wording;

pub use affinity::PinningComparison;
pub use comparison::{
    Comparison, MetricComparison, VariantComparison, VariantName, evaluate as compare, is_conclusive_enough,
    settling,
};
pub use contention::{ContentionPair, ContentionPoint, LoadContention, UnixBench};
pub use density::{CountTail, Density, DensityAnswer, DensityDifference, InstanceCount, VariantDensity};
pub use distribution::{Distribution, Shape, Statistic, TailQuantile, WorseRuns};
pub use disturbance::{Disturbance, MAX_DISTURBANCE, MAX_THROTTLED};
pub use findings::{Finding, FindingKind};
pub use latency::{CoreLatency, CpuGrouping, DistanceLatency, DistantCpu, PairLatency};
pub use matrix::MatrixPoint;
pub use metric_by_workers::{MetricAtWorkers, MetricByWorkers};
pub use noise::NoiseFloor;
pub use other_program::ProgramComparison;
pub use parallel_modes::{ParallelMode, ParallelModes};
pub use requests::{REQUEST_QUANTILES, RequestDistribution, RequestQuantile};
pub use resource_trend::{ChangeAtCount, ResourcePair, ResourceTrend, ResourceTrends, next_step};
pub use scaling::{Clock, EventTimeSummary, Scaling, ScalingPoint, Superlinear, UslFit};
pub use scheduler_counters::SchedulerCounters;
pub use spawning::{
    CpuBalance, FileRounds, LightProcessRun, LightProcesses, PUBLISHED, PUBLISHED_BYTES, PUBLISHED_ON,
    PublishedFigure, SchedulerMismatch,
};
pub use stream::{MemoryBandwidth, NodeRoute, StreamPoint};
pub use trade_off::TradeOff;
pub use tuning::{BASELINE, Finalist, TuneCandidate, TuneResult, is_confirmed, rank_treatments};

use limits::{LimitCheck, LimitProof};
use manycore_experiment::{
    Record,
    record::{Experiment, id},
};
use manycore_topology::machine::Machine;
use serde::Serialize;

/// Value of [`Evaluation::schema`].
pub const EVALUATION_SCHEMA: &str = "manycore/evaluation/1";

/// Everything that a record shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evaluation {
    /// Always [`EVALUATION_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = EVALUATION_SCHEMA)))]
    pub schema: String,
    /// The noise floor, for one worker and for one on each CPU.
    pub noise: Vec<NoiseFloor>,
    /// How work scales over workers.
    pub scaling: Option<Scaling>,
    /// The scaling experiment where its metric does not count work.
    pub metric_by_workers: Option<MetricByWorkers>,
    /// Clock of the CPUs: of each while the others are idle, and while all are busy.
    pub clock: Option<Clock>,
    /// Serial, threads and processes: the built-in program first, then each Python set-up.
    pub modes: Vec<ParallelModes>,
    /// Matrix products by size.
    pub matrix: Vec<MatrixPoint>,
    /// Unpinned against pinned processes.
    pub affinity: Option<PinningComparison>,
    /// Core-to-core latency.
    pub latency: Option<CoreLatency>,
    /// Memory bandwidth and latency.
    pub stream: Option<MemoryBandwidth>,
    /// The built-in load relative to sysbench, by number of workers.
    pub sysbench: Vec<ProgramComparison>,
    /// Loads whose workers share something.
    pub contention: Vec<LoadContention>,
    /// Variants against their reference.
    pub comparison: Option<Comparison>,
    /// The distribution of the primary metric of each variant of a comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<Distribution>,
    /// The requests of each variant of a comparison, where a load generator prints their distribution.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestDistribution>,
    /// The race of many variants, of which the best ones were then compared; best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub race: Vec<TuneCandidate>,
    /// A search for the best placement.
    pub tuning: Option<TuneResult>,
    /// How many instances of a service fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub density: Option<Density>,
    /// Limits of memory bandwidth, enforced and not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitProof>,
    /// Light processes that were started and held.
    pub light_processes: Vec<LightProcesses>,
    /// Conclusions, most important first.
    pub findings: Vec<Finding>,
}

impl Evaluation {
    /// Evaluates a record.
    pub fn from_record(record: &Record) -> Self {
        let experiment = |id: &str| record.experiment(id);
        let noise = noise_floors(record);
        // The noise floor at the highest number of workers of the experiment.
        let floor = |experiment: &Experiment| {
            let most = experiment.treatments.iter().map(|treatment| treatment.workers).max();
            noise::floor(&noise, most.unwrap_or(1))
        };
        let clock = experiment(id::CLOCK).and_then(scaling::clock);
        let mut evaluation = Self {
            schema: EVALUATION_SCHEMA.to_owned(),
            scaling: experiment(id::SCALING)
                .filter(|e| scaling::counts_work(e))
                .and_then(|e| scaling::evaluate(e, record, clock.as_ref())),
            metric_by_workers: experiment(id::SCALING)
                .filter(|e| !scaling::counts_work(e))
                .and_then(metric_by_workers::evaluate),
            modes: record
                .experiments
                .iter()
                .filter(|experiment| experiment.id.starts_with(id::MODES))
                .filter_map(|experiment| parallel_modes::evaluate(experiment, floor(experiment)))
                .collect(),
            matrix: experiment(id::MATRIX)
                .map(|e| matrix::evaluate(e, &record.machine, clock.as_ref()))
                .unwrap_or_default(),
            affinity: experiment(id::AFFINITY).and_then(|e| affinity::evaluate(e, floor(e))),
            latency: experiment(id::LATENCY).and_then(|e| latency::evaluate(e, &record.machine)),
            stream: stream::evaluate(record),
            sysbench: experiment(id::SYSBENCH)
                .map(|beside| other_program::evaluate(beside, true))
                .unwrap_or_default(),
            contention: contention::evaluate(record, floor),
            comparison: experiment(id::COMPARE).and_then(comparison::evaluate),
            distributions: experiment(id::COMPARE).map(distribution::evaluate).unwrap_or_default(),
            requests: experiment(id::COMPARE).map(requests::evaluate).unwrap_or_default(),
            race: tuning::race(record),
            tuning: tuning::evaluate(record),
            density: experiment(id::DENSITY).and_then(density::evaluate),
            limits: limits(record),
            light_processes: spawning::evaluate(record),
            clock,
            noise,
            findings: Vec::new(),
        };
        evaluation.findings = findings::find(record, &evaluation);
        evaluation
    }
}

/// Returns the noise floors. A run without an A/A experiment uses consecutive samples of the same treatment instead.
fn noise_floors(record: &Record) -> Vec<NoiseFloor> {
    let repeats = || record.experiment(id::SCALING).filter(|_| record.subcommand != "eval");
    let from_pairs = record.experiment(id::NOISE).map(noise::evaluate);
    from_pairs.or_else(|| repeats().map(noise::from_repeats)).unwrap_or_default()
}

/// Evaluates the checks of limits in a record.
fn limits(record: &Record) -> Vec<LimitProof> {
    let of = |experiment: &Experiment| {
        let name = experiment.id.strip_prefix(id::QOS)?;
        let check = LimitCheck::ALL.into_iter().find(|check| check.name() == name)?;
        Some(LimitProof::from_experiment(check, experiment))
    };
    record.experiments.iter().filter_map(of).collect()
}

/// Returns the number of CPUs that workers could use at the same time; 1 where the machine lists none.
pub(crate) fn usable_cpus(machine: &Machine) -> usize {
    machine.usable().len().max(1)
}

/// Iterates over the indices of the treatments whose factor `name` has the value `value`.
pub(crate) fn with_factor<'a>(
    experiment: &'a Experiment,
    name: &'a str,
    value: &'a str,
) -> impl Iterator<Item = usize> + 'a {
    experiment
        .treatments
        .iter()
        .enumerate()
        .filter(move |(_, treatment)| treatment.factors.get(name).is_some_and(|factor| factor == value))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests;

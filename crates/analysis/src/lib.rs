//! The meaning of a record: estimates with intervals, verdicts, and findings in words.
//!
//! A pure function of the record: [`Evaluation::of`]. Experiments are found by the ids in [`manycore_experiment::record::id`]; one that is
//! missing from the record, or was cut short, leaves its part empty.
#![forbid(unsafe_code)]

mod affinity;
mod circumstances;
mod comparison;
mod contention;
mod disturbance;
mod findings;
mod latency;
mod levels;
pub mod limits;
mod matrix;
mod modes;
mod noise;
mod peer;
mod planning;
mod scaling;
mod spawning;
mod stream;
mod tuning;
mod words;

pub use affinity::Affinity;
pub use circumstances::Circumstances;
pub use comparison::{Compared, Comparison, enough, judge as compare};
pub use contention::{Contention, ContentionPair, ContentionPoint, UnixBench};
pub use disturbance::{Disturbance, MOST_TAKEN, MOST_THROTTLED};
pub use findings::{Finding, Kind};
pub use latency::{AtDistance, CoreLatency, Far, Grouping, PairLatency};
pub use levels::{Level, Levels};
pub use matrix::MatrixPoint;
pub use modes::{Mode, Modes};
pub use noise::Noise;
pub use peer::Peer;
pub use scaling::{Clock, LatencySummary, Scaling, ScalingPoint, Superlinear, UslFit};
pub use spawning::{
    Balance, LightProcesses, LightRun, Mismatch, PUBLISHED, PUBLISHED_BYTES, PUBLISHED_ON, Published, Rounds,
};
pub use stream::{Route, StreamPoint, Streaming};
pub use tuning::{Candidate, Finalist, TODAY, Tuning, confirmed, ranking};

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
pub struct Evaluation {
    /// Always [`EVALUATION_SCHEMA`].
    pub schema: String,
    /// The noise floor, for one worker and for one on each CPU.
    pub noise: Vec<Noise>,
    /// How work scales over workers.
    pub scaling: Option<Scaling>,
    /// The evaluation of the scaling experiment where its metric does not count work.
    pub levels: Option<Levels>,
    /// Clock of the CPUs, alone and all at the same time.
    pub clock: Option<Clock>,
    /// Serial, threads and processes: the built-in program first, then each Python set-up.
    pub modes: Vec<Modes>,
    /// Matrix products by size.
    pub matrix: Vec<MatrixPoint>,
    /// Unpinned against pinned processes.
    pub affinity: Option<Affinity>,
    /// Core-to-core latency.
    pub latency: Option<CoreLatency>,
    /// Memory bandwidth and latency.
    pub stream: Option<Streaming>,
    /// The built-in load relative to sysbench, by number of workers.
    pub peers: Vec<Peer>,
    /// Loads whose workers share something.
    pub contention: Vec<Contention>,
    /// Variant B compared with variant A.
    pub comparison: Option<Comparison>,
    /// A search for the best placement.
    pub tuning: Option<Tuning>,
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
    pub fn of(record: &Record) -> Self {
        let experiment = |id: &str| record.experiment(id);
        // A run without an A/A experiment uses consecutive samples of the same treatment instead.
        let noise = experiment(id::NOISE)
            .map(noise::judge)
            .or_else(|| experiment(id::SCALING).filter(|_| record.verb != "eval").map(noise::within))
            .unwrap_or_default();
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
                .and_then(|e| scaling::judge(e, record, clock.as_ref())),
            levels: experiment(id::SCALING).filter(|e| !scaling::counts_work(e)).and_then(levels::judge),
            modes: record
                .experiments
                .iter()
                .filter(|experiment| experiment.id.starts_with(id::MODES))
                .filter_map(|experiment| modes::judge(experiment, floor(experiment)))
                .collect(),
            matrix: experiment(id::MATRIX)
                .map(|e| matrix::judge(e, &record.machine, clock.as_ref()))
                .unwrap_or_default(),
            affinity: experiment(id::AFFINITY).and_then(|e| affinity::judge(e, floor(e))),
            latency: experiment(id::LATENCY).and_then(|e| latency::judge(e, &record.machine)),
            stream: stream::judge(record),
            peers: experiment(id::SYSBENCH).map(|beside| peer::judge(beside, true)).unwrap_or_default(),
            contention: contention::judge(record, floor),
            comparison: experiment(id::COMPARE).and_then(comparison::judge),
            tuning: tuning::judge(record),
            limits: limits(record),
            light_processes: spawning::judge(record),
            clock,
            noise,
            findings: Vec::new(),
        };
        evaluation.findings = findings::find(record, &evaluation);
        evaluation
    }
}

/// Evaluates the checks of limits in a record.
fn limits(record: &Record) -> Vec<LimitProof> {
    let of = |experiment: &Experiment| {
        let name = experiment.id.strip_prefix(id::QOS)?;
        let check = LimitCheck::ALL.into_iter().find(|check| check.name() == name)?;
        Some(LimitProof::of(check, experiment))
    };
    record.experiments.iter().filter_map(of).collect()
}

/// Returns the number of CPUs that workers could use at the same time; 1 where the machine lists none.
pub(crate) fn usable_cpus(machine: &Machine) -> usize {
    machine.usable().len().max(1)
}

/// Returns the number of cores that have a CPU that workers could use.
pub(crate) fn usable_cores(machine: &Machine) -> usize {
    let usable = machine.usable();
    machine.cores.iter().filter(|core| !core.cpus.intersection(&usable).is_empty()).count()
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

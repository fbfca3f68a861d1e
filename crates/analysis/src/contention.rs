//! Workers that share something: their throughput by number of workers and by distance between their CPUs.

use super::other_program::{self, ProgramComparison};
use manycore_experiment::{
    Record,
    record::{Experiment, Method, Sample, Treatment, factor},
};
use manycore_stats::{
    Estimate, jain_index, median,
    verdict::{DecisionRule, Verdict},
};
use manycore_topology::distance::TopologyDistance;
use serde::Serialize;

/// Round trips per second to which UnixBench assigns the index 10 (its `pgms/index.base`).
const UNIXBENCH_BASE: f64 = 4000.0;

/// Number and seconds of the passes of UnixBench.
const UNIXBENCH_PASSES: (usize, f64) = (10, 10.0);

/// The evaluation of one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadContention {
    /// `counter`, `lock`, `queue`, `sem`, `sem-sysv`, `msg`, `pipe`.
    pub load: String,
    /// The operations that are counted: `additions`, `round trips`.
    pub unit: String,
    /// What the numbers of workers count: `workers`, or `pairs` of processes.
    pub worker_noun: String,
    /// Workers that the scheduler places, by variant and number.
    pub points: Vec<ContentionPoint>,
    /// Two tasks that are pinned to two CPUs or to the same one, by variant and distance.
    pub pairs: Vec<ContentionPair>,
    /// The index that UnixBench would compute from the pipes.
    pub unixbench: Option<UnixBench>,
    /// The other program that was measured in the same run, with its version.
    pub other_program: Option<String>,
    /// The built-in load relative to that program, by number of workers.
    pub against_other: Vec<ProgramComparison>,
}

/// One variant with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentionPoint {
    /// The way of sharing.
    pub variant: String,
    /// Maximum number of workers at once.
    pub workers: usize,
    /// Operations per second of all workers in total.
    pub rate: Estimate,
    /// Operations per second of one worker.
    pub rate_per_worker: Estimate,
    /// Relative to the fewest workers of the variant, from pairs of the same block. `None` for the fewest
    /// themselves.
    pub relative_to_smallest: Option<Verdict>,
    /// Relative to the variant with the highest rate at the same number of workers, from pairs of the same
    /// block, at a level divided among the variants. `None` for that variant itself.
    pub relative_to_best: Option<Verdict>,
    /// Jain's index over the operations of the workers. `None` for one worker.
    pub fairness: Option<f64>,
}

/// One variant with two tasks that are pinned to CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContentionPair {
    /// The way of sharing.
    pub variant: String,
    /// Distance between the CPUs. `None` where both tasks have the same CPU.
    pub distance: Option<TopologyDistance>,
    /// The CPUs: `0,1`.
    pub cpus: String,
    /// Operations per second of both tasks in total.
    pub rate: Estimate,
    /// Rate relative to that at the first distance of the variant. `None` for the first distance.
    pub relative_to_nearest: Option<Estimate>,
}

/// Pipe-based context switching as UnixBench counts it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnixBench {
    /// Number of passes. The worst third of them does not count.
    pub passes: usize,
    /// Seconds of a pass.
    pub seconds: f64,
    /// Geometric mean of the round trips per second of the passes that count.
    pub rate: f64,
    /// `rate` divided by 4,000, times 10.
    pub index: f64,
    /// Whether there were ten passes of ten seconds as in UnixBench, and not more and shorter ones.
    pub exact: bool,
}

impl ContentionPair {
    /// `SMT siblings`, `same CPU`.
    pub fn title(&self) -> &'static str {
        self.distance.map_or("same CPU", TopologyDistance::title)
    }
}

/// Evaluates all experiments whose id begins with [`super::id::CONTENTION`], each with the other program
/// that has the same load. `floor` returns the noise floor of an experiment.
pub(crate) fn evaluate(record: &Record, floor: impl Fn(&Experiment) -> Option<f64>) -> Vec<LoadContention> {
    let of = |experiment: &Experiment| {
        let load = experiment.id.strip_prefix(manycore_experiment::record::id::CONTENTION)?;
        let parameter = |name: &str| experiment.parameters.get(name).cloned();
        let beside =
            record.experiment(&format!("{}{load}", manycore_experiment::record::id::CONTENTION_PEER));
        Some(LoadContention {
            load: load.to_owned(),
            unit: experiment.unit.clone(),
            worker_noun: parameter("counted").unwrap_or_else(|| "workers".to_owned()),
            points: points(experiment, floor(experiment)),
            pairs: pairs(experiment),
            unixbench: (load == "pipe").then(|| unixbench(experiment)).flatten(),
            other_program: beside.and_then(|beside| beside.parameters.get("version").cloned()),
            // stress-ng's sem combines tries, waits with a time-out and yields in turns.
            against_other: beside
                .map(|beside| other_program::evaluate(beside, load != "sem"))
                .unwrap_or_default(),
        })
    };
    record.experiments.iter().filter_map(of).collect()
}

fn factor<'a>(treatment: &'a Treatment, name: &str) -> Option<&'a str> {
    treatment.factors.get(name).map(String::as_str)
}

/// Iterates over the treatments that have a variant, in their order: the pinned or the unpinned ones.
fn treatments(experiment: &Experiment, pinned: bool) -> impl Iterator<Item = (usize, &Treatment, &str)> {
    experiment.treatments.iter().enumerate().filter_map(move |(index, treatment)| {
        let variant = factor(treatment, factor::VARIANT)?;
        (factor(treatment, factor::DISTANCE).is_some() == pinned).then_some((index, treatment, variant))
    })
}

fn points(experiment: &Experiment, floor: Option<f64>) -> Vec<ContentionPoint> {
    treatments(experiment, false)
        .filter_map(|(index, treatment, variant)| {
            let rates = experiment.rates(index);
            let fewest = treatments(experiment, false)
                .filter(|&(_, _, other)| other == variant)
                .min_by_key(|(_, other, _)| other.workers)
                .map(|(fewest, _, _)| fewest)
                .filter(|&fewest| fewest != index);
            let rate = Estimate::from_samples(&rates)?;
            let rivals: Vec<usize> = treatments(experiment, false)
                .filter(|(_, other, _)| other.workers == treatment.workers)
                .map(|(rival, ..)| rival)
                .collect();
            let workers = work_by_worker(experiment, index).len().max(1);
            Some(ContentionPoint {
                variant: variant.to_owned(),
                workers: treatment.workers,
                rate,
                rate_per_worker: rate.map(|rate| rate / workers as f64),
                relative_to_smallest: fewest.and_then(|fewest| {
                    Verdict::new(
                        &experiment.log_ratios(fewest, index),
                        DecisionRule::from_parameters(&experiment.parameters),
                        floor,
                    )
                }),
                relative_to_best: fastest_treatment(experiment, &rivals)
                    .filter(|&best| best != index)
                    .and_then(|best| {
                        let rule = DecisionRule::from_parameters(&experiment.parameters)
                            .divided_by(rivals.len() - 1);
                        Verdict::new(&experiment.log_ratios(best, index), rule, floor)
                    }),
                fairness: (workers > 1).then(|| jain_index(&work_by_worker(experiment, index))).flatten(),
            })
        })
        .collect()
}

/// Returns the treatment with the highest rate.
fn fastest_treatment(experiment: &Experiment, of: &[usize]) -> Option<usize> {
    let rate = |index: usize| median(&experiment.rates(index)).unwrap_or(0.0);
    of.iter().copied().max_by(|&a, &b| rate(a).total_cmp(&rate(b)))
}

/// Returns the operations of each worker, summed over all samples of a treatment.
fn work_by_worker(experiment: &Experiment, treatment: usize) -> Vec<f64> {
    experiment.samples_of(treatment).fold(Vec::new(), |mut sums, sample: &Sample| {
        sums.resize(sums.len().max(sample.per_worker.len()), 0.0);
        sums.iter_mut().zip(&sample.per_worker).for_each(|(sum, work)| *sum += work);
        sums
    })
}

fn pairs(experiment: &Experiment) -> Vec<ContentionPair> {
    treatments(experiment, true)
        .filter_map(|(index, treatment, variant)| {
            let nearest = treatments(experiment, true)
                .find(|&(_, _, other)| other == variant)
                .map(|(nearest, _, _)| nearest)
                .filter(|&nearest| nearest != index);
            let name = factor(treatment, factor::DISTANCE)?;
            let over = |nearest| Estimate::from_samples(&experiment.log_ratios(nearest, index));
            Some(ContentionPair {
                variant: variant.to_owned(),
                distance: TopologyDistance::ALL.into_iter().find(|distance| distance.name() == name),
                cpus: factor(treatment, factor::CPUS).unwrap_or_default().to_owned(),
                rate: Estimate::from_samples(&experiment.rates(index))?,
                relative_to_nearest: nearest.and_then(over).map(|ratio| ratio.map(f64::exp)),
            })
        })
        .collect()
}

/// Computes the index from the passes of one unpinned pair: the geometric mean without the worst third.
fn unixbench(experiment: &Experiment) -> Option<UnixBench> {
    let (one, ..) = treatments(experiment, false).find(|(_, treatment, _)| treatment.workers == 1)?;
    let mut rates = experiment.rates(one);
    let passes = rates.len();
    rates.sort_by(|a, b| b.total_cmp(a));
    rates.truncate(passes - passes / 3);
    let logarithms: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
    let rate = manycore_stats::mean(&logarithms)?.exp();
    let seconds = match experiment.method {
        Method::Slices { slice_ns, .. } => slice_ns as f64 / 1e9,
        Method::WholeRun => return None,
    };
    Some(UnixBench {
        passes,
        seconds,
        rate,
        index: rate / UNIXBENCH_BASE * 10.0,
        exact: (passes, seconds) == UNIXBENCH_PASSES,
    })
}

#[cfg(test)]
mod tests;

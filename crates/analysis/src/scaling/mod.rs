//! How work scales over workers, and which points are above linear.

mod clock;
mod law;
mod superlinear;

pub use clock::Clock;
pub(crate) use clock::evaluate as clock;
pub use law::UslFit;
pub use superlinear::Superlinear;

use super::scheduler_counters::{self, SchedulerCounters};
use manycore_experiment::{
    Record,
    record::{Direction, EventTimes, Experiment, Method, factor},
};
use manycore_stats::{Estimate, histogram, jain_index};
use manycore_topology::{CpuId, CpuSet, Machine};
use serde::Serialize;

/// Share of a CPU's time from which a worker counts as CPU-bound. One that uses less waits for something.
const CPU_BOUND_SHARE: f64 = 0.9;

/// Share of the CPUs' time that must be idle for the CPU time of one worker to show its demand.
const MIN_IDLE_SHARE: f64 = 0.2;

/// The evaluation of the scaling experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// Number of CPUs that the workers could use.
    pub cpus: usize,
    /// The CPUs of their placement. `None` where it has all CPUs that could be used.
    pub placed_on: Option<CpuSet>,
    /// Share of a CPU's time that one worker uses where it gets all that it needs. It is less than 1 where
    /// the worker waits for something, such as input and output. `None` where the record does not show it.
    pub demand: Option<f64>,
    /// One point for each number of workers, ascending.
    pub points: Vec<ScalingPoint>,
    /// The law fitted to the points up to the number of CPUs. `None` below five of them.
    pub usl: Option<UslFit>,
}

/// One number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingPoint {
    /// Maximum number of workers at once.
    pub workers: usize,
    /// Number of events.
    pub events: f64,
    /// Seconds in which the events were counted.
    pub seconds: f64,
    /// Events per second over the slices.
    pub rate: Estimate,
    /// Rate relative to one worker, from pairs of the same block.
    pub speedup: Estimate,
    /// Maximum speed-up of this number of workers on these CPUs; see [`Scaling::demand`].
    pub linear: f64,
    /// Speed-up relative to `linear`. For CPU-bound workers this is the efficiency for each CPU in use.
    pub efficiency: Estimate,
    /// Times of single events.
    pub event_times: Option<EventTimeSummary>,
    /// Jain's index over the speeds of the workers.
    pub fairness: Option<f64>,
    /// Busy share of each CPU, in the order of `Machine::online`.
    pub cpu_share: Vec<(CpuId, f64)>,
    /// Scheduler counters.
    pub counters: SchedulerCounters,
    /// Present where the speed-up is above linear, with the causes.
    pub superlinear: Option<Superlinear>,
}

/// Event times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventTimeSummary {
    /// Shortest.
    pub min_ms: f64,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// 95th percentile, within 0.8 %.
    pub p95_ms: f64,
    /// 99th percentile, within 0.8 %.
    pub p99_ms: f64,
    /// Longest.
    pub max_ms: f64,
}

impl Scaling {
    /// Returns whether a worker uses its CPU nearly all of the time.
    pub fn is_cpu_bound(&self) -> bool {
        self.demand.is_some_and(|demand| demand >= CPU_BOUND_SHARE)
    }

    /// Returns the CPUs that the workers could use.
    pub(crate) fn usable(&self, machine: &Machine) -> CpuSet {
        self.placed_on.clone().unwrap_or_else(|| machine.usable())
    }

    /// Returns whether a worker waits for something other than a CPU.
    pub fn is_waiting(&self) -> bool {
        self.demand.is_some_and(|demand| demand < CPU_BOUND_SHARE)
    }
}

/// Returns whether an experiment measures work per second. A metric of which less is better, other than the
/// time of the whole command, may be a latency or a size and does not measure work.
pub(crate) fn counts_work(experiment: &Experiment) -> bool {
    experiment
        .metrics
        .first()
        .is_none_or(|metric| metric.name == "wall" || metric.better == Direction::Higher)
}

/// Evaluates the scaling experiment. Returns `None` where one worker alone was not measured.
pub(crate) fn evaluate(experiment: &Experiment, record: &Record, clock: Option<&Clock>) -> Option<Scaling> {
    let placed_on = placed_on(experiment, &record.machine);
    let usable = placed_on.clone().unwrap_or_else(|| record.machine.usable());
    let cpus = usable.len().max(1);
    let one = experiment.treatments.iter().position(|treatment| treatment.workers == 1)?;
    let demand = demand(experiment, one, record, &usable);
    let mut points: Vec<ScalingPoint> = (0..experiment.treatments.len())
        .filter_map(|index| point(experiment, (one, index), record, &usable, demand))
        .collect();
    points.sort_by_key(|point| point.workers);
    let baseline = points.first().filter(|point| point.workers == 1)?.clone();
    for point in &mut points {
        point.superlinear = superlinear::evaluate(point, &baseline, cpus, clock);
    }
    // The peak and the queues of the law are those of CPUs.
    let computes = demand.is_some_and(|demand| demand >= CPU_BOUND_SHARE);
    let usl = if computes { law::fit(experiment, cpus, record.seed) } else { None };
    Some(Scaling { cpus, placed_on, demand, points, usl })
}

/// Returns the CPUs of the workers' placement. `None` where it has all CPUs that could be used, or the record does not
/// show it.
fn placed_on(experiment: &Experiment, machine: &Machine) -> Option<CpuSet> {
    let cpus: CpuSet = experiment.treatments.first()?.factors.get(factor::CPUS)?.parse().ok()?;
    let usable = machine.usable();
    Some(cpus.intersection(&usable)).filter(|cpus| !cpus.is_empty() && *cpus != usable)
}

/// Returns the share of a CPU that one worker uses. Workers in slices run the built-in loads, which only
/// compute.
fn demand(experiment: &Experiment, one: usize, record: &Record, usable: &CpuSet) -> Option<f64> {
    if matches!(experiment.method, Method::Slices { .. }) {
        return Some(1.0);
    }
    let counters = scheduler_counters::gather(experiment, one, record, usable);
    let used = counters.cpu_time? / (1.0 - counters.steal.unwrap_or(0.0)).max(f64::EPSILON);
    let shares = cpu_share(experiment, one, record);
    let busy: Vec<f64> =
        shares.into_iter().filter(|(cpu, _)| usable.contains(*cpu)).map(|(_, share)| share).collect();
    // Where all CPUs were busy, a worker may have waited for one of them.
    let is_left = manycore_stats::mean(&busy).is_some_and(|busy| busy <= 1.0 - MIN_IDLE_SHARE);
    let held_back = counters.throttled.is_some_and(|share| share > 0.0);
    (used >= CPU_BOUND_SHARE || (is_left && !held_back)).then(|| used.min(1.0))
}

/// Returns the maximum speed-up of `workers` relative to one.
fn linear_speedup(workers: usize, cpus: usize, demand: Option<f64>) -> f64 {
    let (workers, cpus) = (workers as f64, cpus as f64);
    demand.map_or(workers, |demand| workers.min(cpus / demand))
}

fn point(
    experiment: &Experiment,
    (one, index): (usize, usize),
    record: &Record,
    usable: &CpuSet,
    demand: Option<f64>,
) -> Option<ScalingPoint> {
    let treatment = &experiment.treatments[index];
    let wall_ns: f64 = experiment.samples_of(index).map(|sample| sample.wall_ns as f64).sum();
    let speedup = Estimate::from_samples(&experiment.log_ratios(one, index))?.map(f64::exp);
    let linear = linear_speedup(treatment.workers, usable.len().max(1), demand);
    Some(ScalingPoint {
        workers: treatment.workers,
        events: experiment.samples_of(index).map(|sample| sample.work).sum(),
        seconds: wall_ns / 1e9,
        rate: Estimate::from_samples(&experiment.rates(index))?,
        speedup,
        linear,
        efficiency: speedup.map(|speedup| speedup / linear),
        event_times: treatment.latency.as_ref().and_then(summary),
        fairness: jain_index(&work_by_worker(experiment, index)),
        cpu_share: cpu_share(experiment, index, record),
        counters: scheduler_counters::gather(experiment, index, record, usable),
        superlinear: None,
    })
}

/// Returns the work of each worker over all samples of a treatment; single slices are too short to show
/// fairness. Of whole pieces of work, each worker did one in its time, so the speed is the inverse of the
/// time.
fn work_by_worker(experiment: &Experiment, index: usize) -> Vec<f64> {
    let mut sums = vec![0.0; experiment.treatments[index].workers];
    for sample in experiment.samples_of(index) {
        sums.iter_mut().zip(&sample.per_worker).for_each(|(sum, work)| *sum += work);
    }
    match experiment.method {
        Method::Slices { .. } => sums,
        Method::WholeRun => sums.into_iter().map(|sum| if sum > 0.0 { 1.0 / sum } else { 0.0 }).collect(),
    }
}

fn cpu_share(experiment: &Experiment, index: usize, record: &Record) -> Vec<(CpuId, f64)> {
    let mut ticks = vec![0.0; record.machine.online.len()];
    let mut span_ns = 0.0;
    for sample in experiment.samples_of(index) {
        span_ns += sample.counters.span_ns as f64;
        ticks.iter_mut().zip(&sample.counters.busy_ticks).for_each(|(sum, &busy)| *sum += f64::from(busy));
    }
    let elapsed = span_ns / 1e9 * record.conditions.ticks_per_second as f64;
    let counted = experiment.samples_of(index).any(|sample| !sample.counters.busy_ticks.is_empty());
    let shares = ticks.into_iter().map(|ticks| (ticks / elapsed).min(1.0));
    if counted && elapsed > 0.0 { record.machine.online.iter().zip(shares).collect() } else { Vec::new() }
}

fn summary(latency: &EventTimes) -> Option<EventTimeSummary> {
    let (min, max) = (latency.min_ns as f64, latency.max_ns as f64);
    // Midpoints of buckets may lie beyond the extremes.
    let milliseconds = |ns: f64| ns.min(max).max(min) / 1e6;
    Some(EventTimeSummary {
        min_ms: latency.min_ns as f64 / 1e6,
        mean_ms: latency.sum_ns as f64 / latency.count as f64 / 1e6,
        p95_ms: milliseconds(histogram::quantile(&latency.buckets, 0.95)?),
        p99_ms: milliseconds(histogram::quantile(&latency.buckets, 0.99)?),
        max_ms: latency.max_ns as f64 / 1e6,
    })
}

#[cfg(test)]
mod tests;

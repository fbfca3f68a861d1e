//! Checks whether a record that was read can be evaluated: rejects values that its types allow but no
//! measurement gives.

mod spawning;

use super::{CounterDelta, EventTimes, Experiment, RECORD_SCHEMA, Record, Sample};
use manycore_stats::histogram::BUCKETS;

/// More CPUs or workers than any machine has. Larger tables would only consume memory.
const MAX_WORKERS: usize = 1 << 20;

/// Counters above this are damaged, and their sums would overflow. Nanoseconds of a hundred days fit.
const MAX_COUNTER: u64 = 1 << 53;

/// Work above this is damaged: a thousand years of the fastest computer's arithmetic.
const MAX_WORK: f64 = 1e30;

/// Why a record cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRecord {
    /// The schema is not [`RECORD_SCHEMA`].
    #[error("schema is {0:?}, not {RECORD_SCHEMA:?}")]
    Schema(String),
    /// The machine is impossible.
    #[error("machine: {0}")]
    Machine(String),
    /// An experiment contains values that cannot have been measured.
    #[error("experiment {id:?}: {what}")]
    Experiment {
        /// Id of the experiment.
        id: String,
        /// What is wrong, and where.
        what: String,
    },
    /// Light processes with values that cannot have been measured.
    #[error("light processes of {runtime}: {what}")]
    Spawning {
        /// The runtime.
        runtime: &'static str,
        /// What is wrong, and where.
        what: String,
    },
}

impl Record {
    /// Checks everything on which the evaluation relies.
    ///
    /// # Errors
    /// Returns the first value that cannot have been measured.
    pub fn check(&self) -> Result<(), InvalidRecord> {
        if self.schema != RECORD_SCHEMA {
            return Err(InvalidRecord::Schema(self.schema.clone()));
        }
        for (name, cpus) in [("online", &self.machine.online), ("allowed", &self.machine.allowed.cpus)] {
            if cpus.len() > MAX_WORKERS {
                return Err(InvalidRecord::Machine(format!("{} CPUs are {name}", cpus.len())));
            }
        }
        self.experiments.iter().try_for_each(|experiment| {
            check_experiment(experiment)
                .map_err(|what| InvalidRecord::Experiment { id: experiment.id.clone(), what })
        })?;
        self.light_processes.iter().try_for_each(|spawning| {
            let runtime = spawning.runtime.name();
            spawning::check(spawning).map_err(|what| InvalidRecord::Spawning { runtime, what })
        })
    }
}

fn check_experiment(experiment: &Experiment) -> Result<(), String> {
    for treatment in &experiment.treatments {
        let name = &treatment.name;
        if !(1..=MAX_WORKERS).contains(&treatment.workers) {
            return Err(format!("treatment {name:?} has {} workers", treatment.workers));
        }
        if let Some(latency) = &treatment.latency {
            check_latency(latency).map_err(|what| format!("treatment {name:?}: {what}"))?;
        }
    }
    experiment.samples.iter().enumerate().try_for_each(|(index, sample)| {
        check_sample(sample, experiment).map_err(|what| format!("sample {index}: {what}"))
    })
}

fn check_sample(sample: &Sample, experiment: &Experiment) -> Result<(), String> {
    let Some(treatment) = experiment.treatments.get(sample.treatment) else {
        return Err(format!(
            "treatment index is {}, expected less than {}",
            sample.treatment,
            experiment.treatments.len()
        ));
    };
    if sample.wall_ns == 0 || sample.wall_ns > MAX_COUNTER {
        return Err(format!("wall_ns is {}", sample.wall_ns));
    }
    let measured = |work: &f64| (0.0..=MAX_WORK).contains(work);
    if !measured(&sample.work) || !sample.per_worker.iter().all(measured) {
        return Err("work is negative or larger than any machine can do".to_owned());
    }
    if sample.per_worker.len() > treatment.workers {
        return Err(format!(
            "per_worker has {} entries for {} workers",
            sample.per_worker.len(),
            treatment.workers
        ));
    }
    if sample.values.len() != experiment.metrics.len() || !sample.values.iter().all(|value| value.is_finite())
    {
        return Err(format!("values {:?} for {} metrics", sample.values, experiment.metrics.len()));
    }
    if let Some(ns) = sample.switch_ns.filter(|&ns| ns > MAX_COUNTER) {
        return Err(format!("switch_ns is {ns}"));
    }
    if let Some(ns) = sample.probe_ns.filter(|&ns| ns == 0 || ns > MAX_COUNTER) {
        return Err(format!("probe_ns is {ns}"));
    }
    sample.requests.iter().try_for_each(super::RequestTimes::check)?;
    match largest_counter(&sample.counters) {
        (name, count) if count > MAX_COUNTER => Err(format!("{name} is {count}")),
        _ => Ok(()),
    }
}

/// Returns the largest counter and its name.
fn largest_counter(counters: &CounterDelta) -> (&'static str, u64) {
    [
        ("span_ns", Some(counters.span_ns)),
        ("cpu_ns", counters.cpu_ns),
        ("system_ns", counters.system_ns),
        ("run_delay_ns", counters.run_delay_ns),
        ("migrations", counters.migrations),
        ("voluntary_switches", counters.voluntary_switches),
        ("involuntary_switches", counters.involuntary_switches),
        ("throttled_ns", counters.throttled_ns),
        ("thermal_events", counters.thermal_events),
        ("frequency_khz", counters.frequency_khz),
        ("cpu_pressure_ns", counters.cpu_pressure_ns),
        ("cpu_checks", counters.cpu_checks),
        ("off_cpu_checks", counters.off_cpu_checks),
    ]
    .into_iter()
    .map(|(name, count)| (name, count.unwrap_or(0)))
    .max_by_key(|&(_, count)| count)
    .unwrap_or_default()
}

fn check_latency(latency: &EventTimes) -> Result<(), String> {
    if latency.min_ns > latency.max_ns {
        return Err(format!("shortest event {} ns, longest {} ns", latency.min_ns, latency.max_ns));
    }
    if let Some((bucket, _)) = latency.buckets.iter().find(|(bucket, _)| *bucket as usize >= BUCKETS) {
        return Err(format!("latency bucket {bucket} of {BUCKETS}"));
    }
    // The buckets and the count were read one after the other while events continued, so they may disagree.
    let counted = latency.buckets.iter().try_fold(0u64, |sum, &(_, count)| sum.checked_add(count));
    match counted {
        Some(counted) if counted.max(latency.count) <= MAX_COUNTER => Ok(()),
        _ => Err("more latencies were counted than are possible".to_owned()),
    }
}

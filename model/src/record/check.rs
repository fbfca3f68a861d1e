//! Checks whether a record that was read can be evaluated: rejects values that its types allow but no
//! measurement gives.

mod spawning;

use super::{Around, Experiment, Latency, RECORD_SCHEMA, Record, Sample};
use crate::histogram::BUCKETS;

/// More CPUs or workers than any machine has. Larger tables would only consume memory.
const MOST_WORKERS: usize = 1 << 20;

/// Counters above this are damaged, and their sums would overflow. Nanoseconds of a hundred days fit.
const MOST_COUNTED: u64 = 1 << 53;

/// Work above this is damaged: a thousand years of the fastest computer's arithmetic.
const MOST_WORK: f64 = 1e30;

/// Why a record cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
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
    pub fn check(&self) -> Result<(), Invalid> {
        if self.schema != RECORD_SCHEMA {
            return Err(Invalid::Schema(self.schema.clone()));
        }
        for (name, cpus) in [("online", &self.machine.online), ("allowed", &self.machine.allowed.cpus)] {
            if cpus.len() > MOST_WORKERS {
                return Err(Invalid::Machine(format!("{} CPUs are {name}", cpus.len())));
            }
        }
        self.experiments.iter().try_for_each(|experiment| {
            check_experiment(experiment)
                .map_err(|what| Invalid::Experiment { id: experiment.id.clone(), what })
        })?;
        self.spawnings.iter().try_for_each(|spawning| {
            let runtime = spawning.runtime.name();
            spawning::check(spawning).map_err(|what| Invalid::Spawning { runtime, what })
        })
    }
}

fn check_experiment(experiment: &Experiment) -> Result<(), String> {
    for treatment in &experiment.treatments {
        let name = &treatment.name;
        if !(1..=MOST_WORKERS).contains(&treatment.workers) {
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
    if sample.wall_ns == 0 || sample.wall_ns > MOST_COUNTED {
        return Err(format!("wall_ns is {}", sample.wall_ns));
    }
    let measured = |work: &f64| (0.0..=MOST_WORK).contains(work);
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
    match largest(&sample.around) {
        (name, count) if count > MOST_COUNTED => Err(format!("{name} is {count}")),
        _ => Ok(()),
    }
}

/// Returns the largest counter and its name.
fn largest(around: &Around) -> (&'static str, u64) {
    [
        ("span_ns", Some(around.span_ns)),
        ("cpu_ns", around.cpu_ns),
        ("run_delay_ns", around.run_delay_ns),
        ("migrations", around.migrations),
        ("voluntary_switches", around.voluntary_switches),
        ("involuntary_switches", around.involuntary_switches),
        ("throttled_ns", around.throttled_ns),
        ("thermal_events", around.thermal_events),
        ("frequency_khz", around.frequency_khz),
        ("pressure_ns", around.pressure_ns),
        ("checks", around.checks),
        ("elsewhere", around.elsewhere),
    ]
    .into_iter()
    .map(|(name, count)| (name, count.unwrap_or(0)))
    .max_by_key(|&(_, count)| count)
    .unwrap_or_default()
}

fn check_latency(latency: &Latency) -> Result<(), String> {
    if latency.min_ns > latency.max_ns {
        return Err(format!("shortest event {} ns, longest {} ns", latency.min_ns, latency.max_ns));
    }
    if let Some((bucket, _)) = latency.buckets.iter().find(|(bucket, _)| *bucket as usize >= BUCKETS) {
        return Err(format!("latency bucket {bucket} of {BUCKETS}"));
    }
    // The buckets and the count were read one after the other while events continued, so they may disagree.
    let counted = latency.buckets.iter().try_fold(0u64, |sum, &(_, count)| sum.checked_add(count));
    match counted {
        Some(counted) if counted.max(latency.count) <= MOST_COUNTED => Ok(()),
        _ => Err("more latencies were counted than are possible".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::World;

    fn broken(change: impl FnOnce(&mut Record)) -> String {
        let mut record = World::guest().record();
        record.check().unwrap();
        change(&mut record);
        record.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_have_been_measured_is_named_with_its_place() {
        for (message, expected) in [
            (
                broken(|r| r.experiments[0].samples[3].wall_ns = 0),
                "experiment \"noise\": sample 3: wall_ns is 0",
            ),
            (
                broken(|r| r.experiments[0].samples[0].treatment = 99),
                "experiment \"noise\": sample 0: treatment index is 99, expected less than 4",
            ),
            (
                broken(|r| r.experiments[0].samples[0].per_worker = vec![1.0; 9]),
                "experiment \"noise\": sample 0: per_worker has 9 entries for 1 workers",
            ),
            (
                broken(|r| r.experiments[0].samples[0].around.checks = Some(u64::MAX)),
                "experiment \"noise\": sample 0: checks is 18446744073709551615",
            ),
            (broken(|r| r.schema.clear()), "schema is \"\", not \"manycore/record/1\""),
            (broken(|r| r.machine.online = "0-2000000".parse().unwrap()), "machine: 2000001 CPUs are online"),
        ] {
            assert_eq!(message, expected);
        }
        assert!(broken(|r| r.experiments[0].samples[0].work = -1.0).contains("negative"));
        assert!(broken(|r| r.experiments[0].treatments[0].workers = 0).contains("0 workers"));
        let scaling = |r: &mut Record, change: fn(&mut Latency)| {
            let scaling = r.experiments.iter_mut().find(|e| e.id == "scaling").unwrap();
            change(scaling.treatments[0].latency.as_mut().unwrap());
        };
        assert!(broken(|r| scaling(r, |latency| latency.buckets[0].0 = u32::MAX)).contains("bucket"));
        assert!(broken(|r| scaling(r, |latency| latency.buckets[0].1 = u64::MAX)).contains("more latencies"));
        assert!(broken(|r| scaling(r, |latency| latency.min_ns = u64::MAX)).contains("shortest"));
    }
}

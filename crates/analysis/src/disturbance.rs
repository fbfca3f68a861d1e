//! How much the measurements were disturbed, and up to which disturbance they support advice.

use super::usable_cpus;
use manycore_experiment::record::{Experiment, Record, Sample, id};
use manycore_text::units::percent;
use serde::Serialize;

/// Share of the CPU time that other work or the hypervisor may take. Above it, no advice is given.
pub const MAX_DISTURBANCE: f64 = 0.10;

/// Share of the workers' time for which a quota may throttle them. Above it, no advice is given.
pub const MAX_THROTTLED: f64 = 0.05;

/// CPU time that was taken from the workers of some experiments, over all their samples, as shares of 0 to
/// 1. `None` where the machine does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disturbance {
    /// CPU time of everything that is not a worker, relative to the time of all usable CPUs.
    pub other_work: Option<f64>,
    /// Time that the hypervisor took (steal), relative to the time in which the CPUs were busy.
    pub steal: Option<f64>,
    /// Time for which a quota throttled the workers, relative to the time that they could have had.
    pub throttled: Option<f64>,
    /// Thermal throttling events.
    pub thermal_events: u64,
}

impl Disturbance {
    /// Sums over all experiments. The samples of the latency between cores are too short for the kernel's ticks.
    pub fn of_record(record: &Record) -> Self {
        let long = record.experiments.iter().filter(|experiment| experiment.id != id::LATENCY);
        Self::of_experiments(long, record)
    }

    /// Sums over all samples of `experiments`. Single treatments are too short for the resolution of the
    /// kernel's ticks.
    pub(crate) fn of_experiments<'a>(
        experiments: impl IntoIterator<Item = &'a Experiment>,
        record: &Record,
    ) -> Self {
        let mut sums = Sums::default();
        let cpus = usable_cpus(&record.machine) as f64;
        for experiment in experiments {
            for sample in &experiment.samples {
                let workers = experiment.treatments[sample.treatment].workers as f64;
                sums.add(sample, workers.min(cpus), record);
            }
        }
        sums.disturbance()
    }

    /// Describes each share that is above its limit. Empty where the measurements support advice.
    pub fn exceeded_limits(&self) -> Vec<String> {
        let limits = [
            (self.other_work, MAX_DISTURBANCE, "other work took {} of the CPU time"),
            (self.steal, MAX_DISTURBANCE, "the hypervisor took {} of the CPU time"),
            (self.throttled, MAX_THROTTLED, "a quota throttled the workers for {} of the time"),
        ];
        limits
            .into_iter()
            .filter_map(|(share, limit, words)| Some((share.filter(|share| *share > limit)?, limit, words)))
            .map(|(share, limit, words)| {
                format!("{} (limit for advice {})", words.replace("{}", &percent(share)), percent(limit))
            })
            .collect()
    }

    fn is_known(&self) -> bool {
        self.other_work.is_some() || self.steal.is_some() || self.throttled.is_some()
    }
}

/// Returns the disturbance of the experiments whose ids begin with one of `prefixes`. Experiments with very
/// short samples have no counters of their own; for them it is the disturbance of the whole record.
pub(crate) fn of_topic(record: &Record, prefixes: &[&str]) -> Disturbance {
    let chosen = |experiment: &&Experiment| prefixes.iter().any(|prefix| experiment.id.starts_with(prefix));
    let own = Disturbance::of_experiments(record.experiments.iter().filter(chosen), record);
    if own.is_known() { own } else { of_record(record) }
}

/// Returns the disturbance of all experiments.
pub(crate) fn of_record(record: &Record) -> Disturbance {
    Disturbance::of_record(record)
}

/// Times in nanoseconds as pairs of part and whole. Each pair is summed over the samples that have both.
#[derive(Default)]
struct Sums {
    other_work: (f64, f64),
    steal: (f64, f64),
    throttled: (f64, f64),
    thermal_events: u64,
}

impl Sums {
    /// Adds a sample whose workers could have used `width` CPUs at the same time.
    fn add(&mut self, sample: &Sample, width: f64, record: &Record) {
        let around = &sample.counters;
        let span = around.span_ns as f64;
        let usable = record.machine.usable();
        let ticks = |ticks: &[u32]| {
            let tick_ns = 1e9 / record.conditions.ticks_per_second.max(1) as f64;
            let ours = record.machine.online.iter().zip(ticks).filter(|(cpu, _)| usable.contains(*cpu));
            (ticks.len() == record.machine.online.len() && !ticks.is_empty())
                .then(|| ours.map(|(_, &ticks)| f64::from(ticks)).sum::<f64>() * tick_ns)
        };
        let (busy, steal) = (ticks(&around.busy_ticks), ticks(&around.steal_ticks));
        if let Some((busy, cpu_ns)) = busy.zip(around.cpu_ns) {
            let other_work = busy - steal.unwrap_or(0.0) - cpu_ns as f64;
            self.other_work =
                (self.other_work.0 + other_work, self.other_work.1 + span * usable.len().max(1) as f64);
        }
        if let Some((steal, busy)) = steal.zip(busy) {
            self.steal = (self.steal.0 + steal, self.steal.1 + busy);
        }
        if let Some(throttled) = around.throttled_ns {
            self.throttled = (self.throttled.0 + throttled as f64, self.throttled.1 + span * width);
        }
        self.thermal_events += around.thermal_events.unwrap_or(0);
    }

    fn disturbance(&self) -> Disturbance {
        let share = |(part, whole): (f64, f64)| (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0));
        Disturbance {
            other_work: share(self.other_work),
            steal: share(self.steal),
            throttled: share(self.throttled),
            thermal_events: self.thermal_events,
        }
    }
}

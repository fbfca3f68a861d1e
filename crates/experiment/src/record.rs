//! The record of a run: every raw sample, the order of the samples, and the conditions around them.
//!
//! A record is self-contained: it holds the machine, the seed and what could not be measured, so that
//! `manycore_analysis` can evaluate it at any later time and on another machine.

mod check;
mod description;
pub mod factor;
mod gate;
pub mod id;
pub mod parameter;
mod requests;
mod resource;
mod variant;

pub use check::InvalidRecord;
pub use description::SAME_NAME;
pub use gate::{GateDecision, GateOutcome};
pub use requests::{MAX_POINTS, RequestTimes};
pub use resource::{CLIENT_PART, Resource};
pub use variant::variant_label;

use crate::spawning::RuntimeRuns;
use manycore_stats::log_ratio;
use manycore_topology::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Value of [`Record::schema`] that this version writes.
pub const RECORD_SCHEMA: &str = "manycore/record/1";

/// One measurement by a subcommand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// Always [`RECORD_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = RECORD_SCHEMA)))]
    pub schema: String,
    /// Subcommand that measured: `eval`, `bench`, `compare`, `scale`, `tune`, `spawn`.
    pub subcommand: String,
    /// Version of manycore that measured.
    pub version: String,
    /// Start in UTC, RFC 3339 with seconds.
    pub started: String,
    /// Seed of all random orders.
    pub seed: u64,
    /// Name of the budget: `quick`, `standard`, `full`.
    pub profile: String,
    /// The measured command line, for subcommands that measure one; the load, for `bench`.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub subject: String,
    /// Whether the run was stopped early. The record holds what was measured before that.
    pub interrupted: bool,
    /// Wall time of the whole run in seconds.
    pub seconds: f64,
    /// The machine.
    pub machine: Machine,
    /// The state of the machine at the start.
    pub conditions: StartConditions,
    /// Requested measurements that were not possible, and why.
    pub not_measured: Vec<NotMeasured>,
    /// Notes about the measured commands.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// The other processes that used most CPU time during the run, the busiest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub busiest_others: Vec<BusyProcess>,
    /// The measurements.
    pub experiments: Vec<Experiment>,
    /// Light processes that were started and held, one entry for each runtime.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub light_processes: Vec<RuntimeRuns>,
    /// The gates that the run was to pass (`--fail-if`), as they were decided at its end.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub gates: Vec<GateDecision>,
}

/// Another process that used CPU time during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyProcess {
    /// Its id; of several with its name, that of the busiest.
    pub pid: u32,
    /// Its name (`comm`, at most 15 bytes).
    pub name: String,
    /// Number of other processes with its name, whose CPU time is in `cpus`.
    #[serde(default)]
    pub others: usize,
    /// CPU time of these processes and of children that they have waited for, as a number of CPUs over the whole run.
    pub cpus: f64,
}

/// A requested measurement that was not possible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotMeasured {
    /// What is missing: `Python with NumPy`.
    pub what: String,
    /// Why, and what would make it available.
    pub why: String,
}

/// The state of a machine at one moment. A value is `None` where the machine does not report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartConditions {
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// The smaller of `MemAvailable` and what the control groups leave, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Swap in use, in bytes.
    pub swap_used_bytes: Option<u64>,
    /// Share of the last 10 s in which at least one task waited for a CPU, in percent (PSI `some avg10`).
    pub cpu_pressure_percent: Option<f64>,
    /// cpufreq governors in use, without duplicates.
    pub governors: Vec<String>,
    /// Whether turbo (boost) is enabled.
    pub turbo: Option<bool>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Revision of the microcode of the first CPU (`/proc/cpuinfo`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub microcode: Option<String>,
    /// Settings of the kernel that often change results, by their usual names: `thp` = `madvise`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub settings: BTreeMap<String, String>,
    /// Clock ticks per second, the unit of `/proc/stat`.
    pub ticks_per_second: u64,
}

/// How the treatments of an experiment alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Method {
    /// Workers stay alive while the treatment is switched. After each switch, `settle_ns` are discarded,
    /// then work is counted for `slice_ns`.
    Slices {
        /// Length of a slice in nanoseconds.
        slice_ns: u64,
        /// Time discarded after a switch, in nanoseconds.
        settle_ns: u64,
    },
    /// Each sample is one piece of work, from start to end.
    #[serde(rename = "whole_run")]
    WholeRun,
}

/// A set of treatments measured in blocks. Each block contains every treatment once, in random order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Experiment {
    /// Id of the experiment, from [`id`].
    pub id: String,
    /// How treatments alternate.
    pub method: Method,
    /// Unit in which [`Sample::work`] counts: `events`, `tasks`, `flop`.
    pub unit: String,
    /// Parameters of the load: `max_prime` = `10000`; those of commands are in [`parameter`].
    pub parameters: BTreeMap<String, String>,
    /// The metrics of each sample's [`Sample::values`]. The first is the primary one, from which
    /// [`Sample::work`] is derived. Empty where work is counted directly.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub metrics: Vec<Metric>,
    /// The variants that are compared.
    pub treatments: Vec<Treatment>,
    /// Every sample, in the order taken.
    pub samples: Vec<Sample>,
}

/// A figure that every sample of an experiment has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// Name, unique in the experiment: `wall`, `requests`, `p99`.
    pub name: String,
    /// Unit of the values: `s`, `MiB`, `requests/s`. Empty where it is unknown.
    pub unit: String,
    /// Which direction is better.
    pub better: Direction,
}

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// For rates.
    Higher,
    /// For times and sizes.
    Lower,
}

/// One of the compared variants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Treatment {
    /// Name, unique in the experiment.
    pub name: String,
    /// Number of concurrent workers.
    pub workers: usize,
    /// What distinguishes it: `mode` = `threads`, `size` = `1000`. In a comparison: `variant` = `A`, and `name` where the user gave one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub factors: BTreeMap<String, String>,
    /// Distribution of event times over all samples, where the load has events.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency: Option<EventTimes>,
}

/// Distribution of event times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventTimes {
    /// Number of events.
    pub count: u64,
    /// Sum of their times in nanoseconds.
    pub sum_ns: u64,
    /// Shortest time, in nanoseconds.
    pub min_ns: u64,
    /// Maximum time, in nanoseconds.
    pub max_ns: u64,
    /// Buckets of [`manycore_stats::histogram`] that are not empty: index and count.
    pub buckets: Vec<(u32, u64)>,
}

/// One slice or one whole piece of work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Block of the sample.
    pub block: usize,
    /// Index into [`Experiment::treatments`].
    pub treatment: usize,
    /// Start, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Length in nanoseconds.
    pub wall_ns: u64,
    /// Time of the switch to the scheduler of this sample, in nanoseconds: from its start until the scheduler had settled.
    /// It precedes the sample. Absent where the scheduler was in force already.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub switch_ns: Option<u64>,
    /// Time of a fixed piece of arithmetic just before the sample, in nanoseconds ([`crate::speed`]). Not every sample has
    /// one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe_ns: Option<u64>,
    /// Work done by all workers in that time, in the experiment's unit.
    pub work: f64,
    /// For slices, work of each worker. For whole work, each worker's time to completion in seconds.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub per_worker: Vec<f64>,
    /// Values of [`Experiment::metrics`], in their order and units.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub values: Vec<f64>,
    /// Latencies of the requests of a load generator, by kind of request. Empty where the output has none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub requests: Vec<RequestTimes>,
    /// Exit codes of whole commands of which one failed: the exit status, or 128 plus the signal as in a
    /// shell. Empty where all succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub exit_codes: Vec<i32>,
    /// Changes of the kernel's counters around the sample.
    #[serde(default)]
    pub counters: CounterDelta,
}

/// Changes of the kernel's counters from just before a sample to just after it. `None` where the kernel
/// does not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterDelta {
    /// Time covered, in nanoseconds; slightly longer than the sample.
    pub span_ns: u64,
    /// CPU time of the workers in nanoseconds (their CPU-time clocks).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_ns: Option<u64>,
    /// System time of commands that ran to their end: the part of their CPU time in the kernel, in nanoseconds (`wait4(2)`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system_ns: Option<u64>,
    /// Time in which the workers were runnable and waited for a CPU (`/proc/PID/schedstat`, second field),
    /// in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_delay_ns: Option<u64>,
    /// Migrations of the workers between CPUs (`se.nr_migrations`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub migrations: Option<u64>,
    /// Context switches of the workers because they blocked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub voluntary_switches: Option<u64>,
    /// Context switches of the workers because they were preempted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub involuntary_switches: Option<u64>,
    /// Ticks in which each CPU was busy, including steal time, in the order of `Machine::online`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub busy_ticks: Vec<u32>,
    /// Ticks that the hypervisor took from each CPU (steal), in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub steal_ticks: Vec<u32>,
    /// Time for which control groups of this process were throttled, over all ancestors, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub throttled_ns: Option<u64>,
    /// Thermal throttling events of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub thermal_events: Option<u64>,
    /// Mean frequency of up to 16 busy CPUs at the end, in kHz (`scaling_cur_freq`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub frequency_khz: Option<u64>,
    /// Time in which at least one task waited for a CPU (PSI `some total`), in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_pressure_ns: Option<u64>,
    /// Number of times that workers checked which CPU they ran on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_checks: Option<u64>,
    /// Number of checks that found a worker on another CPU than its own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub off_cpu_checks: Option<u64>,
}

impl Experiment {
    /// Returns the index of the treatment with this name.
    pub fn treatment(&self, name: &str) -> Option<usize> {
        self.treatments.iter().position(|treatment| treatment.name == name)
    }

    /// Iterates over the samples of one treatment, in the order taken.
    pub fn samples_of(&self, treatment: usize) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.treatment == treatment)
    }

    /// Returns whether a treatment has samples and all of them failed. Its measurements then do not show
    /// its work.
    pub fn all_failed(&self, treatment: usize) -> bool {
        let mut samples = self.samples_of(treatment).peekable();
        samples.peek().is_some() && samples.all(|sample| self.is_failure(sample))
    }

    /// Returns whether a command of a sample failed with an exit code that [`parameter::IGNORED_FAILURES`] does not list.
    /// A listed one is no failure: `diff` exits with 1 where files differ.
    pub fn is_failure(&self, sample: &Sample) -> bool {
        let listed = self.parameters.get(parameter::IGNORED_FAILURES).map_or("", String::as_str);
        let is_listed = |code: i32| listed.split(',').any(|one| one.trim().parse() == Ok(code));
        sample.exit_codes.iter().any(|&code| code != 0 && !is_listed(code))
    }

    /// Returns the work per second of each sample of a treatment.
    pub fn rates(&self, treatment: usize) -> Vec<f64> {
        self.samples_of(treatment).map(Sample::rate).collect()
    }

    /// Returns the natural logarithm of the rate of `b` over that of `a`, for each block that has both,
    /// including blocks in which one of them is 0.
    pub fn log_ratios(&self, a: usize, b: usize) -> Vec<f64> {
        self.log_ratios_of(a, b, |sample| Some(sample.rate()))
    }

    /// Returns the logarithms of ratios like [`log_ratios`](Self::log_ratios), but of any `value` of the
    /// samples. A block counts where both samples have the value and their ratio is defined. Empty where a
    /// treatment [always failed](Self::all_failed), because there is nothing to compare.
    pub fn log_ratios_of(&self, a: usize, b: usize, value: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        if self.all_failed(a) || self.all_failed(b) {
            return Vec::new();
        }
        let by_block: BTreeMap<usize, f64> =
            self.samples_of(a).filter_map(|sample| Some((sample.block, value(sample)?))).collect();
        self.samples_of(b)
            .filter_map(|sample| log_ratio(*by_block.get(&sample.block)?, value(sample)?))
            .collect()
    }
}

impl Sample {
    /// Returns the work per second of wall time.
    pub fn rate(&self) -> f64 {
        self.work * 1e9 / self.wall_ns as f64
    }

    /// Returns the work per second of the workers' CPU time. `None` where CPU time was not counted. Work is
    /// counted within the sample, CPU time over the slightly longer span.
    pub fn rate_per_cpu_second(&self) -> Option<f64> {
        let cpu_ns = self.counters.cpu_ns.filter(|&ns| ns > 0)?;
        Some(self.rate() * self.counters.span_ns as f64 / cpu_ns as f64)
    }
}

impl Record {
    /// Returns the experiment with this id.
    pub fn experiment(&self, id: &str) -> Option<&Experiment> {
        self.experiments.iter().find(|experiment| experiment.id == id)
    }
}

#[cfg(test)]
mod tests;

//! What else happened on a node while it was measured: other processes, steal time, throttling, its frequency.

use crate::figures::shown;
use manycore_analysis::Disturbance;
use manycore_experiment::Record;
use std::collections::BTreeMap;

/// Maximum number of other processes that are kept.
const MAX_PROCESSES: usize = 16;

/// What else happened on a node. `None` where the machine does not report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signs {
    /// CPU time of other processes by name, as numbers of CPUs, the busiest first.
    pub processes: Vec<(String, f64)>,
    /// CPU time of everything that is not a worker, as a share of that of all usable CPUs.
    pub other_work: Option<f64>,
    /// Time that the hypervisor took, as a share of the time in which the CPUs were busy.
    pub steal: Option<f64>,
    /// Time for which a quota throttled the workers, as a share.
    pub throttled: Option<f64>,
    /// Number of thermal throttling events.
    pub thermal_events: Option<f64>,
    /// Median frequency of the busy CPUs, in kHz.
    pub frequency_khz: Option<f64>,
    /// Share of the time in which at least one task waited for a CPU.
    pub pressure: Option<f64>,
    /// Swap in use at the start, in bytes.
    pub swap_bytes: Option<f64>,
    /// Number of CPUs that could be used: the scale of the CPU time of processes.
    pub cpus: f64,
}

impl Signs {
    /// Reads the counters around all samples.
    pub fn of_record(record: &Record) -> Self {
        let disturbance = Disturbance::of_record(record);
        let counters = || record.experiments.iter().flat_map(|one| &one.samples).map(|one| &one.counters);
        let thermal: Vec<u64> = counters().filter_map(|around| around.thermal_events).collect();
        let khz: Vec<f64> =
            counters().filter_map(|around| around.frequency_khz).map(|khz| khz as f64).collect();
        let (waited, span) = counters()
            .filter_map(|around| Some((around.cpu_pressure_ns? as f64, around.span_ns as f64)))
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Self {
            processes: processes(record),
            other_work: disturbance.other_work,
            steal: disturbance.steal,
            throttled: disturbance.throttled,
            thermal_events: (!thermal.is_empty()).then(|| thermal.iter().map(|&count| count as f64).sum()),
            frequency_khz: manycore_stats::median(&khz),
            pressure: (span > 0.0).then(|| (waited / span).clamp(0.0, 1.0)),
            swap_bytes: record.conditions.swap_used_bytes.map(|bytes| bytes as f64),
            cpus: record.machine.usable().len() as f64,
        }
    }

    /// Returns the CPU time of all processes with this name, in CPUs.
    pub fn process(&self, name: &str) -> f64 {
        self.processes.iter().find(|(other, _)| other == name).map_or(0.0, |(_, cpus)| *cpus)
    }
}

fn processes(record: &Record) -> Vec<(String, f64)> {
    let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
    for process in record.busiest_others.iter().filter(|one| one.cpus.is_finite() && one.cpus > 0.0) {
        *by_name.entry(shown(&process.name)).or_default() += process.cpus;
    }
    let mut all: Vec<(String, f64)> = by_name.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(MAX_PROCESSES);
    all
}

//! Reads the kernel's counters just before and just after a sample.

use crate::record::CounterDelta;
use manycore_linux::counters::{CpuTicks, KernelCounters, TaskCounters, ticks_per_second};
use manycore_topology::{CpuId, Machine};
use std::path::{Path, PathBuf};

/// Frequencies are read on at most this many CPUs, as each reading may interrupt its CPU.
const MAX_FREQUENCIES: usize = 16;

/// The counters to read on this machine.
#[derive(Debug)]
pub struct CounterReader {
    kernel: KernelCounters,
    /// The online CPUs, in the order of the ticks in a record.
    online: Vec<CpuId>,
    frequency_cpus: Vec<CpuId>,
    package_cpus: Vec<CpuId>,
    cpu_stat_files: Vec<PathBuf>,
}

/// Counters at one point in time.
#[derive(Clone, Debug)]
pub struct CounterSnapshot {
    ns: u64,
    ticks: Vec<CpuTicks>,
    tasks: Vec<TaskCounters>,
    pressure_ns: Option<u64>,
    throttled_ns: Option<u64>,
    thermal_events: Option<u64>,
}

impl CounterReader {
    /// Returns a reader of the running kernel's counters.
    pub fn new(machine: &Machine) -> Self {
        let cpus: Vec<CpuId> = machine.online.iter().collect();
        let step = cpus.len().div_ceil(MAX_FREQUENCIES).max(1);
        Self {
            kernel: KernelCounters::at(Path::new("/")),
            frequency_cpus: cpus.iter().copied().step_by(step).collect(),
            online: cpus,
            package_cpus: machine.packages.iter().filter_map(|package| package.cpus.first()).collect(),
            cpu_stat_files: cpu_stat_files(machine),
        }
    }

    /// Returns the kernel whose counters are read.
    pub fn kernel(&self) -> &KernelCounters {
        &self.kernel
    }

    /// Reads all counters now; per-task counters are those of the threads `tids`.
    pub fn snapshot(&self, tids: &[u32], now_ns: u64) -> CounterSnapshot {
        CounterSnapshot {
            ns: now_ns,
            tasks: tids.iter().map(|&tid| self.kernel.task(tid)).collect(),
            ticks: self.kernel.cpu_ticks(),
            pressure_ns: self.kernel.cpu_pressure().map(|(total_ns, _)| total_ns),
            throttled_ns: self.kernel.throttled_ns(&self.cpu_stat_files),
            thermal_events: self.kernel.thermal_events(&self.package_cpus),
        }
    }

    /// Returns the differences between two snapshots of the same threads.
    pub fn delta(&self, before: &CounterSnapshot, after: &CounterSnapshot) -> CounterDelta {
        let tasks = |pick: fn(&TaskCounters) -> Option<u64>| -> Option<u64> {
            let pairs = before.tasks.iter().zip(&after.tasks);
            let differences: Option<Vec<u64>> = pairs.map(|(b, a)| difference(pick(b), pick(a))).collect();
            differences.filter(|each| !each.is_empty()).map(|each| each.iter().sum())
        };
        // A CPU that went offline has no ticks. The sample then has no ticks at all.
        let of = |snapshot: &CounterSnapshot, cpu| {
            let position = snapshot.ticks.binary_search_by_key(&cpu, |ticks| ticks.cpu);
            position.ok().map(|position| snapshot.ticks[position])
        };
        let pairs: Option<Vec<(CpuTicks, CpuTicks)>> =
            self.online.iter().map(|&cpu| of(before, cpu).zip(of(after, cpu))).collect();
        let ticks = |pick: fn(&CpuTicks) -> u64| -> Vec<u32> {
            let pairs = pairs.as_deref().unwrap_or_default();
            pairs.iter().map(|(b, a)| pick(a).saturating_sub(pick(b)) as u32).collect()
        };
        let busy_ticks = ticks(|ticks| ticks.busy);
        CounterDelta {
            span_ns: after.ns - before.ns,
            cpu_ns: tasks(|task| task.cpu_ns),
            system_ns: None,
            run_delay_ns: tasks(|task| task.run_delay_ns),
            migrations: tasks(|task| task.migrations),
            voluntary_switches: tasks(|task| task.voluntary_switches),
            involuntary_switches: tasks(|task| task.involuntary_switches),
            steal_ticks: ticks(|ticks| ticks.steal),
            throttled_ns: difference(before.throttled_ns, after.throttled_ns),
            thermal_events: difference(before.thermal_events, after.thermal_events),
            frequency_khz: self.kernel.frequency_khz(&self.busy_cpus(&busy_ticks, after.ns - before.ns)),
            busy_ticks,
            cpu_pressure_ns: difference(before.pressure_ns, after.pressure_ns),
            cpu_checks: None,
            off_cpu_checks: None,
        }
    }
}

impl CounterReader {
    /// Returns the CPUs whose frequency is meaningful: those that were busy for at least 70 % of the time.
    fn busy_cpus(&self, busy_ticks: &[u32], span_ns: u64) -> Vec<CpuId> {
        let most = span_ns as f64 / 1e9 * ticks_per_second() as f64 * 0.7;
        let busy = |cpu: &CpuId| {
            let position = self.online.iter().position(|online| online == cpu);
            position
                .and_then(|position| busy_ticks.get(position))
                .is_some_and(|&ticks| f64::from(ticks) >= most)
        };
        self.frequency_cpus.iter().copied().filter(busy).collect()
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    before.zip(after).map(|(before, after)| after.saturating_sub(before))
}

/// Returns the `cpu.stat` files next to every CPU quota that applies to this process.
fn cpu_stat_files(machine: &Machine) -> Vec<PathBuf> {
    machine
        .allowed
        .limits
        .iter()
        .filter(|limit| limit.quota_cpus.is_some())
        .map(|limit| Path::new(&limit.source).with_file_name("cpu.stat"))
        .collect()
}

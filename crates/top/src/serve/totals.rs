//! Counters that only increase, from pictures and samples.

use super::named::{self, NamedTotals, NamedUnit};
use crate::{
    picture::{Picture, TaskUse},
    resources::{LatencyHistogram, LatencySample, NodeSample},
    sample::{CpuTimes, Sample, SystemCounters},
};
use manycore_topology::CpuId;
use std::collections::BTreeMap;

/// CPUs with a higher number have no totals.
const MOST_CPUS: usize = 1 << 16;

/// A counter that falls by more ticks than this, and by more than half, has begun again.
const MOST_BACK: u64 = 100;

/// Modes of CPU time: their names, and the times of one sample in this order.
pub(super) const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

fn modes(one: &CpuTimes) -> [u64; 8] {
    [one.user, one.nice, one.system, one.idle, one.iowait, one.irq, one.softirq, one.steal]
}

/// Adds a value if it is known. A sum is known from its first value on.
pub(super) fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum.get_or_insert_default() += value;
    }
}

/// What tasks did, in seconds and numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskTotals {
    /// Time that they waited for a CPU.
    pub wait: Option<f64>,
    pub voluntary: Option<f64>,
    pub involuntary: Option<f64>,
    /// Migrations by [`Migration`](crate::Migration), counted exactly.
    pub exact_migrations: Option<[f64; 4]>,
    /// Migrations by [`Migration`](crate::Migration) that are visible in two samples.
    pub seen_migrations: [f64; 4],
}

impl TaskTotals {
    /// Adds what a task did in an interval.
    pub(super) fn add(&mut self, task: &TaskUse, seconds: f64) {
        let amount = |rate: Option<f64>| rate.map(|rate| rate * seconds);
        add(&mut self.wait, amount(task.wait));
        add(&mut self.voluntary, amount(task.voluntary));
        add(&mut self.involuntary, amount(task.involuntary));
        if let Some(migration) = task.migration {
            self.seen_migrations[migration as usize] += 1.0;
        }
        if let Some(rates) = &task.migrations {
            let sums = self.exact_migrations.get_or_insert_default();
            sums.iter_mut().zip(rates.iter()).for_each(|(sum, rate)| *sum += rate * seconds);
        }
    }

    /// Adds the totals of another CPU.
    pub(super) fn merge(&mut self, other: &Self) {
        add(&mut self.wait, other.wait);
        add(&mut self.voluntary, other.voluntary);
        add(&mut self.involuntary, other.involuntary);
        self.seen_migrations.iter_mut().zip(other.seen_migrations).for_each(|(sum, one)| *sum += one);
        if let Some(other) = other.exact_migrations {
            let sums = self.exact_migrations.get_or_insert_default();
            sums.iter_mut().zip(other).for_each(|(sum, one)| *sum += one);
        }
    }
}

/// What programs in the kernel counted while the server runs. They begin again when CPUs come or go.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LatencyTotals {
    /// From a wake-up to running.
    pub wakeup: LatencyHistogram,
    /// From being displaced to running again.
    pub displaced: LatencyHistogram,
    /// Time in nanoseconds in which tasks shared a unit while another one was idle.
    pub conflict_ns: u64,
}

impl LatencyTotals {
    /// Adds what was counted in an interval.
    fn add(&mut self, interval: &LatencySample) {
        self.wakeup.add(&interval.wakeup);
        self.displaced.add(&interval.displaced);
        self.conflict_ns += interval.conflict_ns;
    }
}

/// Totals of one CPU, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CpuTotals {
    /// Ticks by mode, in the order of [`MODES`].
    pub ticks: [u64; 8],
    /// The largest values that were read since the counters began; `None` before the first ones.
    last: Option<[u64; 8]>,
    /// Tasks whose last CPU it was.
    pub tasks: TaskTotals,
    pub interrupts: Option<f64>,
    pub softirqs: Option<f64>,
}

impl CpuTotals {
    /// Adds the ticks since the last sample. The kernel lets some counters decrease (`iowait`); such a step counts as 0,
    /// and so do ticks up to the value that there was before. Old kernels let idle time begin again when a CPU comes back.
    /// The first ticks count from the start of the machine if `is_first`, and otherwise not at all: the CPU was offline.
    fn add_times(&mut self, times: &CpuTimes, is_first: bool) {
        let now = modes(times);
        let last = self.last.get_or_insert(if is_first { [0; 8] } else { now });
        for (sum, (now, last)) in self.ticks.iter_mut().zip(now.into_iter().zip(last)) {
            *sum += now.saturating_sub(*last);
            let has_begun_again = now < *last / 2 && *last - now > MOST_BACK;
            *last = if has_begun_again { now } else { now.max(*last) };
        }
    }

    /// Adds another CPU.
    pub(super) fn merge(&mut self, other: &Self) {
        self.ticks.iter_mut().zip(other.ticks).for_each(|(sum, one)| *sum += one);
        self.tasks.merge(&other.tasks);
        add(&mut self.interrupts, other.interrupts);
        add(&mut self.softirqs, other.softirqs);
    }
}

/// All totals.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// By CPU number.
    cpus: Vec<CpuTotals>,
    pub named: BTreeMap<String, NamedTotals>,
    pub system: SystemCounters,
    pub nodes: Vec<NodeSample>,
    /// Time in seconds in which control groups were throttled.
    pub throttled: Option<f64>,
    /// Time in seconds in which some task of the machine waited for CPUs, memory and disks.
    pub pressure: Option<[f64; 3]>,
    /// Bytes to and from memory by domain of resctrl: all, and those of the own node.
    pub bandwidth: BTreeMap<u32, [Option<f64>; 2]>,
    /// Absent if nothing counts in the kernel.
    pub latency: Option<LatencyTotals>,
}

impl Totals {
    /// Adds what happened up to `sample`.
    pub(super) fn add(&mut self, picture: &Picture, sample: &Sample, named: &[NamedUnit]) {
        let is_first = self.cpus.is_empty();
        for times in &sample.cpus {
            if let Some(cpu) = self.cpu_mut(times.cpu) {
                cpu.add_times(times, is_first);
            }
        }
        for task in &picture.tasks {
            if let Some(cpu) = self.cpu_mut(task.cpu) {
                cpu.tasks.add(task, picture.seconds);
            }
        }
        self.add_interrupts(picture, sample);
        self.add_resources(picture);
        self.system = sample.system;
        self.nodes.clone_from(&sample.nodes);
        if let Some(interval) = &picture.latency {
            self.latency.get_or_insert_default().add(interval);
        }
        named::add(&mut self.named, picture, named);
    }

    /// Whether migrations are counted in the kernel.
    pub(super) fn has_exact_migrations(&self) -> bool {
        self.latency.is_some()
    }

    /// Returns the sum over these CPUs; CPUs without totals count as 0.
    pub(super) fn sum(&self, cpus: impl IntoIterator<Item = CpuId>) -> CpuTotals {
        let mut sum = CpuTotals::default();
        cpus.into_iter().filter_map(|cpu| self.cpus.get(cpu as usize)).for_each(|one| sum.merge(one));
        sum
    }

    /// Returns the sum over all CPUs, those that are offline now included.
    pub(super) fn machine(&self) -> CpuTotals {
        let mut sum = CpuTotals::default();
        self.cpus.iter().for_each(|one| sum.merge(one));
        sum
    }

    fn cpu_mut(&mut self, cpu: CpuId) -> Option<&mut CpuTotals> {
        let at = cpu as usize;
        if at >= MOST_CPUS {
            return None;
        }
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, CpuTotals::default);
        }
        self.cpus.get_mut(at)
    }

    fn add_interrupts(&mut self, picture: &Picture, sample: &Sample) {
        // An interrupt that was not handled is not in the picture: its zero is known from the sample.
        if sample.interrupts.is_empty() {
            return;
        }
        for times in &sample.cpus {
            if let Some(cpu) = self.cpu_mut(times.cpu) {
                add(&mut cpu.interrupts, Some(0.0));
                add(&mut cpu.softirqs, Some(0.0));
            }
        }
        for interrupt in &picture.interrupts {
            let is_softirq = interrupt.name.starts_with("softirq");
            for &(cpu, rate) in &interrupt.by_cpu {
                if let Some(cpu) = self.cpu_mut(cpu) {
                    let sum = if is_softirq { &mut cpu.softirqs } else { &mut cpu.interrupts };
                    add(sum, Some(rate * picture.seconds));
                }
            }
        }
    }

    fn add_resources(&mut self, picture: &Picture) {
        for group in &picture.groups {
            add(&mut self.throttled, group.throttled.map(|share| share * picture.seconds));
            if matches!(&*group.now.path, "" | "/") {
                add_pressure(&mut self.pressure, group.pressure, picture.seconds);
            }
        }
        for one in picture.bandwidth_of_all() {
            let [total, local] = self.bandwidth.entry(one.domain).or_default();
            add(total, one.total.map(|rate| rate * picture.seconds));
            add(local, one.local.map(|rate| rate * picture.seconds));
        }
    }
}

/// Adds shares of an interval to times.
pub(super) fn add_pressure(sums: &mut Option<[f64; 3]>, shares: Option<[f64; 3]>, seconds: f64) {
    if let Some(shares) = shares {
        sums.get_or_insert_default().iter_mut().zip(shares).for_each(|(sum, share)| *sum += share * seconds);
    }
}

#[cfg(test)]
mod tests;

//! What the machine and the observed instance do in a slice of a measurement, by resource.
//!
//! A [`ResourceReader`] is created once and finds which figures this machine has. A snapshot before and one after a slice give
//! the [`values`](ResourceReader::values) of the slice. What each figure is, and its unit:
//! [`manycore_experiment::record::Resource`].
//!
//! | resource | source |
//! |---|---|
//! | run delay | `/proc/PID/task/TID/schedstat`; a wait of a thread that has ended is lost |
//! | throttled | `cpu.stat` of the observed instance's control group and of those around it |
//! | CPU use | the CPU-time clock of its processes, or `/proc/PID/stat` |
//! | busy, interrupt time, steal | `/proc/stat`; interrupt time and steal of its CPUs if it is bound to some, otherwise of all usable ones |
//! | device interrupts | `/proc/interrupts` on the same CPUs, without the timers of CPUs |
//! | pressure | `/proc/pressure`, the lines `some` |
//! | softnet | `/proc/net/softnet_stat` |
//! | TCP | `snmp` and `netstat` of this network namespace and of those of the observed instance |
//! | major faults | `/proc/vmstat` |
//! | LLC occupancy, memory bandwidth | `mon_data` of resctrl; occupancy at the end of the slice |

mod snapshot;

pub use snapshot::ResourceSnapshot;

use manycore_experiment::record::{Metric, Resource};
use manycore_linux::{
    counters::{CpuTicks, KernelCounters, ticks_per_second},
    interrupts::counts::{InterruptCounts, InterruptRow},
    resctrl::{self, watch::UsageSnapshot},
};
use manycore_topology::{CpuSet, Error, Machine, SysTree};
use std::path::{Path, PathBuf};

/// Reads the figures of resources that this machine has.
#[derive(Debug)]
pub struct ResourceReader {
    root: PathBuf,
    tree: SysTree,
    kernel: KernelCounters,
    /// All CPUs that instances may use.
    usable: CpuSet,
    /// The CPUs of the observed instance: those that it is bound to, or all usable ones.
    observed: CpuSet,
    /// The SMT siblings of the CPUs that it is bound to; empty if there are none.
    siblings: CpuSet,
    monitors: Option<resctrl::Files>,
    resources: Vec<Resource>,
}

impl ResourceReader {
    /// Finds the figures of `machine`, whose `/proc` and `/sys` are below `root`: `/` for the running system.
    /// `observed_cpus` are the CPUs that the observed instance is bound to, if it is.
    ///
    /// # Errors
    /// `root` cannot be opened. A figure that the machine does not have is no error.
    pub fn new(machine: &Machine, observed_cpus: Option<&CpuSet>, root: &Path) -> Result<Self, Error> {
        let tree = SysTree::open(root)?;
        let mount = resctrl::find(&tree, None).ok();
        let monitors = mount.and_then(|mount| resctrl::Files::open(&tree, &mount).ok());
        Ok(Self::with_monitors(machine, observed_cpus, (root, tree), monitors))
    }

    fn with_monitors(
        machine: &Machine,
        observed_cpus: Option<&CpuSet>,
        (root, tree): (&Path, SysTree),
        monitors: Option<resctrl::Files>,
    ) -> Self {
        let bound = observed_cpus.map(|cpus| cpus.intersection(&machine.online));
        let mut reader = Self {
            kernel: KernelCounters::at(root),
            root: root.to_owned(),
            tree,
            usable: machine.usable(),
            siblings: bound.as_ref().map(|cpus| siblings(machine, cpus)).unwrap_or_default(),
            observed: bound.unwrap_or_else(|| machine.usable()),
            monitors,
            resources: Vec::new(),
        };
        // A machine has the figures that can be computed from two snapshots of this process.
        let before = reader.snapshot(&[std::process::id()], None);
        let after = before.clone().a_second_later();
        reader.resources =
            Resource::all().filter(|resource| reader.value(*resource, &before, &after).is_some()).collect();
        reader
    }

    /// Returns the metrics of this machine, in the order of the values.
    pub fn metrics(&self) -> Vec<Metric> {
        self.resources.iter().map(|resource| resource.metric()).collect()
    }

    /// Reads all figures now. `observed` are the processes of the observed instance, and `group` is the folder of its control
    /// group, if it has one of its own: that of the version 2 hierarchy, or of the controller `cpu`.
    pub fn snapshot(&self, observed: &[u32], group: Option<&Path>) -> ResourceSnapshot {
        ResourceSnapshot::read(self, observed, group)
    }

    /// Returns the values of the slice between two snapshots, one for each of [`ResourceReader::metrics`]. All are finite.
    /// A figure that can no longer be read, such as those of an instance that has ended, is 0.
    pub fn values(&self, before: &ResourceSnapshot, after: &ResourceSnapshot) -> Vec<f64> {
        let value = |resource: &Resource| self.value(*resource, before, after);
        self.resources
            .iter()
            .map(|resource| value(resource).filter(|value| value.is_finite()).unwrap_or(0.0))
            .collect()
    }

    fn value(&self, resource: Resource, before: &ResourceSnapshot, after: &ResourceSnapshot) -> Option<f64> {
        let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
        let per_second =
            |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?) as f64 / seconds);
        let ms_per_second = |before: Option<u64>, after: Option<u64>| Some(per_second(before, after)? / 1e6);
        let share = |cpus: &CpuSet, of: fn(&CpuTicks) -> u64| share(before, after, (cpus, seconds), of);
        let busy = |cpus: &CpuSet| Some(100.0 - share(cpus, |ticks| ticks.idle)?);
        match resource {
            Resource::RunDelay => {
                let times = after.times.since(&before.times);
                after.has_waits.then_some(times.wait_ns as f64 / 1e6 / seconds)
            }
            Resource::Throttled => ms_per_second(before.throttled_ns, after.throttled_ns),
            Resource::CpuUse => {
                let times = after.times.since(&before.times);
                (!after.ticks.is_empty()).then_some(times.run_ns as f64 / 1e9 / seconds)
            }
            Resource::CpusBusy => busy(&self.usable),
            Resource::SiblingsBusy => busy(&self.siblings),
            Resource::InterruptTime => share(&self.observed, |ticks| ticks.interrupt),
            Resource::Steal => share(&self.observed, |ticks| ticks.steal),
            Resource::DeviceInterrupts => {
                let grown = after.interrupts.as_ref()?.since(before.interrupts.as_ref()?);
                Some(of_devices(&grown, &self.observed) as f64 / seconds)
            }
            Resource::CpuPressure => ms_per_second(before.cpu_pressure_ns, after.cpu_pressure_ns),
            Resource::MemoryPressure => ms_per_second(before.memory_pressure_ns, after.memory_pressure_ns),
            Resource::SoftnetOverruns => per_second(before.softnet_overruns, after.softnet_overruns),
            Resource::TcpLosses => Some(after.tcp_losses_since(before)? as f64 / seconds),
            Resource::MajorFaults => per_second(before.major_faults, after.major_faults),
            Resource::CacheOccupancy => Some(after.cache_bytes? as f64 / f64::from(1 << 20)),
            Resource::MemoryBandwidth => {
                let all = |_: &str| true;
                let used = UsageSnapshot::between(String::new(), &before.monitors, &after.monitors, all);
                Some(used.all.memory_bytes_per_second? / 1e9)
            }
        }
    }
}

/// Returns the CPUs that share a core with one of `cpus`, without these.
fn siblings(machine: &Machine, cpus: &CpuSet) -> CpuSet {
    let cores = machine.cores.iter().map(|core| &core.cpus).filter(|core| core.intersects(cpus));
    CpuSet::union_of(cores).difference(cpus)
}

/// Returns the share of a part of the time of `cpus`, in percent. The time is taken from the clock: a hypervisor can make the
/// kernel miss ticks of busy CPUs, so that all ticks together are less. CPUs that were not online at both ends are left
/// out; `None` if no CPU is left.
fn share(
    before: &ResourceSnapshot,
    after: &ResourceSnapshot,
    (cpus, seconds): (&CpuSet, f64),
    of: fn(&CpuTicks) -> u64,
) -> Option<f64> {
    let grown = |now: &CpuTicks| {
        let old = before.ticks.iter().find(|old| old.cpu == now.cpu)?;
        Some(of(now).saturating_sub(of(old)))
    };
    let each: Vec<u64> = after.ticks.iter().filter(|now| cpus.contains(now.cpu)).filter_map(grown).collect();
    let all = each.len() as f64 * seconds * ticks_per_second() as f64;
    (!each.is_empty()).then(|| (100.0 * each.iter().sum::<u64>() as f64 / all).clamp(0.0, 100.0))
}

/// Returns the number of interrupts of devices on `cpus`.
fn of_devices(grown: &InterruptCounts, cpus: &CpuSet) -> u64 {
    // On Arm, the timer of each CPU has a number as devices have.
    let is_device = |row: &&InterruptRow| row.irq().is_some() && !row.handlers.contains("arch_timer");
    let on_cpus = |row: &InterruptRow| -> u64 {
        grown.by_cpu(row).iter().filter(|(cpu, _)| cpus.contains(**cpu)).map(|(_, count)| count).sum()
    };
    grown.rows.iter().filter(is_device).map(on_cpus).sum()
}

#[cfg(test)]
mod tests;

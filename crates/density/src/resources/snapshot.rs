//! All counters at one moment.

use super::ResourceReader;
use manycore_linux::{
    clock,
    counters::CpuTicks,
    interrupts::counts::{InterruptCounts, counts},
    network_counters::{softnet, tcp},
    process_times::{ProcessTimes, has_waits},
    resctrl::{self, Sampler, rates::Reading, watch::MonitorReadings},
};
use manycore_topology::{SysTree, cgroup::folders_of};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// The counters of the machine and of the observed instance at one moment. Those that cannot be read are absent.
#[derive(Clone, Debug)]
pub struct ResourceSnapshot {
    pub(super) at_ns: u64,
    pub(super) ticks: Vec<CpuTicks>,
    pub(super) times: ProcessTimes,
    pub(super) has_waits: bool,
    pub(super) throttled_ns: Option<u64>,
    pub(super) interrupts: Option<InterruptCounts>,
    pub(super) cpu_pressure_ns: Option<u64>,
    pub(super) memory_pressure_ns: Option<u64>,
    pub(super) softnet_overruns: Option<u64>,
    pub(super) major_faults: Option<u64>,
    /// Of each network namespace, by its name.
    tcp_losses: BTreeMap<String, u64>,
    pub(super) monitors: MonitorReadings,
    /// Bytes of the last-level caches of the observed instance's groups of resctrl.
    pub(super) cache_bytes: Option<u64>,
}

impl ResourceSnapshot {
    pub(super) fn read(reader: &ResourceReader, observed: &[u32], group: Option<&Path>) -> Self {
        let (tree, kernel) = (&reader.tree, &reader.kernel);
        let monitors = reader.monitors.as_ref().map(read_monitors).unwrap_or_default();
        let softnet = softnet(tree);
        // The clock is read between the counters of CPUs and those of processes, which change fastest.
        let ticks = kernel.cpu_ticks();
        let at_ns = clock::now_ns();
        Self {
            at_ns,
            ticks,
            times: ProcessTimes::read(tree, observed),
            has_waits: has_waits(tree),
            throttled_ns: throttled_ns(reader, observed, group),
            interrupts: counts(tree).ok().flatten(),
            cpu_pressure_ns: kernel.cpu_pressure().map(|(total_ns, _)| total_ns),
            memory_pressure_ns: kernel.memory_pressure().map(|(total_ns, _)| total_ns),
            softnet_overruns: softnet.map(|counters| counters.dropped.saturating_add(counters.squeezed)),
            major_faults: kernel.major_faults(),
            tcp_losses: tcp_losses(tree, observed),
            cache_bytes: reader
                .monitors
                .as_ref()
                .and_then(|files| cache_bytes(files, tree, &monitors, observed)),
            monitors,
        }
    }

    /// Returns the snapshot of a machine on which nothing has happened for a second.
    pub(super) fn a_second_later(mut self) -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        self.at_ns += SECOND_NS;
        for group in self.monitors.values_mut() {
            group.at_ns += SECOND_NS;
        }
        self
    }

    /// Returns what TCP lost in the namespaces that both snapshots have; `None` if there are none.
    pub(super) fn tcp_losses_since(&self, before: &Self) -> Option<u64> {
        let grown = |(namespace, now): (&String, &u64)| {
            before.tcp_losses.get(namespace).map(|before| now.saturating_sub(*before))
        };
        self.tcp_losses.iter().filter_map(grown).reduce(u64::saturating_add)
    }
}

/// Returns for how long the control groups of the observed instance were throttled; `None` without control groups of CPU
/// time. Groups without a quota count as never throttled.
fn throttled_ns(reader: &ResourceReader, observed: &[u32], group: Option<&Path>) -> Option<u64> {
    let given = group.into_iter().flat_map(Path::ancestors).map(|folder| folder.join("cpu.stat"));
    let mut files: Vec<PathBuf> = given.take_while(|file| file.exists()).collect();
    if files.is_empty() {
        let process = observed.first().map_or_else(|| "self".to_owned(), ToString::to_string);
        let folders = folders_of(&reader.tree, &process, "cpu");
        files = folders.iter().map(|folder| reader.root.join(&folder.path).join("cpu.stat")).collect();
    }
    (!files.is_empty()).then(|| reader.kernel.throttled_ns(&files).unwrap_or(0))
}

/// Reads what TCP lost in this network namespace and in those of the observed instance.
fn tcp_losses(tree: &SysTree, observed: &[u32]) -> BTreeMap<String, u64> {
    let processes = std::iter::once("self".to_owned()).chain(observed.iter().map(ToString::to_string));
    let mut losses = BTreeMap::new();
    for process in processes {
        // A namespace without a name is left out, unless it is that of this process.
        let Some(name) = tree
            .link(&format!("proc/{process}/ns/net"))
            .or_else(|| (process == "self").then(|| process.clone()))
        else {
            continue;
        };
        if let Some(counters) = (!losses.contains_key(&name)).then(|| tcp(tree, &process)).flatten() {
            losses.insert(name, counters.retransmitted.saturating_add(counters.listen_drops));
        }
    }
    losses
}

/// Reads the monitors of all groups.
fn read_monitors(files: &resctrl::Files) -> MonitorReadings {
    let mut readings = Sampler::new(files).sample(|_| true);
    // Numbers of instances are those of one sampler. Counters of a group that was created again are smaller, so that it has
    // no rate all the same.
    for group in readings.values_mut() {
        group.instance = 0;
    }
    readings
}

/// Returns the bytes of the caches that hold data of the groups with a thread of the observed instance.
fn cache_bytes(
    files: &resctrl::Files,
    tree: &SysTree,
    monitors: &MonitorReadings,
    observed: &[u32],
) -> Option<u64> {
    let threads = |pid: &u32| tree.list(&format!("proc/{pid}/task"));
    let threads: BTreeSet<u32> =
        observed.iter().flat_map(threads).filter_map(|tid| tid.parse().ok()).collect();
    let group_of_tasks = files.group_of_tasks();
    let groups: BTreeSet<&String> = threads.iter().filter_map(|tid| group_of_tasks.get(tid)).collect();
    let readings = groups.into_iter().filter_map(|name| monitors.get(name));
    let occupancy = readings.flat_map(|group| &group.monitors).filter_map(|monitor| monitor.occupancy);
    occupancy.filter_map(Reading::bytes).reduce(u64::saturating_add)
}

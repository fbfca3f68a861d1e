//! Rates of interrupts, nodes, control groups and bandwidth between two samples.

use super::{Picture, rate};
use crate::{
    details::Pressure,
    resources::{GroupSample, InterruptSample, LATENCY_CLASSES, LatencyHistogram, LatencySample, NodeSample},
    sample::Sample,
};
use manycore_linux::resctrl::watch::parent_group;
use manycore_topology::CpuId;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// How often an interrupt was handled.
#[derive(Clone, Debug, PartialEq)]
pub struct InterruptUse {
    /// Its name, as that of [`InterruptSample`].
    pub name: Arc<str>,
    /// Its handlers, or the kernel's description.
    pub handlers: Arc<str>,
    /// On all CPUs, per second.
    pub per_second: f64,
    /// CPUs that handled it, ascending, and how often per second; empty if the kernel counts for the whole machine.
    pub by_cpu: Vec<(CpuId, f64)>,
}

/// The memory of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeUse {
    /// Its state at the second sample.
    pub now: NodeSample,
    /// Pages per second that processes on this node got from it.
    pub local: Option<f64>,
    /// Pages per second that processes on other nodes got from it.
    pub other: Option<f64>,
    /// Pages per second that were wanted from another node, and came from it.
    pub missed: Option<f64>,
}

/// What one control group used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupUse {
    /// Its state at the second sample.
    pub now: GroupSample,
    /// CPU time, in CPUs.
    pub cpu: Option<f64>,
    /// Share of the time in which it was throttled. Each CPU counts, so that it can be above 1.
    pub throttled: Option<f64>,
    /// Shares of the time in which some task waited for CPUs, memory and disks.
    pub pressure: Option<[f64; 3]>,
}

/// Memory bandwidth of one group of resctrl in one domain.
#[derive(Clone, Debug, PartialEq)]
pub struct BandwidthUse {
    /// The group; `/` is the default group.
    pub group: Arc<str>,
    /// Number of the last-level cache or node.
    pub domain: u32,
    /// Bytes per second to and from memory.
    pub total: Option<f64>,
    /// The part to and from memory of the own node.
    pub local: Option<f64>,
    /// Bytes of the cache that hold data of the group.
    pub cache_bytes: Option<u64>,
}

/// Returns the interrupts that were handled, most often first.
pub(super) fn interrupts(before: &Sample, now: &Sample, seconds: f64) -> Vec<InterruptUse> {
    let old: BTreeMap<&str, &InterruptSample> =
        before.interrupts.iter().map(|one| (&*one.name, one)).collect();
    // Columns can be compared only if they are the same CPUs.
    let same_cpus = before.cpus.iter().map(|one| one.cpu).eq(now.cpus.iter().map(|one| one.cpu));
    let mut uses: Vec<InterruptUse> = now
        .interrupts
        .iter()
        .filter_map(|new| {
            let old = old.get(&*new.name).filter(|_| same_cpus)?;
            let rates = new.counts.iter().zip(&old.counts).map(|(new, old)| new.saturating_sub(*old) as f64);
            let rates: Vec<f64> = rates.map(|count| count / seconds).collect();
            let per_second: f64 = rates.iter().sum();
            // A count of the whole machine (`ERR`, `MIS`) is of no CPU.
            let is_by_cpu = new.counts.len() >= now.cpus.len();
            let by_cpu = now.cpus.iter().map(|times| times.cpu).zip(rates).filter(|(_, rate)| *rate > 0.0);
            let by_cpu: Vec<(CpuId, f64)> = by_cpu.filter(|_| is_by_cpu).collect();
            (per_second > 0.0).then(|| InterruptUse {
                name: Arc::clone(&new.name),
                handlers: Arc::clone(&new.handlers),
                per_second,
                by_cpu,
            })
        })
        .collect();
    uses.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    uses
}

/// Returns the nodes, ascending.
pub(super) fn nodes(before: &Sample, now: &Sample, seconds: f64) -> Vec<NodeUse> {
    let of = |new: &NodeSample| {
        let old = before.nodes.iter().find(|old| old.node == new.node);
        let since = |field: fn(&NodeSample) -> Option<u64>| rate(old.and_then(field), field(new), seconds);
        NodeUse {
            now: *new,
            local: since(|node| node.local_pages),
            other: since(|node| node.other_pages),
            missed: since(|node| node.missed_pages),
        }
    };
    now.nodes.iter().map(of).collect()
}

/// Returns the control groups, ascending by path.
pub(super) fn groups(before: &Sample, now: &Sample, seconds: f64) -> Vec<GroupUse> {
    let of = |new: &GroupSample| {
        let old = before.groups.binary_search_by(|old| old.path.cmp(&new.path)).ok();
        let old = old.map(|at| &before.groups[at]);
        let share = |field: fn(&GroupSample) -> Option<u64>| {
            rate(old.and_then(field), field(new), seconds).map(|ns| ns / 1e9)
        };
        let waited = |at: usize| {
            let some = |group: &GroupSample| group.pressure.map(|all: [Pressure; 3]| all[at].some_ns);
            rate(old.and_then(some), some(new), seconds).map(|ns| ns / 1e9)
        };
        GroupUse {
            cpu: share(|group| group.cpu_ns),
            throttled: share(|group| group.throttled_ns),
            pressure: waited(0).zip(waited(1)).zip(waited(2)).map(|((cpu, memory), io)| [cpu, memory, io]),
            now: new.clone(),
        }
    };
    now.groups.iter().map(of).collect()
}

impl Picture {
    /// Returns the bandwidths whose sum is that of the machine: without monitoring groups whose group is there as well, since it
    /// counts their tasks, too.
    pub(crate) fn bandwidth_of_all(&self) -> impl Iterator<Item = &BandwidthUse> {
        let groups: BTreeSet<&str> = self.bandwidth.iter().map(|one| &*one.group).collect();
        self.bandwidth.iter().filter(move |one| {
            let parent = parent_group(&one.group);
            parent == &*one.group || !groups.contains(parent)
        })
    }
}

/// Returns the groups of resctrl, ascending by group and domain.
pub(super) fn bandwidth(before: &Sample, now: &Sample, seconds: f64) -> Vec<BandwidthUse> {
    let key = |group: &Arc<str>, domain| (Arc::clone(group), domain);
    let old: BTreeMap<_, _> = before.bandwidth.iter().map(|one| (key(&one.group, one.domain), one)).collect();
    let uses = now.bandwidth.iter().map(|new| {
        let old = old.get(&key(&new.group, new.domain));
        BandwidthUse {
            group: Arc::clone(&new.group),
            domain: new.domain,
            total: rate(old.and_then(|old| old.total_bytes), new.total_bytes, seconds),
            local: rate(old.and_then(|old| old.local_bytes), new.local_bytes, seconds),
            cache_bytes: new.cache_bytes,
        }
    });
    uses.collect()
}

/// Returns what was counted between two samples; `None` also if the counters began again meanwhile.
pub(super) fn latency(before: &Sample, now: &Sample) -> Option<LatencySample> {
    let (old, new) = (before.latency.as_ref()?, now.latency.as_ref()?);
    let sum = |latency: &LatencySample| latency.run_ns.iter().sum::<u64>();
    let began_again = sum(new) < sum(old)
        || new.wakeup.count() < old.wakeup.count()
        || new.displaced.count() < old.displaced.count();
    (!began_again).then(|| LatencySample {
        wakeup: new.wakeup.since(&old.wakeup),
        displaced: new.displaced.since(&old.displaced),
        off_cpu: new
            .off_cpu
            .iter()
            .map(|(reason, new)| {
                let old = old.off_cpu.get(reason).copied().unwrap_or_default();
                (Arc::clone(reason), new.since(&old))
            })
            .collect(),
        migrations: std::array::from_fn(|at| new.migrations[at].saturating_sub(old.migrations[at])),
        conflict_ns: new.conflict_ns.saturating_sub(old.conflict_ns),
        run_ns: (new.run_ns.iter().enumerate())
            .map(|(at, &new)| new.saturating_sub(old.run_ns.get(at).copied().unwrap_or(0)))
            .collect(),
    })
}

impl LatencyHistogram {
    /// Returns what was counted after `old`.
    pub fn since(&self, old: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].saturating_sub(old.0[at])))
    }

    /// Adds what another one has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Returns how many durations were counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the upper limit in microseconds of the class in which the quantile is; `None` without durations.
    /// Quantiles in the last class have no upper limit: infinity.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let wanted = (q * self.count() as f64).ceil().max(1.0);
        let mut sum = 0.0;
        let class = self.0.iter().position(|&count| {
            sum += count as f64;
            sum >= wanted
        })?;
        Some(if class == LATENCY_CLASSES - 1 { f64::INFINITY } else { (1_u64 << class) as f64 })
    }
}

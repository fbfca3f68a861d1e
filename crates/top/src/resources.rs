//! Counters beside those of CPUs and tasks, each of which is read only if it is wanted.

use crate::details::Pressure;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is read of control groups: those of version 2, or of the controllers `cpu` and `memory` of version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupParts {
    /// Nothing.
    #[default]
    None,
    /// Throttled time, and the quota of groups that were ever throttled, as findings need them. All else is absent, and the
    /// number of processes is 0.
    Throttling,
    /// All that a [`GroupSample`] has: four times as many files or more.
    All,
}

/// How often virtual machines are searched among the processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuestSearch {
    /// Never: samples have none.
    #[default]
    Never,
    /// In one of 16 samples. Those between have the machines that still run.
    Seldom,
    /// In each sample.
    Always,
}

/// What a sample has beside CPUs and tasks. It can change between two samples; what is not wanted is empty.
#[allow(clippy::struct_excessive_bools, reason = "each is a part that can be read alone")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Interrupts (`/proc/interrupts`): takes long with many CPUs and devices.
    pub interrupts: bool,
    /// Memory by node (`/sys/devices/system/node`).
    pub nodes: bool,
    /// What is read of control groups.
    pub groups: GroupParts,
    /// Virtual machines, and the threads of their virtual CPUs.
    pub guests: GuestSearch,
    /// Memory bandwidth and cache by group of resctrl.
    pub bandwidth: bool,
    /// Frequencies and temperatures of CPUs. Each reading of a frequency may interrupt its CPU.
    pub frequency: bool,
    /// Counters of the CPUs, of up to 64 threads. They make context switches of these threads slower.
    pub counters: bool,
    /// Processes of which details are read, ascending.
    pub details: Vec<u32>,
    /// Processes whose details have the memory by node, ascending: the kernel visits each page table of the process. Their
    /// details are read whether or not they are in `details`.
    pub memory_of: Vec<u32>,
}

impl Wanted {
    /// Returns what either of two wants.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.interrupts |= other.interrupts;
        self.nodes |= other.nodes;
        self.groups = self.groups.max(other.groups);
        self.guests = self.guests.max(other.guests);
        self.bandwidth |= other.bandwidth;
        self.frequency |= other.frequency;
        self.counters |= other.counters;
        self.details = joined(&self.details, &other.details);
        self.memory_of = joined(&self.memory_of, &other.memory_of);
        self
    }

    /// Returns whether it has a part that `other` does not have. Counters of CPUs and details of processes are no parts.
    pub fn has_parts_beyond(&self, other: &Self) -> bool {
        let parts = |wanted: &Self| Self {
            counters: false,
            details: Vec::new(),
            memory_of: Vec::new(),
            ..wanted.clone()
        };
        let other = parts(other);
        parts(self).and(&other) != other
    }
}

/// Returns the processes of two lists, ascending.
pub(crate) fn joined(a: &[u32], b: &[u32]) -> Vec<u32> {
    let all: BTreeSet<u32> = a.iter().chain(b).copied().collect();
    all.into_iter().collect()
}

/// The counters of one interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptSample {
    /// A number for a device, a name (`LOC`) for the architecture, `softirq` and its name (`softirq NET_RX`) for a softirq.
    pub name: Arc<str>,
    /// Names of its handlers, or the kernel's description; printable.
    pub handlers: Arc<str>,
    /// Counts since boot, in the order of [`Sample::cpus`](crate::Sample::cpus). Fewer if the kernel counts for the
    /// whole machine.
    pub counts: Vec<u64>,
}

/// The counters of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSample {
    /// The node.
    pub node: u32,
    /// Its memory in KiB (`meminfo`).
    pub total_kib: u64,
    /// The part that is free, in KiB.
    pub free_kib: u64,
    /// The part that holds files, in KiB.
    pub file_kib: u64,
    /// Pages that processes on this node got from it, since boot (`numastat`, `local_node`).
    pub local_pages: Option<u64>,
    /// Pages that processes on other nodes got from it, since boot (`other_node`).
    pub other_pages: Option<u64>,
    /// Pages of this node that were wanted from another one, since boot (`numa_miss`).
    pub missed_pages: Option<u64>,
}

/// The counters of one control group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSample {
    /// Its path below the root of the hierarchy, printable.
    pub path: Arc<str>,
    /// CPU time in nanoseconds since it was created.
    pub cpu_ns: Option<u64>,
    /// Time in nanoseconds in which it was throttled by its CPU quota.
    pub throttled_ns: Option<u64>,
    /// Its CPU quota, in thousandths of a CPU; absent without a quota.
    pub quota_milli: Option<u64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Its limit of memory in bytes; absent without a limit.
    pub memory_limit: Option<u64>,
    /// Number of its processes, those of groups below excluded; 0 if only throttling was read.
    pub processes: u32,
    /// Pressure on CPUs, memory and disks; absent without PSI.
    pub pressure: Option<[Pressure; 3]>,
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSample {
    /// Its name, printable.
    pub name: Arc<str>,
    /// The process of its emulator.
    pub pid: u32,
    /// Threads of its virtual CPUs, by number.
    pub vcpus: BTreeMap<u32, u32>,
}

/// Readings of resctrl of one group in one domain. A reading that the hardware does not have is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthSample {
    /// The group; `/` is the default group.
    pub group: Arc<str>,
    /// Number of the last-level cache or node.
    pub domain: u32,
    /// Bytes to and from memory, since the group was created.
    pub total_bytes: Option<u64>,
    /// The part to and from memory of the own node.
    pub local_bytes: Option<u64>,
    /// Bytes of the cache that hold data of the group.
    pub cache_bytes: Option<u64>,
}

/// Number of classes of a [`LatencyHistogram`].
pub const LATENCY_CLASSES: usize = 32;

/// Numbers of durations by class, since counting began: class 0 is below 1 microsecond, class `i` from `2^(i-1)` to
/// below `2^i` microseconds, the last one all above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram(pub [u64; LATENCY_CLASSES]);

/// Latencies of the scheduler, counted exactly by programs in the kernel (BPF).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencySample {
    /// From a wake-up to running.
    pub wakeup: LatencyHistogram,
    /// From being displaced to running again.
    pub displaced: LatencyHistogram,
    /// Time off the CPU by its reason: `sleep`, `disk` (uninterruptible) and `stopped` until the wake-up, `displaced` until
    /// running again.
    pub off_cpu: BTreeMap<Arc<str>, LatencyHistogram>,
    /// Migrations since counting began by [`Migration`](crate::Migration), in its order.
    pub migrations: [u64; 4],
    /// Time in nanoseconds in which two tasks ran on one cluster while another cluster was idle. Of a machine without
    /// clusters that can be shared: of its last-level caches, or else its cores.
    pub conflict_ns: u64,
    /// Time in nanoseconds that tasks ran, by cluster: those of the machine, and CPUs without one, by their first CPU.
    pub run_ns: Vec<u64>,
}

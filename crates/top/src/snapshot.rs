//! A picture as a person or a program reads it: percentages, sums by process, and only what was asked for.

mod build;
mod memory;
mod part;
mod resources;
mod tasks;
#[cfg(test)]
mod tests;

use crate::{findings::Finding, plans::PlanState};
pub(crate) use build::rounded;
use manycore_topology::{CpuId, CpuSet, Level};
pub use memory::{MemoryRow, first_processes};
pub use part::Part;
pub use resources::{BandwidthRow, GuestRow, VcpuRow};
use serde::Serialize;
use std::collections::BTreeMap;
pub(crate) use tasks::migrations;

/// Value of [`TopSnapshot::schema`] that this version writes.
pub const TOP_SCHEMA: &str = "manycore/top/1";

/// How processes and threads are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By time on CPUs.
    #[default]
    Cpu,
    /// By time of waiting for a CPU.
    Wait,
    /// By changes of the CPU.
    Migrations,
    /// By context switches.
    Switches,
    /// By resident memory.
    Memory,
}

/// What a snapshot has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// The parts.
    pub parts: Vec<Part>,
    /// Order of processes and threads, the largest first.
    pub order: Order,
    /// Most rows of a part that can have many.
    pub rows: usize,
}

/// What happened in one interval. Shares of CPUs are in percent of one CPU, unless a field says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopSnapshot {
    /// Always [`TOP_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = TOP_SCHEMA)))]
    pub schema: String,
    /// End of the interval in UTC (RFC 3339).
    pub time: String,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Whether processes and threads may have figures of counters: columns must be the same in all lines of a table.
    #[serde(skip)]
    pub has_counters: bool,
    /// Sums over the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemRow>,
    /// Clusters, last-level caches and nodes of which there are several, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitRow>,
    /// Online CPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuRow>,
    /// Processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<TaskRow>,
    /// Threads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<TaskRow>,
    /// Interrupts and softirqs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<InterruptRow>,
    /// Processes: memory by node, and pressure of their control groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryRow>,
    /// Memory by node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRow>,
    /// Control groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRow>,
    /// Virtual machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guests: Vec<GuestRow>,
    /// Groups of resctrl.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bandwidth: Vec<BandwidthRow>,
    /// Latencies of the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyRow>,
    /// Problems: an empty list if there are none. Absent if they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
}

/// Shares of CPU time in percent of one CPU, by the names of mpstat(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuPercent {
    /// In user mode.
    pub usr: f64,
    /// In user mode, of tasks with a positive nice value.
    pub nice: f64,
    /// In the kernel.
    pub sys: f64,
    /// Idle while a task waits for a disk.
    pub iowait: f64,
    /// In handlers of interrupts.
    pub irq: f64,
    /// In softirqs.
    pub soft: f64,
    /// Given to other virtual machines by the hypervisor.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

/// Sums over the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SystemRow {
    /// Number of online CPUs.
    pub cpus: usize,
    /// Sum over the CPUs.
    pub cpu_percent: CpuPercent,
    /// Time that tasks waited for a CPU, in percent: 200 is two tasks that wait all the time.
    pub wait_percent: f64,
    /// Tasks that ran or waited for a CPU at the end of the interval.
    pub runnable: Option<u64>,
    /// Tasks that waited for a disk at the end of the interval.
    pub blocked: Option<u64>,
    /// Context switches per second.
    pub switches_per_second: Option<f64>,
    /// Tasks created per second.
    pub created_per_second: Option<f64>,
    /// Memory in KiB.
    pub memory_kib: Option<u64>,
    /// Memory in KiB that programs can get without swapping.
    pub available_kib: Option<u64>,
}

/// The use of a unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitRow {
    /// `cluster`, `llc` or `node`.
    pub level: Level,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Sum over its CPUs.
    pub cpu_percent: CpuPercent,
    /// Time that tasks waited for one of its CPUs, in percent: 200 is two tasks that wait all the time.
    pub wait_percent: f64,
    /// Its tasks that ran or waited at the end of the interval.
    pub runnable: usize,
}

/// The use of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuRow {
    /// The CPU.
    pub cpu: CpuId,
    /// Shares of its time; absent if it was offline at one end of the interval.
    pub cpu_percent: Option<CpuPercent>,
    /// Time that tasks whose last CPU this is waited for a CPU, in percent.
    pub wait_percent: f64,
    /// Frequency in MHz; absent without cpufreq.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mhz: Option<u64>,
    /// Temperature in degrees Celsius; absent if the machine does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
}

/// What a process or a thread did, by the names of pidstat(1).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskRow {
    /// The process.
    pub pid: u32,
    /// The thread; absent for a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its effective user: the name, or the number if there is none, and in recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// State as one letter; of a process: `R` if any thread is runnable, else that of its first thread. `X` if it has ended,
    /// which only the report of a recording shows.
    pub state: char,
    /// Number of threads; 0 if it has ended.
    pub threads: usize,
    /// Time on CPUs in percent of one CPU.
    pub cpu_percent: f64,
    /// Time of waiting for a CPU in percent of the interval, summed over threads; absent if the kernel does not
    /// count it.
    pub wait_percent: Option<f64>,
    /// Voluntary context switches per second.
    pub cswch_per_second: Option<f64>,
    /// Involuntary context switches per second.
    pub nvcswch_per_second: Option<f64>,
    /// Migrations by distance.
    pub migrations: Migrations,
    /// CPUs on which its threads were last; a thread has one.
    pub last_cpus: CpuSet,
    /// The CPUs that it may use: all of them over its threads; absent if unknown.
    pub allowed: Option<CpuSet>,
    /// Whether it is where `manycore` has placed it; absent in a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanState>,
    /// Resident memory of its process in KiB.
    pub resident_kib: u64,
    /// Instructions per cycle, by counters of the CPUs; of a process: of its threads that were counted, if these used 90 % of
    /// its CPU time. Absent without counters, and in a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipc: Option<f64>,
    /// Cache misses per second; absent as `ipc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_misses_per_second: Option<f64>,
}

/// Migrations per second by the largest distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Migrations {
    /// Whether each one is counted (BPF). Otherwise only differences of the last CPU between two samples are: there are
    /// at least so many.
    pub are_exact: bool,
    /// Within a cluster.
    pub within_cluster: f64,
    /// To another cluster of the same last-level cache.
    pub across_cluster: f64,
    /// To another last-level cache of the same node.
    pub across_llc: f64,
    /// To another node.
    pub across_node: f64,
}

/// How often an interrupt was handled.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptRow {
    /// Number or name.
    pub name: String,
    /// Its handlers, or the kernel's description.
    pub handlers: String,
    /// Per second, on all CPUs.
    pub per_second: f64,
    /// Per second, by CPU.
    pub by_cpu: BTreeMap<CpuId, f64>,
}

/// The memory of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeRow {
    /// The node.
    pub node: u32,
    /// Memory in KiB.
    pub total_kib: u64,
    /// Free memory in KiB.
    pub free_kib: u64,
    /// Memory that holds files in KiB.
    pub file_kib: u64,
    /// Pages per second that processes on this node got from it.
    pub local_pages_per_second: Option<f64>,
    /// Pages per second that processes on other nodes got from it.
    pub other_pages_per_second: Option<f64>,
    /// Pages per second that were wanted from another node, and came from it.
    pub missed_pages_per_second: Option<f64>,
}

/// What a control group used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupRow {
    /// Its path.
    pub path: String,
    /// CPU time in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// Time of being throttled by its quota in percent, summed over CPUs.
    pub throttled_percent: Option<f64>,
    /// Its CPU quota in percent of one CPU; absent without a quota.
    pub quota_percent: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Limit of memory in bytes; absent without a limit.
    pub memory_limit_bytes: Option<u64>,
    /// Number of processes, those of groups below excluded.
    pub processes: u32,
    /// Time in percent in which some task waited for CPUs, memory, and disks; absent without PSI.
    pub pressure_percent: Option<[f64; 3]>,
}

/// Latencies of the scheduler in microseconds: upper limits of the classes (powers of 2) in which quantiles are.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRow {
    /// Number of wake-ups.
    pub wakeups: u64,
    /// From a wake-up to running: median, 99 % and 99.9 %. `null` is above the last class.
    pub wakeup_us: [Option<f64>; 3],
    /// Number of times that a task was displaced.
    pub displaced: u64,
    /// From being displaced to running again, as above.
    pub displaced_us: [Option<f64>; 3],
}

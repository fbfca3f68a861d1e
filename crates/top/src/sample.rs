//! The kernel's counters at one moment: running totals, of which two samples give rates.

use crate::{
    details::ProcessDetails,
    resources::{BandwidthSample, GroupSample, GuestSample, InterruptSample, LatencySample, NodeSample},
    task_list::TaskList,
};
use manycore_linux::{process_reader::ProcessName, task_counters::EventCounts};
use manycore_text::names::printable;
use manycore_topology::{CpuId, CpuSet};
use std::sync::Arc;

/// The identity of a task. A later task with the same ids has another start time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Start time of the thread in clock ticks since boot (`stat`, field 22 of proc(5)).
    pub start: u64,
}

/// The name of a task: up to 15 bytes that it has chosen itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskName(ProcessName);

impl TaskName {
    /// Returns a name with the first 15 bytes of `text`.
    pub fn new(text: &[u8]) -> Self {
        Self(ProcessName::new(text))
    }

    /// Returns the name as the kernel has it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the name with unprintable characters and invalid UTF-8 replaced.
    pub fn printable(&self) -> String {
        printable(&String::from_utf8_lossy(self.0.as_bytes()))
    }
}

/// The counters of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSample {
    /// Its identity.
    pub id: TaskId,
    /// Its name.
    pub name: TaskName,
    /// The parent of its process.
    pub parent: u32,
    /// Its effective user (`Uid` of `status`); absent unless switches are wanted.
    pub uid: Option<u32>,
    /// Whether it is a kernel thread.
    pub is_kernel: bool,
    /// State as one letter (`stat`, field 3): `R` runs or waits for a CPU, `S` and `D` sleep, `Z` is a zombie.
    pub state: char,
    /// The CPU that it runs on, waits for, or ran on last (`stat`, field 39).
    pub cpu: CpuId,
    /// Time on a CPU in nanoseconds since its start (`schedstat`, up to one tick late; in whole ticks, of `stat`, on a
    /// kernel without that file).
    pub run_ns: u64,
    /// Time runnable but waiting for a CPU, in nanoseconds since its start. A wait that has not ended is not in it. Absent
    /// on a kernel without `schedstat` (`CONFIG_SCHED_INFO`).
    pub wait_ns: Option<u64>,
    /// How many times it was put on a CPU since its start (`schedstat`, third field); absent as `wait_ns`.
    pub slices: Option<u64>,
    /// Context switches because it blocked (`status`); absent unless wanted.
    pub voluntary: Option<u64>,
    /// Context switches because it was displaced (`status`); absent unless wanted.
    pub involuntary: Option<u64>,
    /// The CPUs that it may use (`Cpus_allowed_list` of `status`); absent unless wanted. Equal sets are shared.
    pub allowed: Option<Arc<CpuSet>>,
    /// Migrations by [`Migration`](crate::Migration), in its order, counted exactly; absent without BPF.
    pub migrations: Option<Box<[u64; 4]>>,
    /// Resident set of its process in KiB (`stat`, field 24, which the kernel updates in steps). That of the first thread of a
    /// process is the newest one.
    pub resident_kib: u64,
}

/// Counters of the CPUs of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedSample {
    /// The thread.
    pub id: TaskId,
    /// Cycles, instructions and cache misses since counting began. Those of user mode only if the kernel allows no more.
    pub counts: EventCounts<3>,
}

/// The counters of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// The process.
    pub pid: u32,
    /// Start time of its first thread in clock ticks since boot.
    pub start: u64,
    /// CPU time in nanoseconds of all its threads, those that have ended included (its CPU clock). Absent in a tree that
    /// is not of the running system.
    pub cpu_ns: Option<u64>,
    /// Number of its threads.
    pub threads: u32,
}

/// The times of one CPU since boot in clock ticks (`/proc/stat`, proc(5)). Time of guests is in `user` and `nice`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The CPU.
    pub cpu: CpuId,
    /// In user mode.
    pub user: u64,
    /// In user mode, of tasks with a positive nice value.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task that last ran here waits for a disk. May decrease.
    pub iowait: u64,
    /// In handlers of interrupts.
    pub irq: u64,
    /// In softirqs.
    pub softirq: u64,
    /// Given to other virtual machines by the hypervisor.
    pub steal: u64,
    /// Current frequency in kHz (`cpufreq/scaling_cur_freq`); absent unless wanted, and without cpufreq.
    pub khz: Option<u64>,
    /// Temperature of its core or package in thousandths of a degree Celsius; absent as `khz`.
    pub millidegrees: Option<i32>,
}

/// Counters of the whole system (`/proc/stat`). Each is absent if the file does not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCounters {
    /// Context switches since boot (`ctxt`).
    pub switches: Option<u64>,
    /// Tasks created since boot, threads included (`processes`).
    pub created: Option<u64>,
    /// Tasks that run or wait for a CPU now, the sampling thread included (`procs_running`).
    pub runnable: Option<u64>,
    /// Tasks that wait for a disk now (`procs_blocked`).
    pub blocked: Option<u64>,
    /// Memory in KiB (`MemTotal` of `/proc/meminfo`).
    pub memory_kib: Option<u64>,
    /// Memory in KiB that programs can get without swapping (`MemAvailable`).
    pub available_kib: Option<u64>,
}

/// All counters at one moment. Reading takes milliseconds, always in the same order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When reading began: `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
    /// The same moment in milliseconds since 1970 (UTC), by a clock that can be set.
    pub unix_ms: u64,
    /// The system.
    pub system: SystemCounters,
    /// The online CPUs, ascending.
    pub cpus: Vec<CpuTimes>,
    /// The processes, ascending by id.
    pub processes: Vec<ProcessSample>,
    /// The threads, ascending by process and thread.
    pub tasks: TaskList,
    /// Interrupts, as the kernel lists them, and softirqs; empty unless wanted, as all that follows.
    pub interrupts: Vec<InterruptSample>,
    /// Nodes, ascending.
    pub nodes: Vec<NodeSample>,
    /// Control groups, ascending by path.
    pub groups: Vec<GroupSample>,
    /// Virtual machines, ascending by process.
    pub guests: Vec<GuestSample>,
    /// Groups of resctrl, ascending by group and domain.
    pub bandwidth: Vec<BandwidthSample>,
    /// Details of single processes, ascending by process.
    pub details: Vec<(u32, ProcessDetails)>,
    /// Exact latencies; absent without BPF.
    pub latency: Option<LatencySample>,
    /// Counters of the CPUs of the threads that use most CPU time, ascending; absent unless wanted, where there are none, and
    /// in recordings.
    pub counted: Option<Vec<CountedSample>>,
}

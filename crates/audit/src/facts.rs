//! What the audit decides on: processes, their threads and groups, interrupts, as they were seen.

use manycore_topology::{CpuId, CpuSet, machine::Node};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that was seen on one machine in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// CPUs that run.
    pub online: CpuSet,
    /// CPUs that the machine has and that are switched off.
    pub offline: CpuSet,
    /// CPUs that the scheduler leaves alone (`isolcpus=`, isolated partitions).
    pub isolated: CpuSet,
    /// NUMA nodes, as in [`manycore_topology::Machine::nodes`].
    pub nodes: Vec<Node>,
    /// Processes without kernel threads, in any order.
    pub processes: Vec<Process>,
    /// Interrupts of devices that came in the interval.
    pub interrupts: Vec<Interrupt>,
    /// What control groups with a quota of CPU time were refused in the interval.
    pub throttling: Vec<Throttling>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Id of the process that it is a child of.
    pub parent: u32,
    /// Its name (`comm`, at most 15 bytes).
    pub name: String,
    /// What its control groups let it use.
    pub confinement: Confinement,
    /// Its threads, the main one first.
    pub threads: Vec<Thread>,
    /// CPU time since it began, in seconds.
    pub cpu_seconds: f64,
    /// CPUs that it used on average in the interval; absent where nobody looked twice.
    pub busy_cpus: Option<f64>,
    /// What it runs on; looked at only where it has more threads than CPUs.
    pub program: Option<Program>,
    /// Bytes of its memory on each node; looked at only for pinned processes of machines with several nodes.
    pub memory: Option<BTreeMap<u32, u64>>,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name (`comm`, at most 15 bytes).
    pub name: String,
    /// CPUs that it may run on, also such as are offline (`Cpus_allowed_list` of `/proc/TID/status`).
    pub cpus: CpuSet,
    /// What its own control groups let it use, where it is in others than its process.
    pub confinement: Option<Confinement>,
    /// CPU time since it began, in seconds, to a hundredth; absent where nobody looked.
    pub cpu_seconds: Option<f64>,
    /// CPUs (0 to 1) that it used on average in the interval; absent where nobody looked twice.
    pub busy_cpus: Option<f64>,
}

/// What control groups let a process use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Confinement {
    /// The group that decides on CPUs (`/docker/1f0c`), as `/proc/PID/cgroup` names it.
    pub group: String,
    /// The outermost of the groups above it, or itself, that has the same CPUs.
    pub tenant: String,
    /// CPUs of the group; absent where it sets none or cannot be read.
    pub cpus: Option<CpuSet>,
    /// The file that says so.
    pub cpus_file: String,
    /// Whether the group is the root of a partition (`cpuset.cpus.partition`), which no other group shares.
    pub partition: bool,
    /// CPU time that it may use, in CPUs: the tightest quota of the group and of those above it.
    pub quota_cpus: Option<f64>,
    /// The file that says so.
    pub quota_file: String,
    /// Its service, where systemd started it (`/system.slice/nginx.service`).
    pub service: Option<String>,
}

/// What a process runs on, as far as it tells about the number of its threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its command line.
    pub arguments: Vec<String>,
    /// Those of [`super::VARIABLES`] that were in its environment when it began.
    pub environment: BTreeMap<String, String>,
    /// Paths of mapped files that hold one of [`super::LIBRARIES`].
    pub libraries: Vec<String>,
    /// What the Go linker wrote into its file.
    pub go: Option<Go>,
}

/// What the Go linker writes into a program (`debug/buildinfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    /// `go1.24.2`; empty where the program is older than Go 1.18 and has it elsewhere.
    pub version: String,
    /// Whether `go.uber.org/automaxprocs`, which minds quotas, is linked in.
    pub automaxprocs: bool,
    /// Whether the runtime was told not to mind quotas (`containermaxprocs=0` in `DefaultGODEBUG`).
    pub ignores_quota: bool,
}

/// A device's interrupt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Who handles it, as `/proc/interrupts` names him (`eth0-TxRx-3`).
    pub name: String,
    /// How often it came per second on each CPU where it came at all.
    pub per_second: BTreeMap<CpuId, f64>,
    /// A name that `irq place --device` knows its device by; absent where there is none, or where the kernel places the
    /// interrupt itself (its affinity is managed).
    pub device: Option<String>,
    /// Whether the kernel says that it places the interrupt itself.
    pub managed: bool,
}

/// A control group with a quota, and how often it was stopped for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throttling {
    /// Its folder.
    pub folder: String,
    /// The file with its quota.
    pub quota_file: String,
    /// The quota in CPUs.
    pub quota_cpus: f64,
    /// Periods in the interval in which it ran (`nr_periods` of `cpu.stat`).
    pub periods: u64,
    /// Those in which it was stopped (`nr_throttled`).
    pub throttled: u64,
    /// For how long its CPUs were stopped, added up, in seconds.
    pub seconds: f64,
    /// Processes in it and below, by their ids.
    pub processes: Vec<u32>,
}

/// What could not be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unseen {
    /// The process ended while it was looked at.
    Ended,
    /// Its control groups: they are not below what is mounted here.
    Groups,
    /// Its environment: another user's.
    Environment,
    /// Its program file or libraries: another user's.
    Program,
    /// Its memory map: another user's.
    Memory,
    /// Processes that `/proc` hides from other users (`hidepid`).
    Hidden,
}

/// A process, named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// How many of its threads are meant.
    pub threads: usize,
}

impl Process {
    /// The groups of one of its threads.
    pub fn confinement_of<'a>(&'a self, thread: &'a Thread) -> &'a Confinement {
        thread.confinement.as_ref().unwrap_or(&self.confinement)
    }

    /// Online CPUs that any of its threads may run on.
    pub fn reach(&self, online: &CpuSet) -> CpuSet {
        CpuSet::union_of(self.threads.iter().map(|thread| &thread.cpus)).intersection(online)
    }

    /// Itself, with the number of threads that are meant.
    pub fn holder(&self, threads: usize) -> Holder {
        Holder { pid: self.pid, name: self.name.clone(), threads }
    }
}

impl Confinement {
    /// Online CPUs of the group; all where it sets none.
    pub fn usable(&self, online: &CpuSet) -> CpuSet {
        let own = self.cpus.as_ref().map(|cpus| cpus.intersection(online));
        own.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| online.clone())
    }
}

impl Thread {
    /// The CPU that it is pinned to, where that is one.
    pub fn only_cpu(&self, online: &CpuSet) -> Option<CpuId> {
        let cpus = self.cpus.intersection(online);
        cpus.first().filter(|_| cpus.len() == 1)
    }
}

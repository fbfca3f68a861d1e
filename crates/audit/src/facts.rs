//! The input of the audit: processes, their threads and control groups, and interrupts, as they were
//! observed.

use manycore_topology::{CpuId, CpuSet, machine::Node};
use serde::Serialize;
use std::collections::BTreeMap;

/// All observations on one machine in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditFacts {
    /// Online CPUs.
    pub online: CpuSet,
    /// CPUs that the machine has but that are offline.
    pub offline: CpuSet,
    /// CPUs that are isolated from the scheduler (`isolcpus=`, isolated partitions).
    pub isolated: CpuSet,
    /// NUMA nodes, as in [`manycore_topology::Machine::nodes`].
    pub nodes: Vec<Node>,
    /// Processes without kernel threads, in any order.
    pub processes: Vec<Process>,
    /// Interrupts of devices that occurred in the interval.
    pub interrupts: Vec<Interrupt>,
    /// Throttling of control groups with a quota of CPU time in the interval.
    pub throttling: Vec<Throttling>,
}

/// What was recorded of one process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Id of its parent.
    pub parent: u32,
    /// Its name (`comm`, at most 15 bytes).
    pub name: String,
    /// Whether it was forked and has not started a program since (`PF_FORKNOEXEC` of its flags in `stat`).
    pub forked: bool,
    /// Present if manycore has pinned it.
    pub pinned_by: Option<ManycorePin>,
    /// The limits set by its control groups.
    pub limits: GroupLimits,
    /// Its threads, the main one first.
    pub threads: Vec<Thread>,
    /// CPU time since its start, in seconds.
    pub cpu_seconds: f64,
    /// CPUs that it used on average in the interval; absent without two readings.
    pub busy_cpus: Option<f64>,
    /// Program and runtime; read only if it has more threads than CPUs.
    pub program: Option<Program>,
    /// Bytes of its memory by NUMA node; read only for pinned processes of machines with several nodes.
    pub memory: Option<BTreeMap<u32, u64>>,
}

/// A change of manycore that pinned a process and is still in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManycorePin {
    /// Its name, as `manycore undo` takes it.
    pub change: String,
    /// The process that enforces it, and undoes it at its end; absent if it stays until it is undone.
    pub owner: Option<u32>,
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name (`comm`, at most 15 bytes).
    pub name: String,
    /// CPUs on which it may run, including offline ones (`Cpus_allowed_list` of `/proc/TID/status`).
    pub cpus: CpuSet,
    /// The limits set by its own control groups, if these differ from the groups of its process.
    pub limits: Option<GroupLimits>,
    /// CPU time since its start, in seconds, to a hundredth; absent if it was not read.
    pub cpu_seconds: Option<f64>,
    /// CPUs (0 to 1) that it used on average in the interval; absent without two readings.
    pub busy_cpus: Option<f64>,
}

/// The limits that control groups set for a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupLimits {
    /// The group that sets the CPUs (`/docker/1f0c`), as in `/proc/PID/cgroup`.
    pub group: String,
    /// The outermost group with the same CPUs: the group itself or one of its ancestors.
    pub tenant: String,
    /// CPUs of the group; absent if it sets none or they cannot be read.
    pub cpus: Option<CpuSet>,
    /// The file that holds them.
    pub cpus_file: String,
    /// Whether the group is the root of a partition (`cpuset.cpus.partition`), whose CPUs no other group
    /// shares.
    pub partition: bool,
    /// CPU time that it may use, in CPUs: the lowest quota of the group and its ancestors.
    pub quota_cpus: Option<f64>,
    /// The file that holds the quota.
    pub quota_file: String,
    /// Its service, if systemd started it (`/system.slice/nginx.service`).
    pub service: Option<String>,
}

/// Program and runtime of a process, as far as they decide its number of threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// The variables of [`super::VARIABLES`] that were in its environment at its start.
    pub environment: BTreeMap<String, String>,
    /// Paths of mapped files that contain one of [`super::LIBRARIES`].
    pub libraries: Vec<String>,
    /// Build information that the Go linker wrote into its file.
    pub go: Option<Go>,
}

/// Build information of a Go program (`debug/buildinfo`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Go {
    /// `go1.24.2`; empty for programs built with a version before Go 1.18, which store it elsewhere.
    pub version: String,
    /// Whether `go.uber.org/automaxprocs`, which respects quotas, is linked in.
    pub automaxprocs: bool,
    /// Whether the runtime is configured to ignore quotas (`containermaxprocs=0` in `DefaultGODEBUG`).
    pub ignores_quota: bool,
}

/// A device's interrupt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Name of its handler in `/proc/interrupts` (`eth0-TxRx-3`).
    pub name: String,
    /// Interrupts per second by CPU; CPUs without any are left out.
    pub per_second: BTreeMap<CpuId, f64>,
    /// The name of its device, by which `irq place` finds it; absent if there is none, or if the kernel manages the
    /// affinity of the interrupt itself.
    pub device: Option<String>,
    /// Whether the kernel manages the affinity of the interrupt itself.
    pub managed: bool,
}

/// A control group with a quota, and how often it was throttled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throttling {
    /// Its directory.
    pub folder: String,
    /// The file with its quota.
    pub quota_file: String,
    /// The quota in CPUs.
    pub quota_cpus: f64,
    /// Periods in the interval in which it ran (`nr_periods` of `cpu.stat`).
    pub periods: u64,
    /// Periods in which it was throttled (`nr_throttled`).
    pub throttled: u64,
    /// Throttled time in seconds, summed over its CPUs.
    pub seconds: f64,
    /// Ids of the processes in it and below.
    pub processes: Vec<u32>,
}

/// What could not be examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnexaminedKind {
    /// The process ended during the audit.
    Ended,
    /// Its control groups: they are not below a hierarchy that is mounted here.
    Groups,
    /// Its environment: the process belongs to another user.
    Environment,
    /// Its program file or libraries: the process belongs to another user.
    Program,
    /// Its memory map: the process belongs to another user.
    Memory,
    /// Processes that `/proc` hides from other users (`hidepid`).
    Hidden,
}

/// A process in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRef {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Number of its threads that the finding is about.
    pub threads: usize,
}

impl Process {
    /// Returns the limits set by the control groups of one of its threads.
    pub fn limits_of<'a>(&'a self, thread: &'a Thread) -> &'a GroupLimits {
        thread.limits.as_ref().unwrap_or(&self.limits)
    }

    /// Returns whether it runs the same program as this parent: it was forked from it, and kept its name or has a
    /// longer one. Process 1 adopts processes of all programs.
    pub fn is_part_of(&self, parent: &Self) -> bool {
        self.forked && parent.pid == self.parent && parent.pid != 1 && self.name.starts_with(&parent.name)
    }

    /// Returns the number of its threads that were busy, among those whose CPU time was read.
    pub fn busy_threads(&self) -> usize {
        self.threads.iter().filter(|thread| thread.is_busy()).count()
    }

    /// Returns the online CPUs on which any of its threads may run.
    pub fn allowed_cpus(&self, online: &CpuSet) -> CpuSet {
        CpuSet::union_of(self.threads.iter().map(|thread| &thread.cpus)).intersection(online)
    }

    /// Returns the process as it is named in a finding about `threads` of its threads.
    pub fn reference(&self, threads: usize) -> ProcessRef {
        ProcessRef { pid: self.pid, name: self.name.clone(), threads }
    }
}

impl GroupLimits {
    /// Returns the online CPUs of the group; all online CPUs if it has no limit.
    pub fn usable(&self, online: &CpuSet) -> CpuSet {
        self.cpus.as_ref().map_or_else(|| online.clone(), |cpus| cpus.intersection(online))
    }
}

impl Thread {
    /// Returns whether it was busy in the interval.
    pub fn is_busy(&self) -> bool {
        self.busy_cpus.is_some_and(|busy| busy >= super::BUSY)
    }

    /// Returns the CPU to which it is pinned, if it is pinned to a single one.
    pub fn only_cpu(&self, online: &CpuSet) -> Option<CpuId> {
        let cpus = self.cpus.intersection(online);
        cpus.first().filter(|_| cpus.len() == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: all online CPUs were taken as those of the group, and `taskset` was advised with them.
    #[test]
    fn a_group_without_online_cpus_has_none() {
        let limits = GroupLimits { cpus: Some(CpuSet::single(1)), ..GroupLimits::default() };
        assert!(limits.usable(&CpuSet::single(0)).is_empty());
        assert_eq!(GroupLimits::default().usable(&CpuSet::single(0)), CpuSet::single(0));
    }
}

//! Problems in how everything on a machine is pinned.
//!
//! There is one file per kind of finding, whose result depends only on the [`AuditFacts`]. A finding states
//! the problem, the evidence and a fix. Unusual settings alone are not findings: an ordinary server has none.
//!
//! ```text
//! process_scan (reads /proc) -> scan (two readings) -> AuditFacts -> find (pure) -> Finding -> text
//! ```
//!
//! Expensive files (`numa_maps`, `maps`, `environ`) are read only of processes for which they can matter.
#![forbid(unsafe_code)]

mod error;
pub mod go_buildinfo;
pub mod process_scan;
pub mod scan;
pub mod text;

mod facts;
mod interrupts;
mod manycore_pins;
mod memory;
mod offline_or_isolated;
mod outside_cpuset;
mod overlap;
mod oversubscribed;
mod pinned;
mod tenant;
#[cfg(test)]
mod tests;
mod threads;
mod throttling;
mod words;

pub use error::{Error, Result};
pub use facts::{
    AuditFacts, Go, GroupLimits, Interrupt, ManycorePin, Process, ProcessRef, Program, Thread, Throttling,
    UnexaminedKind,
};
pub use pinned::{PinnedTenant, find as find_pinned};
pub use threads::{LIBRARIES, VARIABLES, clearly_more};

use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Value of `schema` in the JSON that this version writes.
pub const AUDIT_SCHEMA: &str = "manycore/audit/1";

/// A thread that used this share of a CPU in the interval is busy; less is housekeeping.
const BUSY: f64 = 0.05;

/// An audit of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// Always [`AUDIT_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = AUDIT_SCHEMA)))]
    pub schema: String,
    /// The problems, the worst first.
    pub findings: Vec<Finding>,
    /// Busy tenants whose pinning is no problem, and why.
    pub pinned: Vec<PinnedTenant>,
    /// What was examined.
    pub examined: Examined,
    /// What could not be examined, by kind.
    pub unexamined: Vec<Unexamined>,
}

/// How much was examined.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Examined {
    /// Number of processes, without kernel threads.
    pub processes: usize,
    /// Number of their threads.
    pub threads: usize,
    /// Length of the interval in which interrupts and CPU time were counted, in seconds.
    pub seconds: f64,
}

/// Something that could not be examined.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unexamined {
    /// The kind.
    pub what: UnexaminedKind,
    /// How many there were.
    pub count: usize,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It costs time now.
    Problem,
    /// It will cost time as soon as the affected tasks have work.
    Risk,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of problem, with its figures.
    #[serde(flatten)]
    pub subject: FindingKind,
    /// How severe it is.
    pub severity: Severity,
    /// One sentence that describes it.
    pub headline: String,
    /// The evidence, one sentence each.
    pub evidence: Vec<String>,
    /// How to fix it, in words.
    pub fix: String,
}

/// The subject of a finding. CPUs are online ones unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FindingKind {
    /// Several tenants are pinned to the same CPUs.
    OverlappingPins {
        /// CPUs to which several tenants are pinned.
        cpus: CpuSet,
        /// The claims of the tenants.
        claims: Vec<Claim>,
    },
    /// Busy threads of one program share a CPU while other CPUs of the program are unused.
    OversubscribedCpu {
        /// The process of the program that forked the others.
        process: ProcessRef,
        /// The processes with these threads.
        processes: Vec<ProcessRef>,
        /// The CPU that the threads share.
        cpu: CpuId,
        /// CPUs that the program could use but does not.
        unused: CpuSet,
    },
    /// Threads may run on CPUs outside of their control group's cpuset.
    OutsideCpuset {
        /// The process.
        process: ProcessRef,
        /// CPUs on which its threads may run.
        cpus: CpuSet,
        /// CPUs of its control group.
        cpuset: CpuSet,
        /// The file that holds the CPUs of the group.
        file: String,
    },
    /// Threads are pinned to CPUs that are offline.
    OfflineCpus {
        /// The processes with such threads.
        processes: Vec<ProcessRef>,
        /// The CPUs of the pin, including offline ones.
        cpus: CpuSet,
        /// The offline CPUs among them.
        offline: CpuSet,
    },
    /// Threads are pinned to several CPUs, some of which are isolated from load balancing.
    IsolatedCpus {
        /// The processes with such threads.
        processes: Vec<ProcessRef>,
        /// The CPUs of the pin.
        cpus: CpuSet,
        /// The isolated CPUs among them.
        isolated: CpuSet,
    },
    /// The memory of a pinned process is on NUMA nodes without any of its CPUs.
    FarMemory {
        /// The process.
        process: ProcessRef,
        /// CPUs on which its threads may run.
        cpus: CpuSet,
        /// NUMA nodes of the CPUs on which its threads may run.
        near: CpuSet,
        /// Memory of the process by NUMA node, in bytes.
        bytes: BTreeMap<u32, u64>,
    },
    /// A runtime runs more workers than its process has CPUs.
    TooManyThreads {
        /// The process.
        process: ProcessRef,
        /// `Erlang`, `JVM`, `Go`, `.NET`, or the library that started the threads.
        runtime: String,
        /// Number of CPUs that the process may use; fractional if a quota limits it.
        allowed_cpus: f64,
        /// The source of the limit: a file, or the affinity mask.
        limit: String,
        /// Number of CPUs that are online.
        online_cpus: usize,
        /// The option that set the number of workers, if any.
        set_by: Option<String>,
    },
    /// A control group was throttled because its quota of CPU time was used up.
    Throttled {
        /// Directory of the group.
        group: String,
        /// Its processes.
        processes: Vec<ProcessRef>,
        /// The quota in CPUs.
        quota_cpus: f64,
        /// Number of periods of the quota in which the group ran.
        periods: u64,
        /// Number of periods of the quota in which the group was throttled.
        throttled: u64,
        /// Throttled time in seconds, summed over its CPUs.
        seconds: f64,
    },
    /// Devices interrupt a CPU to which a busy thread is pinned.
    Interrupts {
        /// The process of the thread.
        process: ProcessRef,
        /// The thread id.
        tid: u32,
        /// The CPU to which it is pinned.
        cpu: CpuId,
        /// Share of the CPU that the thread used, 0 to 1.
        busy_cpus: f64,
        /// Interrupts of all devices on the CPU, per second.
        per_second: f64,
        /// The devices, busiest first.
        devices: Vec<Device>,
    },
}

/// A tenant with the CPUs that it claims.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Claim {
    /// The control group whose CPUs these are; absent if threads are pinned by affinity.
    pub group: Option<String>,
    /// Its processes, by id.
    pub processes: Vec<ProcessRef>,
    /// All CPUs that it claims.
    pub cpus: CpuSet,
    /// CPU time of its processes since their start, in seconds.
    pub cpu_seconds: f64,
    /// CPU time that its processes used in the interval, as a number of CPUs.
    pub busy_cpus: f64,
    /// Number of its threads that were busy in the interval, among those whose CPU time was read.
    pub busy_threads: usize,
    /// The change of manycore that pinned it, as `undo` takes it; absent if another program pinned it.
    pub change: Option<String>,
}

impl Claim {
    /// Returns whether one of these processes is part of it.
    pub fn is_about(&self, pids: &BTreeSet<u32>) -> bool {
        self.processes.iter().any(|process| pids.contains(&process.pid))
    }
}

impl Finding {
    /// Returns whether it is about one of these processes, or about no process at all.
    pub fn is_about(&self, pids: &BTreeSet<u32>) -> bool {
        let processes = self.subject.processes();
        processes.is_empty() || processes.iter().any(|process| pids.contains(&process.pid))
    }
}

impl FindingKind {
    /// Returns the processes that it is about.
    fn processes(&self) -> Vec<&ProcessRef> {
        match self {
            Self::OverlappingPins { claims, .. } => {
                claims.iter().flat_map(|claim| &claim.processes).collect()
            }
            Self::OversubscribedCpu { processes, .. }
            | Self::OfflineCpus { processes, .. }
            | Self::IsolatedCpus { processes, .. }
            | Self::Throttled { processes, .. } => processes.iter().collect(),
            Self::OutsideCpuset { process, .. }
            | Self::FarMemory { process, .. }
            | Self::TooManyThreads { process, .. }
            | Self::Interrupts { process, .. } => vec![process],
        }
    }
}

/// A device that interrupts a CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// Interrupt number.
    pub irq: u32,
    /// Name of the interrupt's handler.
    pub name: String,
    /// Interrupts per second on the CPU.
    pub per_second: f64,
}

/// Returns all problems, the worst first.
pub fn find(facts: &AuditFacts) -> Vec<Finding> {
    let mut findings = overlap::find(facts);
    findings.extend(oversubscribed::find(facts));
    findings.extend(outside_cpuset::find(facts));
    findings.extend(offline_or_isolated::find(facts));
    findings.extend(memory::find(facts));
    findings.extend(threads::find(facts));
    findings.extend(throttling::find(facts));
    findings.extend(interrupts::find(facts));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// Returns [`Severity::Problem`] if the affected tasks are busy.
fn severity(at_work: bool) -> Severity {
    if at_work { Severity::Problem } else { Severity::Risk }
}

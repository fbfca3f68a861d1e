//! What is wrong with how everything on a machine is pinned.
//!
//! One file per kind of finding; each decides on plain [`Facts`] and nothing else. A finding says what is
//! wrong, what it was seen by, and what cures it. What is merely unusual is no finding: on an ordinary server
//! there are none.
#![forbid(unsafe_code)]

pub mod go;
pub mod processes;
pub mod text;

mod crowded;
mod facts;
mod interrupts;
mod memory;
mod outside;
mod overlap;
mod tenant;
#[cfg(test)]
mod tests;
mod threads;
mod throttling;
mod unusable;
mod words;

pub use facts::{Confinement, Facts, Go, Holder, Interrupt, Process, Program, Thread, Throttling, Unseen};
pub use threads::{LIBRARIES, VARIABLES, clearly_more};

use manycore_topology::{CpuId, CpuSet};
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of `schema` in the JSON that this version writes.
pub const AUDIT_SCHEMA: &str = "manycore/audit/1";

/// A thread that used this much of a CPU in the interval is at work: less is housekeeping.
const BUSY: f64 = 0.05;

/// An audit of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Always [`AUDIT_SCHEMA`].
    pub schema: String,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What was looked at.
    pub looked_at: LookedAt,
    /// What could not be looked at, by kinds.
    pub unseen: Vec<NotSeen>,
}

/// How much was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LookedAt {
    /// Processes, without those of the kernel.
    pub processes: usize,
    /// Their threads.
    pub threads: usize,
    /// For how many seconds interrupts and CPU time were counted.
    pub seconds: f64,
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotSeen {
    /// What it is.
    pub what: Unseen,
    /// How often.
    pub count: usize,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It costs time now.
    Harm,
    /// It will cost time as soon as those concerned have work.
    Risk,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is, with its figures.
    #[serde(flatten)]
    pub subject: Subject,
    /// How bad it is.
    pub severity: Severity,
    /// It in one sentence.
    pub headline: String,
    /// What it was seen by.
    pub evidence: Vec<String>,
    /// What to do.
    pub cure: String,
}

/// What a finding is about. CPUs are online ones unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Subject {
    /// Several tenants pin themselves to the same CPUs.
    OverlappingPins {
        /// CPUs that each of them claims.
        cpus: CpuSet,
        /// Who claims them.
        claims: Vec<Claim>,
    },
    /// Busy threads of one process share a CPU while it leaves others unused.
    CrowdedThreads {
        /// The process.
        process: Holder,
        /// The CPU that they share.
        cpu: CpuId,
        /// CPUs that it could use and does not.
        unused: CpuSet,
    },
    /// Threads may run where their control group may not.
    OutsideCpuset {
        /// The process.
        process: Holder,
        /// CPUs that its threads may run on.
        cpus: CpuSet,
        /// CPUs of its group.
        cpuset: CpuSet,
        /// The file that says so.
        file: String,
    },
    /// Pins name CPUs that are offline.
    OfflineCpus {
        /// Who is pinned so.
        processes: Vec<Holder>,
        /// The CPUs of the pin, offline ones too.
        cpus: CpuSet,
        /// Those of them that are offline.
        offline: CpuSet,
    },
    /// Pins to several CPUs hold some between which the scheduler does not balance.
    IsolatedCpus {
        /// Who is pinned so.
        processes: Vec<Holder>,
        /// The CPUs of the pin.
        cpus: CpuSet,
        /// Those of them that are isolated.
        isolated: CpuSet,
    },
    /// The memory of a pinned process is on nodes that none of its CPUs is near to.
    FarMemory {
        /// The process.
        process: Holder,
        /// CPUs that its threads may run on.
        cpus: CpuSet,
        /// Nodes that these are near to.
        near: CpuSet,
        /// Bytes of its memory on each node.
        bytes: BTreeMap<u32, u64>,
    },
    /// A runtime runs more workers than its process has CPUs.
    TooManyThreads {
        /// The process.
        process: Holder,
        /// `Erlang`, `JVM`, `Go`, `.NET`, or the library that has the threads.
        runtime: String,
        /// CPUs that it may use; of a quota, the fraction too.
        allowed_cpus: f64,
        /// What limits it: a file, or the affinity mask.
        limit: String,
        /// CPUs that are online.
        online_cpus: usize,
        /// The option that set the number, where one did.
        set_by: Option<String>,
    },
    /// A control group was stopped because its quota of CPU time was used up.
    Throttled {
        /// The folder of the group.
        group: String,
        /// Its processes.
        processes: Vec<Holder>,
        /// The quota in CPUs.
        quota_cpus: f64,
        /// Periods of the interval in which it ran.
        periods: u64,
        /// Those in which it was stopped.
        throttled: u64,
        /// For how long its CPUs were stopped, added up, in seconds.
        seconds: f64,
    },
    /// Devices interrupt a CPU on which a pinned thread works.
    Interrupts {
        /// The process of the thread.
        process: Holder,
        /// The thread.
        tid: u32,
        /// Its CPU.
        cpu: CpuId,
        /// How much of the CPU it used, 0 to 1.
        busy_cpus: f64,
        /// All interrupts of devices on the CPU, per second.
        per_second: f64,
        /// The devices, busiest first.
        devices: Vec<Device>,
    },
}

/// Who claims CPUs for himself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The control group whose CPUs these are; absent where threads pinned themselves.
    pub group: Option<String>,
    /// Its processes, by their ids.
    pub processes: Vec<Holder>,
    /// All CPUs that it claims.
    pub cpus: CpuSet,
    /// CPU time of these threads or processes since they began, in seconds.
    pub cpu_seconds: f64,
    /// CPUs that they used on average in the interval.
    pub busy_cpus: f64,
}

/// A device that interrupts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// Number of the interrupt.
    pub irq: u32,
    /// Who handles it.
    pub name: String,
    /// How often it came on the CPU, per second.
    pub per_second: f64,
}

/// Everything that is wrong, the worst first.
pub fn find(facts: &Facts) -> Vec<Finding> {
    let mut findings = overlap::find(facts);
    findings.extend(crowded::find(facts));
    findings.extend(outside::find(facts));
    findings.extend(unusable::find(facts));
    findings.extend(memory::find(facts));
    findings.extend(threads::find(facts));
    findings.extend(throttling::find(facts));
    findings.extend(interrupts::find(facts));
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// [`Severity::Harm`] where those concerned are at work.
fn severity(at_work: bool) -> Severity {
    if at_work { Severity::Harm } else { Severity::Risk }
}

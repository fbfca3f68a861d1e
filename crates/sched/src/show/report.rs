//! The result of `sched show`.

use manycore_topology::CpuSet;
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`SchedulerReport::schema`] that this version writes.
pub const SCHEDULER_SCHEMA: &str = "manycore/scheduler/1";

/// The scheduler in force, its domains, and what follows for the threads of one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedulerReport {
    /// Always [`SCHEDULER_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = SCHEDULER_SCHEMA)))]
    pub schema: String,
    /// Whether the files are those of the running system, and not a copy, in which any may be missing.
    pub live: bool,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// The kernel's own scheduler of normal tasks.
    pub kernel_scheduler: KernelScheduler,
    /// Schedulers that are loaded from user space.
    pub sched_ext: SchedExtState,
    /// Whether SMT siblings are online (`/sys/devices/system/cpu/smt/active`); absent if the file is.
    pub smt: Option<bool>,
    /// Number of last-level caches.
    pub last_level_caches: usize,
    /// The scheduling domains.
    pub domains: Domains,
    /// Whether the scheduler sees clusters: groups of cores below a last-level cache.
    pub clusters: Clusters,
    /// What follows for the threads of one process on this machine.
    pub consequences: Vec<Consequence>,
    /// The command that measures whether another scheduler serves better; absent if there is nothing to choose.
    pub next: Option<String>,
    /// What could not be read.
    pub missing: Vec<MissingAnswer>,
}

/// How the kernel divides CPU time between normal tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FairAlgorithm {
    /// Earliest eligible virtual deadline first: Linux 6.6 and newer.
    Eevdf,
    /// The completely fair scheduler: before Linux 6.6.
    Cfs,
    /// Neither features nor the kernel release are known.
    Unknown,
}

/// Whether the kernel chooses CPUs by their energy model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EnergyAware {
    /// It does.
    On,
    /// It could, and is turned off.
    Off,
    /// The machine has no energy model, or its CPUs are equal.
    Impossible,
    /// The kernel has no such setting.
    Absent,
}

/// The kernel's own scheduler of normal tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelScheduler {
    /// How it divides CPU time.
    pub algorithm: FairAlgorithm,
    /// From what the algorithm is known.
    pub evidence: String,
    /// Preemption mode: `none`, `voluntary`, `full`, `lazy`; absent if it cannot be read.
    pub preemption: Option<String>,
    /// Features (`sched/features` of debugfs), and whether each is on; absent if they cannot be read.
    pub features: Option<BTreeMap<String, bool>>,
    /// Tunables by their path below `sched` of debugfs. Those with a unit have it in their name (`_ns`, `_pct`).
    pub tunables: BTreeMap<String, u64>,
    /// Whether threads of one process are gathered in one last-level cache (`sched/llc_balancing/enabled` of debugfs,
    /// since Linux 7.2); absent if the kernel has no such setting or it cannot be read.
    pub cache_aware: Option<bool>,
    /// Whether each session is one group that shares CPU time (`/proc/sys/kernel/sched_autogroup_enabled`); absent if
    /// the kernel has no such setting.
    pub autogroup: Option<bool>,
    /// Whether CPUs are chosen by their energy model (`/proc/sys/kernel/sched_energy_aware`).
    pub energy_aware: EnergyAware,
}

/// The state of `sched_ext` (`/sys/kernel/sched_ext`).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SchedExtState {
    /// `enabled`, `disabled`, another word of the kernel while that changes, or `absent` if the kernel has no
    /// `sched_ext`.
    pub state: String,
    /// Name of the scheduler that is loaded, as its program chose it.
    pub scheduler: Option<String>,
    /// Whether it schedules all normal tasks, and not only those of the policy `SCHED_EXT`.
    pub all_tasks: Option<bool>,
    /// Number of tasks that it refused to schedule.
    pub rejected_tasks: Option<u64>,
    /// Number of schedulers that were loaded since boot.
    pub enable_sequence: Option<u64>,
    /// Events that the kernel counted since the scheduler was loaded, by the kernel's name.
    pub events: BTreeMap<String, u64>,
}

/// From where the domains are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum DomainSource {
    /// Names and CPUs from `/proc/schedstat`.
    Schedstat,
    /// Names from debugfs; CPUs from the topology.
    Debugfs,
    /// Derived from the topology by the kernel's rules.
    Derived,
}

/// The scheduling domains: groups of CPUs between which the kernel moves tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Domains {
    /// From where they are known.
    pub source: DomainSource,
    /// The levels, smallest domains first. A level that would repeat the domains below it does not exist.
    pub levels: Vec<DomainLevel>,
    /// CPUs that are isolated at boot (`/sys/devices/system/cpu/isolated`).
    pub isolated: CpuSet,
    /// Online CPUs that are in no domain: the kernel moves no task to them or away from them.
    pub outside: CpuSet,
}

/// One level of scheduling domains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DomainLevel {
    /// The kernel's name: `SMT`, `CLS`, `MC`, `PKG` or `DIE`, `NODE`, `NUMA`.
    pub name: String,
    /// CPUs of each domain.
    pub groups: Vec<CpuSet>,
    /// The kernel's flags (`SD_ASYM_PACKING`); empty if they cannot be read.
    pub flags: Vec<String>,
}

/// Whether the scheduler sees clusters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clusters {
    /// CPUs of each cluster: several cores, but fewer than their last-level cache has, that share an L2 or another
    /// mid-level resource.
    pub groups: Vec<CpuSet>,
    /// Whether clusters are a scheduling domain.
    pub are_domain: bool,
    /// Why they are, or are not.
    pub reason: String,
}

/// What follows for the threads of one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Consequence {
    /// One sentence or two.
    pub text: String,
    /// The facts from which it follows: files and their contents.
    pub evidence: Vec<String>,
}

/// An answer that is missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingAnswer {
    /// What is not known.
    pub what: String,
    /// Why.
    pub reason: String,
    /// What makes it readable.
    pub remedy: String,
}

//! The facts about the scheduler, as the kernel's files have them.

use super::{
    domains::DebugDomains,
    report::SchedExtState,
    schedstat::{self, CpuDomains},
};
use crate::Result;
use manycore_linux::sched_ext::{self, SchedExt};
use manycore_topology::{Machine, SysTree};
use std::collections::BTreeMap;

/// Where debugfs is mounted.
const DEBUG: &str = "sys/kernel/debug";
const SCHED: &str = "sys/kernel/debug/sched";
const SCHED_EXT: &str = "sys/kernel/sched_ext";

/// Tunables below [`SCHED`], of EEVDF and of CFS.
const TUNABLES: [&str; 12] = [
    "base_slice_ns",
    "latency_ns",
    "min_granularity_ns",
    "wakeup_granularity_ns",
    "migration_cost_ns",
    "nr_migrate",
    "tunable_scaling",
    "llc_balancing/aggr_tolerance",
    "llc_balancing/epoch_affinity_timeout",
    "llc_balancing/epoch_period",
    "llc_balancing/imb_pct",
    "llc_balancing/overaggr_pct",
];

/// Whether the scheduler's files of debugfs can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Debugfs {
    /// They can.
    Readable,
    /// It is not mounted.
    NotMounted,
    /// It is mounted, and this process may not read it.
    Forbidden,
    /// Its directories can be listed, and its files not be read: the kernel is locked down (`kernel_lockdown(7)`).
    LockedDown,
    /// It can be read, and has no files of the scheduler.
    WithoutScheduler,
    /// The copy of another machine does not contain it.
    NotCopied,
}

/// The facts about the scheduler. A field is absent where its file is.
#[derive(Clone, Debug)]
pub struct Facts {
    pub(super) machine: Machine,
    pub(super) is_live: bool,
    pub(super) debugfs: Debugfs,
    pub(super) sched_ext: SchedExtState,
    pub(super) features: Option<String>,
    pub(super) tunables: BTreeMap<String, u64>,
    pub(super) preempt: Option<String>,
    pub(super) cache_aware: Option<String>,
    pub(super) autogroup: Option<String>,
    pub(super) energy_aware: Option<String>,
    /// openEuler's switch of the cluster domain (`/proc/sys/kernel/sched_cluster`).
    pub(super) cluster_switch: Option<String>,
    pub(super) smt: Option<String>,
    pub(super) schedstat: Option<CpuDomains>,
    pub(super) debug_domains: DebugDomains,
}

/// A domain of one CPU in debugfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebugDomain {
    pub name: String,
    pub flags: Vec<String>,
}

/// Reads the facts.
///
/// # Errors
/// A CPU list of the topology cannot be parsed.
pub fn read(tree: &SysTree) -> Result<Facts> {
    let machine = manycore_topology::read(tree)?;
    let tunable = |name: &&str| Some(((*name).to_owned(), tree.number(&format!("{SCHED}/{name}"))?));
    let sysctl = |name: &str| tree.read(&format!("proc/sys/kernel/{name}"));
    Ok(Facts {
        is_live: tree.is_live(),
        debugfs: debugfs(tree),
        sched_ext: sched_ext_state(tree),
        features: features(tree),
        tunables: TUNABLES.iter().filter_map(tunable).collect(),
        preempt: tree.read(&format!("{SCHED}/preempt")),
        cache_aware: tree.read(&format!("{SCHED}/llc_balancing/enabled")),
        autogroup: sysctl("sched_autogroup_enabled"),
        energy_aware: sysctl("sched_energy_aware"),
        cluster_switch: sysctl("sched_cluster"),
        smt: tree.read("sys/devices/system/cpu/smt/active"),
        schedstat: schedstat::read(tree),
        debug_domains: debug_domains(tree, &machine),
        machine,
    })
}

/// Reads the features; the second path is that of kernels before 5.13.
fn features(tree: &SysTree) -> Option<String> {
    tree.read(&format!("{SCHED}/features")).or_else(|| tree.read(&format!("{DEBUG}/sched_features")))
}

fn debugfs(tree: &SysTree) -> Debugfs {
    if features(tree).is_some() {
        return Debugfs::Readable;
    }
    if !tree.is_live() {
        return Debugfs::NotCopied;
    }
    if tree.is_folder(SCHED) {
        return Debugfs::LockedDown;
    }
    let mounts = tree.read("proc/self/mounts").unwrap_or_default();
    let is_mounted = mounts.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some("/sys/kernel/debug") && words.next() == Some("debugfs")
    });
    match is_mounted {
        false => Debugfs::NotMounted,
        true if tree.list(DEBUG).is_empty() => Debugfs::Forbidden,
        true => Debugfs::WithoutScheduler,
    }
}

fn sched_ext_state(tree: &SysTree) -> SchedExtState {
    let (state, scheduler) = match sched_ext::read(tree) {
        SchedExt::Absent => ("absent".to_owned(), None),
        SchedExt::Disabled => ("disabled".to_owned(), None),
        SchedExt::Changing(word) => (word, None),
        SchedExt::Enabled(name) => ("enabled".to_owned(), Some(name)),
    };
    let number = |name: &str| tree.number::<u64>(&format!("{SCHED_EXT}/{name}"));
    let events = tree.read(&format!("{SCHED_EXT}/root/events")).unwrap_or_default();
    let event = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    SchedExtState {
        state,
        scheduler,
        all_tasks: number("switch_all").map(|all| all == 1),
        rejected_tasks: number("nr_rejected"),
        enable_sequence: number("enable_seq"),
        events: events.lines().filter_map(event).collect(),
    }
}

/// Reads the domains of debugfs, which exist while `sched/verbose` is `Y`; before Linux 5.13 those of
/// `/proc/sys/kernel/sched_domain`.
fn debug_domains(tree: &SysTree, machine: &Machine) -> DebugDomains {
    let roots = [format!("{SCHED}/domains"), "proc/sys/kernel/sched_domain".to_owned()];
    let Some(root) = roots.iter().find(|root| tree.is_folder(root)) else { return DebugDomains::new() };
    let of_cpu = |cpu| {
        let folder = format!("{root}/cpu{cpu}");
        let domains = tree.numbered_entries(&folder, "domain");
        let domain = |index| {
            let name = tree.read(&format!("{folder}/domain{index}/name"))?;
            let flags = tree.read(&format!("{folder}/domain{index}/flags")).unwrap_or_default();
            // Before Linux 5.10 the flags are a number whose bits depend on the version.
            let flags = flags.split_whitespace().filter(|flag| flag.starts_with("SD_")).map(str::to_owned);
            Some(DebugDomain { name: name.trim().to_owned(), flags: flags.collect() })
        };
        (cpu, domains.iter().filter_map(domain).collect())
    };
    machine.online.iter().map(of_cpu).collect()
}

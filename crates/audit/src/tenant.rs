//! Claims on CPUs, and which claims belong to the same tenant.
//!
//! A tenant is the first of these that applies to a pinned thread:
//!
//! 1. a container, a virtual machine, a partition, or a service that was pinned as a whole;
//! 2. a tree of processes: a process belongs to its parent's tenant if the parent is pinned to the same CPU, because
//!    it inherited that pin, or if the parent forked it without starting another program, wherever the parent runs.
//!
//! So a pinned shell and all its descendants are one tenant, a server and its workers are one tenant however each of
//! them is pinned, and two programs that one shell has pinned one by one are two.

use super::{
    Claim,
    facts::{AuditFacts, GroupLimits, Process, ProcessRef, Thread},
};
use manycore_topology::{CpuId, CpuSet};
use std::collections::{BTreeMap, BTreeSet};

/// A pinned thread that used a smaller share of its CPU than this is idle.
const IDLE: f64 = 0.01;

/// Parts of the names of control groups of containers and virtual machines: Docker, containerd, CRI-O,
/// Podman, LXC, libvirt, systemd-nspawn.
const CONTAINERS: [&str; 10] = [
    "docker",
    "kubepods",
    "containerd",
    "crio",
    "libpod",
    "podman",
    "lxc",
    "machine.slice",
    "/machine/",
    "libvirt",
];

/// The owner of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tenant {
    /// A control group, by name.
    Group(String),
    /// A process and its descendants, by id of the process.
    Processes(u32),
}

/// How strong a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimKind {
    /// Exclusive: the CPUs are meant for this tenant alone.
    Exclusive,
    /// Shared: several tenants share the CPUs on purpose, but no tenant may have an exclusive claim on them.
    Shared,
}

/// The part of a process that a claim covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub process: &'a Process,
    /// The pinned thread; absent if the whole process is in a group.
    pub thread: Option<&'a Thread>,
}

/// One claim of one tenant.
#[derive(Clone, Debug)]
pub(super) struct CpuClaim<'a> {
    pub tenant: Tenant,
    pub kind: ClaimKind,
    pub cpus: CpuSet,
    pub part: Part<'a>,
}

/// Returns all claims. On a machine with one CPU there are none.
pub(super) fn cpu_claims(facts: &AuditFacts) -> Vec<CpuClaim<'_>> {
    if facts.online.len() < 2 {
        return Vec::new();
    }
    let inheritance = PinInheritance::new(facts);
    let mut cpu_claims = Vec::new();
    for process in &facts.processes {
        cpu_claims.extend(of_group(facts, process, &process.limits, None));
        let helper = is_per_cpu_helper(facts, process);
        for thread in &process.threads {
            let own = thread.limits.as_ref();
            cpu_claims.extend(own.and_then(|own| of_group(facts, process, own, Some(thread))));
            // What manycore has pinned is not a helper: on a machine of two CPUs, few threads cover all CPUs.
            let helper = helper && process.pinned_by.is_none();
            let idle = helper && thread.busy_cpus.is_some_and(|busy| busy < IDLE);
            cpu_claims.extend(inheritance.thread(facts, process, thread).filter(|_| !idle));
        }
    }
    mark_shared_pools(&mut cpu_claims);
    cpu_claims
}

/// Returns the CPUs that no tenant claims and on which the scheduler balances work.
pub(super) fn unclaimed(facts: &AuditFacts, cpu_claims: &[CpuClaim]) -> CpuSet {
    let claimed = CpuSet::union_of(cpu_claims.iter().map(|cpu_claim| &cpu_claim.cpus));
    facts.online.difference(&claimed).difference(&facts.isolated)
}

/// Whether one tenant is part of the other: a process of a group, or a group below another one.
pub(super) fn are_nested(a: &CpuClaim, b: &CpuClaim) -> bool {
    let within = |inner: &CpuClaim, outer: &CpuClaim| match (&inner.tenant, &outer.tenant) {
        (Tenant::Group(inner), Tenant::Group(outer)) => is_below(inner, outer),
        (Tenant::Processes(_), Tenant::Group(outer)) => {
            let Part { process, thread } = inner.part;
            let own = thread.map_or(&process.limits, |thread| process.limits_of(thread));
            is_below(&own.group, outer)
        }
        (inner, outer) => inner == outer,
    };
    within(a, b) || within(b, a)
}

/// Whether group `inner` is `outer` or below it.
fn is_below(inner: &str, outer: &str) -> bool {
    inner
        .strip_prefix(outer.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Turns equal claims into shared ones. Pods of a node share the CPUs that no pod has exclusively, and
/// virtual machines share those of their emulators: equal sets of several CPUs that an orchestrator gave to
/// several tenants are such a pool.
fn mark_shared_pools(cpu_claims: &mut [CpuClaim]) {
    let mut owners: BTreeMap<CpuSet, BTreeSet<Tenant>> = BTreeMap::new();
    let orchestrated = |claim: &CpuClaim| {
        claim.cpus.len() > 1
            && matches!(&claim.tenant, Tenant::Group(name) if name.contains("kubepods") || is_domain(name))
    };
    for claim in cpu_claims.iter().filter(|claim| orchestrated(claim)) {
        owners.entry(claim.cpus.clone()).or_default().insert(claim.tenant.clone());
    }
    for claim in cpu_claims.iter_mut() {
        if orchestrated(claim) && owners.get(&claim.cpus).is_some_and(|owners| owners.len() > 1) {
            claim.kind = ClaimKind::Shared;
        }
    }
}

/// Whether a program has a thread on every CPU (a tracer or monitor), which is not a claim to all CPUs.
fn is_per_cpu_helper(facts: &AuditFacts, process: &Process) -> bool {
    let pins: CpuSet = process.threads.iter().filter_map(|thread| thread.only_cpu(&facts.online)).collect();
    let usable = process.limits.usable(&facts.online);
    pins.len() > 1 && !usable.is_empty() && usable.is_subset(&pins)
}

/// Returns the claim of a container, virtual machine or partition to its CPUs.
fn of_group<'a>(
    facts: &AuditFacts,
    process: &'a Process,
    own: &GroupLimits,
    thread: Option<&'a Thread>,
) -> Option<CpuClaim<'a>> {
    let cpus = own.usable(&facts.online);
    if cpus.is_empty() || cpus == facts.online || !(own.partition || is_container(&own.group)) {
        return None;
    }
    let leaf = own.group.rsplit('/').next().unwrap_or_default();
    let shared = own.group.contains("kubepods")
        && (own.group.contains("burstable") || own.group.contains("besteffort"))
        || is_domain(&own.group) && (leaf == "emulator" || leaf.starts_with("iothread"));
    let kind = if shared { ClaimKind::Shared } else { ClaimKind::Exclusive };
    Some(CpuClaim { tenant: Tenant::Group(owner(own)), kind, cpus, part: Part { process, thread } })
}

/// Which processes inherit pins from which.
struct PinInheritance<'a> {
    by_pid: BTreeMap<u32, &'a Process>,
    /// CPUs of each service, if all its threads have the same.
    services: BTreeMap<&'a str, CpuSet>,
}

impl<'a> PinInheritance<'a> {
    fn new(facts: &'a AuditFacts) -> Self {
        let mut services: BTreeMap<&str, Option<CpuSet>> = BTreeMap::new();
        for process in &facts.processes {
            let Some(service) = &process.limits.service else { continue };
            for thread in &process.threads {
                let cpus = thread.cpus.intersection(&facts.online);
                services
                    .entry(service)
                    .and_modify(|common| *common = common.take().filter(|common| *common == cpus))
                    .or_insert(Some(cpus));
            }
        }
        Self {
            by_pid: facts.processes.iter().map(|process| (process.pid, process)).collect(),
            services: services.into_iter().filter_map(|(name, cpus)| Some((name, cpus?))).collect(),
        }
    }

    /// Returns the claim of a thread to the only CPU on which it may run.
    fn thread(&self, facts: &AuditFacts, process: &'a Process, thread: &'a Thread) -> Option<CpuClaim<'a>> {
        let cpu = thread.only_cpu(&facts.online)?;
        let own = process.limits_of(thread);
        // The group allows only one CPU: the claim is that of the group.
        let tenant = if own.usable(&facts.online).len() == 1 {
            Tenant::Group(owner(own))
        } else {
            self.inherited(&process.limits, cpu)
                .unwrap_or_else(|| Tenant::Processes(self.root(facts, process, cpu)))
        };
        let part = Part { process, thread: Some(thread) };
        Some(CpuClaim { tenant, kind: ClaimKind::Exclusive, cpus: CpuSet::single(cpu), part })
    }

    /// Returns the service if it was pinned as a whole (`CPUAffinity=`), also after its first process has
    /// ended.
    fn inherited(&self, own: &GroupLimits, cpu: CpuId) -> Option<Tenant> {
        let service = own.service.as_ref()?;
        let whole = *self.services.get(service.as_str())? == CpuSet::single(cpu);
        whole.then(|| Tenant::Group(service.clone()))
    }

    /// Returns the process at the root of the tenant to which a process that is pinned to `cpu` belongs.
    fn root(&self, facts: &AuditFacts, process: &Process, cpu: CpuId) -> u32 {
        let pinned = |process: &Process| {
            process.threads.iter().any(|thread| thread.only_cpu(&facts.online) == Some(cpu))
        };
        oldest(&self.by_pid, process, |child, parent| pinned(parent) || child.is_part_of(parent)).pid
    }
}

/// Returns the most distant ancestor in an unbroken line of processes that belong together.
fn oldest<'a>(
    by_pid: &BTreeMap<u32, &'a Process>,
    process: &'a Process,
    together: impl Fn(&Process, &Process) -> bool,
) -> &'a Process {
    let mut oldest = process;
    // The line has at most as many members as there are processes, even if ids were reused during the scan.
    for _ in 0..by_pid.len() {
        match by_pid.get(&oldest.parent).copied() {
            Some(parent) if together(oldest, parent) => oldest = parent,
            _ => break,
        }
    }
    oldest
}

/// Returns the processes of each program: one that was started, and those that it has forked. They are sorted by id.
pub(super) fn programs(facts: &AuditFacts) -> Vec<Vec<&Process>> {
    let by_pid: BTreeMap<u32, &Process> =
        facts.processes.iter().map(|process| (process.pid, process)).collect();
    let mut programs: BTreeMap<u32, Vec<&Process>> = BTreeMap::new();
    for &process in by_pid.values() {
        let root = oldest(&by_pid, process, Process::is_part_of).pid;
        programs.entry(root).or_default().push(process);
    }
    programs.into_values().collect()
}

/// Returns the claim of one tenant, with the CPU time of its threads on the `shared` CPUs.
pub(super) fn claim(cpu_claims: &[CpuClaim], tenant: &Tenant, shared: &CpuSet) -> Claim {
    let of_tenant = || cpu_claims.iter().filter(|cpu_claim| cpu_claim.tenant == *tenant);
    let cpus = CpuSet::union_of(of_tenant().map(|cpu_claim| &cpu_claim.cpus));
    let mut references: BTreeMap<u32, ProcessRef> = BTreeMap::new();
    let (mut cpu_seconds, mut busy_cpus, mut busy_threads, mut change) = (0.0, 0.0, 0, None);
    for cpu_claim in of_tenant().filter(|cpu_claim| cpu_claim.cpus.intersects(shared)) {
        let process = cpu_claim.part.process;
        change = change.or_else(|| process.pinned_by.as_ref().map(|pin| pin.change.clone()));
        let reference = references.entry(process.pid).or_insert_with(|| process.reference(0));
        // A claim of the group covers the whole process, which is counted once.
        let thread = cpu_claim.part.thread.filter(|_| matches!(tenant, Tenant::Processes(_)));
        match thread {
            Some(thread) => {
                reference.threads += 1;
                cpu_seconds += thread.cpu_seconds.unwrap_or(0.0);
                busy_cpus += thread.busy_cpus.unwrap_or(0.0);
                busy_threads += usize::from(thread.is_busy());
            }
            None if reference.threads == 0 => {
                reference.threads = process.threads.len();
                cpu_seconds += process.cpu_seconds;
                busy_cpus += process.busy_cpus.unwrap_or(0.0);
                busy_threads += process.busy_threads();
            }
            None => {}
        }
    }
    let group = match tenant {
        Tenant::Group(name) => Some(name.clone()),
        Tenant::Processes(_) => None,
    };
    let processes = references.into_values().collect();
    Claim { group, processes, cpus, cpu_seconds, busy_cpus, busy_threads, change }
}

/// Whether the group belongs to a container. The service that starts containers does not.
fn is_container(group: &str) -> bool {
    group.strip_suffix(".service").is_none() && CONTAINERS.iter().any(|name| group.contains(name))
}

/// Whether the group belongs to a virtual machine: `machine-qemu\x2d1\x2dname.scope` of systemd, or the older
/// `/machine/qemu-1-name.libvirt-qemu`.
fn is_domain(group: &str) -> bool {
    group.contains("libvirt") || group.contains("machine-qemu")
}

/// Returns the group that represents the tenant: the whole virtual machine, or the outermost group with the
/// same CPUs.
fn owner(own: &GroupLimits) -> String {
    let mut path = String::new();
    for part in own.group.split('/').filter(|part| !part.is_empty()) {
        path = format!("{path}/{part}");
        let machine = part.strip_suffix(".scope").is_some_and(|name| name.starts_with("machine-"));
        if machine || part.ends_with(".libvirt-qemu") || part.ends_with(".libvirt-lxc") {
            return path;
        }
    }
    own.tenant.clone()
}

//! Claims on CPUs, and which claims belong to the same tenant.
//!
//! A tenant is a control group or a tree of processes. A process that inherits a pin shares it on purpose: a
//! pinned shell and all its descendants are one tenant, and so is everything in one container.

use super::facts::{AuditFacts, GroupLimits, Process, Thread};
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
            let idle = helper && thread.busy_cpus.is_some_and(|busy| busy < IDLE);
            cpu_claims.extend(inheritance.thread(facts, process, thread).filter(|_| !idle));
        }
    }
    mark_shared_pools(&mut cpu_claims);
    cpu_claims
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
    pins.len() > 1 && process.limits.usable(&facts.online).is_subset(&pins)
}

/// Returns the claim of a container, virtual machine or partition to its CPUs.
fn of_group<'a>(
    facts: &AuditFacts,
    process: &'a Process,
    own: &GroupLimits,
    thread: Option<&'a Thread>,
) -> Option<CpuClaim<'a>> {
    let cpus = own.usable(&facts.online);
    if cpus == facts.online || !(own.partition || is_container(&own.group)) {
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
                .unwrap_or_else(|| Tenant::Processes(self.oldest_pinned_ancestor(facts, process, cpu)))
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

    /// Returns the most distant ancestor in an unbroken line of processes that are pinned to the same CPU.
    fn oldest_pinned_ancestor(&self, facts: &AuditFacts, process: &Process, cpu: CpuId) -> u32 {
        let (mut pid, mut parent) = (process.pid, process.parent);
        // The line has at most as many members as there are processes, even if ids were reused during the
        // scan.
        for _ in 0..self.by_pid.len() {
            let above = self.by_pid.get(&parent);
            let pinned = above.filter(|above| {
                above.threads.iter().any(|thread| thread.only_cpu(&facts.online) == Some(cpu))
            });
            let Some(above) = pinned else { break };
            (pid, parent) = (above.pid, above.parent);
        }
        pid
    }
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

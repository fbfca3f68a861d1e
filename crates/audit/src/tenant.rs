//! Who claims CPUs for himself, and which claims belong together.
//!
//! A tenant is a control group or a tree of processes. Whoever inherits a pin shares it on purpose: a shell that
//! was pinned and all that it starts are one tenant, and so is everything in one container.

use super::facts::{Confinement, Facts, Process, Thread};
use manycore_topology::{CpuId, CpuSet};
use std::collections::{BTreeMap, BTreeSet};

/// A pinned thread that used less of its CPU than this waits for something.
const IDLE: f64 = 0.01;

/// Parts of the names of groups that a container or a virtual machine stands in: Docker, containerd, CRI-O,
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

/// Who claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tenant {
    /// A control group, by its name.
    Group(String),
    /// A process and what it started, by its id.
    Processes(u32),
}

/// How strong a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// For himself alone.
    Own,
    /// CPUs that several share on purpose; they must not be somebody's own.
    Pool,
}

/// Threads or processes of one process in a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub process: &'a Process,
    /// The thread that is pinned; absent where the whole process is in a group.
    pub thread: Option<&'a Thread>,
}

/// One claim of one tenant.
#[derive(Clone, Debug)]
pub(super) struct Stake<'a> {
    pub tenant: Tenant,
    pub strength: Strength,
    pub cpus: CpuSet,
    pub part: Part<'a>,
}

/// All claims. On a machine of one CPU nobody can claim anything.
pub(super) fn stakes(facts: &Facts) -> Vec<Stake<'_>> {
    if facts.online.len() < 2 {
        return Vec::new();
    }
    let kin = Kin::of(facts);
    let mut stakes = Vec::new();
    for process in &facts.processes {
        stakes.extend(of_group(facts, process, &process.confinement, None));
        let helper = is_per_cpu_helper(facts, process);
        for thread in &process.threads {
            let own = thread.confinement.as_ref();
            stakes.extend(own.and_then(|own| of_group(facts, process, own, Some(thread))));
            let idle = helper && thread.busy_cpus.is_some_and(|busy| busy < IDLE);
            stakes.extend(kin.thread(facts, process, thread).filter(|_| !idle));
        }
    }
    pool_equals(&mut stakes);
    stakes
}

/// Whether one tenant is part of the other: a process of a group, or a group below another.
pub(super) fn related(a: &Stake, b: &Stake) -> bool {
    let within = |inner: &Stake, outer: &Stake| match (&inner.tenant, &outer.tenant) {
        (Tenant::Group(inner), Tenant::Group(outer)) => is_below(inner, outer),
        (Tenant::Processes(_), Tenant::Group(outer)) => {
            let Part { process, thread } = inner.part;
            let own = thread.map_or(&process.confinement, |thread| process.confinement_of(thread));
            is_below(&own.group, outer)
        }
        (inner, outer) => inner == outer,
    };
    within(a, b) || within(b, a)
}

/// Whether group `inner` is `outer` or stands below it.
fn is_below(inner: &str, outer: &str) -> bool {
    inner
        .strip_prefix(outer.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Pods of a node share the CPUs that none of them has for itself, and virtual machines those of their
/// emulators: equal sets of several CPUs that an orchestrator gave to several tenants are such a pool.
fn pool_equals(stakes: &mut [Stake]) {
    let mut owners: BTreeMap<CpuSet, BTreeSet<Tenant>> = BTreeMap::new();
    let orchestrated = |stake: &Stake| {
        stake.cpus.len() > 1
            && matches!(&stake.tenant, Tenant::Group(name) if name.contains("kubepods") || is_domain(name))
    };
    for stake in stakes.iter().filter(|stake| orchestrated(stake)) {
        owners.entry(stake.cpus.clone()).or_default().insert(stake.tenant.clone());
    }
    for stake in stakes.iter_mut() {
        if orchestrated(stake) && owners.get(&stake.cpus).is_some_and(|owners| owners.len() > 1) {
            stake.strength = Strength::Pool;
        }
    }
}

/// Programs that keep a thread on every CPU (tracers, monitors) do not claim all of them.
fn is_per_cpu_helper(facts: &Facts, process: &Process) -> bool {
    let pins: CpuSet = process.threads.iter().filter_map(|thread| thread.only_cpu(&facts.online)).collect();
    pins.len() > 1 && process.confinement.usable(&facts.online).is_subset(&pins)
}

/// The claim of a container, virtual machine or partition on its CPUs.
fn of_group<'a>(
    facts: &Facts,
    process: &'a Process,
    own: &Confinement,
    thread: Option<&'a Thread>,
) -> Option<Stake<'a>> {
    let cpus = own.usable(&facts.online);
    if cpus == facts.online || !(own.partition || is_container(&own.group)) {
        return None;
    }
    let leaf = own.group.rsplit('/').next().unwrap_or_default();
    let shared = own.group.contains("kubepods")
        && (own.group.contains("burstable") || own.group.contains("besteffort"))
        || is_domain(&own.group) && (leaf == "emulator" || leaf.starts_with("iothread"));
    let strength = if shared { Strength::Pool } else { Strength::Own };
    Some(Stake { tenant: Tenant::Group(owner(own)), strength, cpus, part: Part { process, thread } })
}

/// Which processes inherit pins from which.
struct Kin<'a> {
    by_pid: BTreeMap<u32, &'a Process>,
    /// CPUs of each service whose every thread has the same.
    services: BTreeMap<&'a str, CpuSet>,
}

impl<'a> Kin<'a> {
    fn of(facts: &'a Facts) -> Self {
        let mut services: BTreeMap<&str, Option<CpuSet>> = BTreeMap::new();
        for process in &facts.processes {
            let Some(service) = &process.confinement.service else { continue };
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

    /// The claim of a thread on the one CPU that it may run on.
    fn thread(&self, facts: &Facts, process: &'a Process, thread: &'a Thread) -> Option<Stake<'a>> {
        let cpu = thread.only_cpu(&facts.online)?;
        let own = process.confinement_of(thread);
        // What the group leaves is one CPU: then that is the group's doing.
        let tenant = if own.usable(&facts.online).len() == 1 {
            Tenant::Group(owner(own))
        } else {
            self.inherited(&process.confinement, cpu)
                .unwrap_or_else(|| Tenant::Processes(self.eldest(facts, process, cpu)))
        };
        let part = Part { process, thread: Some(thread) };
        Some(Stake { tenant, strength: Strength::Own, cpus: CpuSet::single(cpu), part })
    }

    /// The service that was pinned as a whole (`CPUAffinity=`), also after its first process has ended.
    fn inherited(&self, own: &Confinement, cpu: CpuId) -> Option<Tenant> {
        let service = own.service.as_ref()?;
        let whole = *self.services.get(service.as_str())? == CpuSet::single(cpu);
        whole.then(|| Tenant::Group(service.clone()))
    }

    /// The first of the line of parents that are pinned to the same CPU.
    fn eldest(&self, facts: &Facts, process: &Process, cpu: CpuId) -> u32 {
        let (mut pid, mut parent) = (process.pid, process.parent);
        // A line is as long as there are processes at most, also where ids were given anew while we read.
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

/// The service that starts containers is none.
fn is_container(group: &str) -> bool {
    group.strip_suffix(".service").is_none() && CONTAINERS.iter().any(|name| group.contains(name))
}

/// Whether the group is a virtual machine's: systemd's `machine-qemu\x2d1\x2dname.scope`, or the older
/// `/machine/qemu-1-name.libvirt-qemu`.
fn is_domain(group: &str) -> bool {
    group.contains("libvirt") || group.contains("machine-qemu")
}

/// The group that stands for the tenant: the whole virtual machine, or the outermost with the same CPUs.
fn owner(own: &Confinement) -> String {
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

//! One function for each kind of finding.

use super::{Context, FindingKind, Seen, pins};
use crate::picture::{CpuUse, GroupUse, InterruptUse, Picture, TaskUse, UnitUse};
use manycore_text::{
    command_line::format_command,
    units::{bytes, percent},
};
use manycore_topology::{CpuId, CpuSet, Level};
use std::collections::{BTreeMap, BTreeSet};

/// A thread that ran or waited for a CPU in this share of the time is busy.
const BUSY: f64 = 0.25;
/// A CPU that was used less than this is idle.
const IDLE: f64 = 0.1;
/// Waits for one CPU, in tasks that wait all the time, from which it is crowded.
const CROWDED: f64 = 0.5;
/// Share of the time in which a group is throttled.
const THROTTLED: f64 = 0.05;
/// Share of the memory that is far.
const FAR: f64 = 0.2;
/// Less far memory is no problem, in KiB.
const LEAST_FAR_KIB: u64 = 64 << 10;
/// Share of a CPU that goes to interrupts.
const INTERRUPTS: f64 = 0.2;
/// Seconds that one interrupt of a device takes at most, with the softirqs that it causes: the kernel ends a run of these after 2 ms
/// (`MAX_SOFTIRQ_TIME` in `kernel/softirq.c`).
const LONGEST_INTERRUPT: f64 = 0.002;
/// Share of the machine's CPU time that is stolen.
const STEAL: f64 = 0.1;

pub(super) fn find(context: &Context) -> Vec<Seen> {
    let mut seen = crowded_cpus(context);
    let crowded: BTreeSet<String> = seen.iter().map(|one| one.subject.clone()).collect();
    seen.extend(crowded_clusters(context).into_iter().filter(|one| !crowded.contains(&one.subject)));
    seen.extend(pins::broken(context.picture));
    seen.extend(context.picture.groups.iter().filter_map(throttled));
    seen.extend(far_memory(context));
    seen.extend(interrupts(context.picture));
    seen.extend(steal(context.picture));
    seen
}

fn demand(task: &TaskUse) -> f64 {
    task.run + task.wait.unwrap_or(0.0)
}

fn idle_cpus(picture: &Picture) -> CpuSet {
    let is_idle = |one: &&CpuUse| one.shares.is_some_and(|shares| shares.busy() + shares.steal < IDLE);
    picture.cpus.iter().filter(is_idle).map(|one| one.cpu).collect()
}

fn crowded_cpus(context: &Context) -> Vec<Seen> {
    let idle = idle_cpus(context.picture);
    let mut by_cpu: BTreeMap<CpuId, Vec<&TaskUse>> = BTreeMap::new();
    for task in context.picture.tasks.iter().filter(|task| demand(task) >= BUSY && !task.is_kernel) {
        by_cpu.entry(task.cpu).or_default().push(task);
    }
    let crowded = |(cpu, tasks): (CpuId, Vec<&TaskUse>)| {
        let wait: f64 = tasks.iter().filter_map(|task| task.wait).sum();
        let is_crowded = tasks.len() > 1 && wait >= CROWDED && !idle.is_empty();
        is_crowded.then(|| crowded_cpu(context, cpu, &tasks, wait, &idle))
    };
    by_cpu.into_iter().filter_map(crowded).collect()
}

fn crowded_cpu(context: &Context, cpu: CpuId, tasks: &[&TaskUse], wait: f64, idle: &CpuSet) -> Seen {
    let largest = |tasks: &[&TaskUse]| -> u32 {
        let waits = |task: &&TaskUse| task.wait.unwrap_or(0.0);
        tasks.iter().max_by(|a, b| waits(a).total_cmp(&waits(b))).map_or(0, |task| task.id.pid)
    };
    // The idle CPU that is nearest.
    let near = |set: &CpuSet| {
        let same = set.iter().find(|&other| !context.clusters.are_apart(cpu, other));
        same.or_else(|| set.iter().find(|&other| !context.nodes.are_apart(cpu, other))).or(set.first())
    };
    let may = |task: &&TaskUse| task.allowed.as_ref().is_none_or(|allowed| allowed.intersects(idle));
    let free: Vec<&TaskUse> = tasks.iter().copied().filter(may).collect();
    let (pid, other, why, command) = if free.is_empty() {
        let pid = largest(tasks);
        (pid, near(idle), "to which they are not allowed", format!("manycore pin --pid {pid} --place spread"))
    } else {
        let pid = largest(&free);
        let allowed = free.iter().find(|task| task.id.pid == pid).and_then(|task| task.allowed.as_deref());
        let open = allowed.map_or_else(|| idle.clone(), |allowed| allowed.intersection(idle));
        (pid, near(&open), "which they may use", format!("manycore sched run --with affinity --pid {pid}"))
    };
    let other = other.map_or_else(String::new, |other| other.to_string());
    Seen {
        kind: FindingKind::CrowdedCpu,
        subject: pid.to_string(),
        text: format!(
            "{} busy threads ({}) share CPU {cpu} and wait {} of the time in sum, while CPU {other}, {why}, is idle",
            tasks.len(),
            names(tasks),
            percent(wait),
        ),
        fix: Some(command),
    }
}

/// Returns names of threads with their processes, three of them at most.
fn names(tasks: &[&TaskUse]) -> String {
    let all: BTreeSet<String> =
        tasks.iter().map(|task| format!("{} of process {}", task.name.printable(), task.id.pid)).collect();
    let mut shown: Vec<String> = all.iter().take(3).cloned().collect();
    if all.len() > shown.len() {
        shown.push("...".to_owned());
    }
    shown.join(", ")
}

/// Returns the busy threads of each cluster by process.
fn busy_by_cluster<'a>(context: &Context<'a>) -> BTreeMap<usize, BTreeMap<u32, Vec<&'a TaskUse>>> {
    let mut busy: BTreeMap<usize, BTreeMap<u32, Vec<&TaskUse>>> = BTreeMap::new();
    for task in context.picture.tasks.iter().filter(|task| task.run >= 2.0 * BUSY && !task.is_kernel) {
        if let Some(cluster) = context.clusters.of(task.cpu) {
            busy.entry(cluster).or_default().entry(task.id.pid).or_default().push(task);
        }
    }
    busy
}

fn crowded_clusters(context: &Context) -> Vec<Seen> {
    let clusters: Vec<&UnitUse> =
        context.picture.units_of(Level::Cluster).filter(|unit| unit.known == unit.cpus.len()).collect();
    let is_idle = |unit: &&&UnitUse| unit.shares.busy() + unit.shares.steal < IDLE;
    let mut busy_in = busy_by_cluster(context);
    let mut seen = BTreeMap::new();
    for cluster in clusters.iter().filter(|unit| unit.cpus.len() > 1) {
        let number = cluster.cpus.first().and_then(|cpu| context.clusters.of(cpu));
        let busy = number.and_then(|number| busy_in.remove(&number)).unwrap_or_default();
        for (pid, tasks) in busy.into_iter().filter(|(_, tasks)| tasks.len() > 1) {
            let may = |idle: &&&&UnitUse| {
                let allowed = tasks[0].allowed.as_deref();
                allowed.is_none_or(|allowed| allowed.intersects(&idle.cpus))
            };
            if let Some(idle) = clusters.iter().filter(is_idle).find(|idle| may(&idle)) {
                let text = format!(
                    "{} busy threads of {} (process {pid}) share the cluster of CPUs {}, while that of CPUs {} is idle",
                    tasks.len(),
                    tasks[0].name.printable(),
                    cluster.cpus,
                    idle.cpus,
                );
                let fix = Some(format!("manycore sched run --with affinity --pid {pid}"));
                let kind = FindingKind::CrowdedCluster;
                seen.entry(pid).or_insert(Seen { kind, subject: pid.to_string(), text, fix });
            }
        }
    }
    seen.into_values().collect()
}

fn throttled(group: &GroupUse) -> Option<Seen> {
    let share = group.throttled.filter(|&share| share >= THROTTLED)?;
    let quota = group.now.quota_milli?;
    let path = &group.now.path;
    let (above, unit) = path.rsplit_once('/').unwrap_or_default();
    // Only systemd makes groups in slices. In another group that was delegated to a user, a group can have
    // the name of a unit.
    let mut outer = above.split('/').filter(|part| !part.is_empty());
    let is_in_slices = outer.all(|part| part.strip_suffix(".slice").is_some());
    let is_unit = [".service", ".scope", ".slice"].iter().any(|suffix| unit.ends_with(suffix));
    let is_plain = unit.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@._:-".contains(&byte));
    let is_name = unit.starts_with(|first: char| first.is_ascii_alphanumeric());
    let command = if is_unit && is_plain && is_name && is_in_slices {
        format!("systemctl set-property --runtime {unit} CPUQuota={}%", (quota / 5).max(1))
    } else {
        "manycore audit".to_owned()
    };
    Some(Seen {
        kind: FindingKind::Throttled,
        subject: path.to_string(),
        text: format!(
            "the quota of {} CPUs of the control group {path} stops it for {share:.2} s in each second, summed over CPUs",
            quota as f64 / 1000.0,
        ),
        fix: Some(command),
    })
}

fn far_memory(context: &Context) -> Vec<Seen> {
    let of = |(pid, details): &(u32, crate::details::ProcessDetails)| {
        let kib = details.node_kib.as_ref()?;
        let tasks: Vec<&TaskUse> =
            context.picture.tasks.iter().filter(|task| task.id.pid == *pid && demand(task) >= BUSY).collect();
        let cpus: CpuSet = tasks.iter().map(|task| task.cpu).collect();
        let near = |node: u32| context.node_cpus.iter().any(|(id, own)| *id == node && own.intersects(&cpus));
        let total: u64 = kib.values().sum();
        let far: Vec<(u32, u64)> =
            kib.iter().map(|(&node, &kib)| (node, kib)).filter(|&(node, _)| !near(node)).collect();
        let sum: u64 = far.iter().map(|(_, kib)| kib).sum();
        let share = sum as f64 / total.max(1) as f64;
        let most = far.iter().max_by_key(|(_, kib)| *kib)?.0;
        let is_far = !tasks.is_empty() && share > FAR && sum >= LEAST_FAR_KIB;
        is_far.then(|| Seen {
            kind: FindingKind::FarMemory,
            subject: pid.to_string(),
            text: format!(
                "{} of the memory of {} (process {pid}), {}, is on other nodes than its busy threads, most on node {most}",
                percent(share),
                tasks[0].name.printable(),
                bytes(sum << 10),
            ),
            fix: Some(format!("manycore pin --pid {pid} --place near=node{most}")),
        })
    };
    context.picture.details.iter().filter_map(of).collect()
}

/// Returns the share of a CPU that goes to interrupts, if it is large.
pub(super) fn many_interrupts(one: &CpuUse) -> Option<f64> {
    one.shares.map(|shares| shares.irq + shares.softirq).filter(|&share| share >= INTERRUPTS)
}

fn interrupts(picture: &Picture) -> Vec<Seen> {
    let of = |one: &CpuUse| {
        let share = many_interrupts(one)?;
        let is_pinned = |task: &&TaskUse| {
            let is_alone = |allowed: &std::sync::Arc<CpuSet>| allowed.len() == 1 && allowed.contains(one.cpu);
            demand(task) >= BUSY && task.allowed.as_ref().is_some_and(is_alone) && !task.is_kernel
        };
        let task = picture.tasks.iter().find(is_pinned)?;
        let (which, command) = cause(picture, one.cpu, share);
        Some(Seen {
            kind: FindingKind::Interrupts,
            subject: one.cpu.to_string(),
            text: format!(
                "interrupts take {} of CPU {}, to which {} (process {}) is pinned{which}",
                percent(share),
                one.cpu,
                task.name.printable(),
                task.id.pid,
            ),
            fix: Some(command),
        })
    };
    picture.cpus.iter().filter_map(of).collect()
}

/// Returns what of interrupts takes a share of a CPU, and what to do: the most frequent interrupt of a device is moved, if it can be the
/// cause.
fn cause(picture: &Picture, cpu: CpuId, share: f64) -> (String, String) {
    let rate = |one: &InterruptUse| {
        one.by_cpu.iter().find(|(other, _)| *other == cpu).map_or(0.0, |(_, rate)| *rate)
    };
    let most = |is_one: fn(&str) -> bool| {
        let all = picture.interrupts.iter().filter(|one| is_one(&one.name)).map(|one| (one, rate(one)));
        all.filter(|(_, rate)| *rate > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let is_device = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((one, rate)) = most(is_device).filter(|(_, rate)| rate * LONGEST_INTERRUPT >= share) {
        let which = format!(", most of interrupt {} ({}) with {rate:.0}/s", one.name, one.handlers);
        return (which, place_elsewhere(picture, cpu, &one.handlers));
    }
    let which = most(|name| name.starts_with("softirq ")).map_or_else(String::new, |(one, rate)| {
        format!(", most often {} with {rate:.0}/s, which no interrupt of a device explains", one.name)
    });
    (which, "manycore irq show".to_owned())
}

/// Returns the command that moves an interrupt away from a CPU.
fn place_elsewhere(picture: &Picture, cpu: CpuId, handlers: &str) -> String {
    let others: CpuSet = picture.cpus.iter().map(|one| one.cpu).filter(|&other| other != cpu).collect();
    let name = handlers.split(", ").next().unwrap_or_default();
    let words = ["manycore", "irq", "place", "--device", name, "--cpus", &others.to_string()];
    format_command(&words.map(str::to_owned))
}

fn steal(picture: &Picture) -> Option<Seen> {
    let shares = || picture.cpus.iter().filter_map(|one| one.shares);
    let used: f64 = shares().map(|shares| shares.busy() + shares.steal).sum();
    let stolen: f64 = shares().map(|shares| shares.steal).sum();
    let share = stolen / used.max(f64::MIN_POSITIVE);
    (share >= STEAL && stolen >= STEAL).then(|| Seen {
        kind: FindingKind::Steal,
        subject: String::new(),
        text: format!(
            "the hypervisor gives {} of the CPU time that this machine wants to others ({stolen:.2} CPUs): figures of it are \
             uncertain",
            percent(share),
        ),
        fix: None,
    })
}

//! Planning of `<memorytune>` and `<cachetune>`: the share of the host's memory bandwidth and caches that the
//! guest may use.
//!
//! Both apply to all virtual CPUs. libvirt creates one resctrl group per set of virtual CPUs, so the sets of
//! all such elements must be equal or disjoint.

use super::{Refused, Task, seats::Seats};
use crate::domain::{
    edit::{Edits, Element},
    read::cpu_list,
    wish::{CacheAmount, CacheWish, Dialect, Steps, Tune},
};
use manycore_linux::{
    resctrl::dialect::AMD_UNIT,
    vms::xml::{child, children},
};
use manycore_topology::{CpuSet, machine::Cache};

pub(super) fn tune<'a>(
    task: &Task<'_, 'a>,
    seats: &Seats,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Vec<String>,
) -> Result<(), Refused> {
    let wish = &task.wish.tune;
    if !wish.has_memory() && wish.cache.is_empty() {
        return Ok(());
    }
    let all: CpuSet = (0..seats.pins.len() as u32).collect();
    check_sets(task, &all)?;
    let by_node = wish.cache.is_empty() && is_by_node(task);
    let caches = if by_node { Vec::new() } else { caches(task, seats, notes)? };
    if wish.has_memory() {
        check_memory(wish, task.wish.dialect)?;
        let bandwidth = bandwidth(task, notes)?;
        let ids = if is_by_node(task) {
            nodes(task, &CpuSet::union_of(&seats.pins))
        } else {
            caches.iter().map(|(id, _)| *id).collect()
        };
        let parts = ids.into_iter().map(|id| node(id, bandwidth, wish)).collect();
        put(task, "memorytune", "node", &all, parts, edits);
    }
    if !wish.cache.is_empty() {
        check_kinds(wish)?;
        let mut parts = Vec::new();
        for (id, cache) in &caches {
            for part in &wish.cache {
                parts.push(
                    Element::new("cache")
                        .with("id", id)
                        .with("level", cache.level)
                        .with("type", part.kind)
                        .with("size", kib(part, cache)?)
                        .with("unit", "KiB"),
                );
            }
        }
        put(task, "cachetune", "cache", &all, parts, edits);
    }
    Ok(())
}

/// Checks that existing elements are for the same virtual CPUs.
fn check_sets(task: &Task, all: &CpuSet) -> Result<(), Refused> {
    let Some(tune) = task.xml.at(&["cputune"]) else { return Ok(()) };
    for name in ["memorytune", "cachetune"] {
        for there in children(tune, name) {
            let vcpus = cpu_list(there, "vcpus")?;
            if vcpus != *all {
                return Err(Refused::Demand(format!(
                    "the domain has a <{name}> for virtual CPUs {vcpus}, and the requested one is for {all}: such \
                     sets must be equal or disjoint; remove the existing element first"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses requests that upstream libvirt cannot express.
fn check_memory(wish: &Tune, dialect: Dialect) -> Result<(), Refused> {
    if dialect == Dialect::OpenEuler {
        return Ok(());
    }
    let asked = [
        ("--min-bandwidth", wish.min_bandwidth.is_some()),
        ("--hardlimit", wish.hardlimit.is_some()),
        ("--priority", wish.priority.is_some()),
    ];
    let asked: Vec<&str> = asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name).collect();
    if asked.is_empty() {
        return Ok(());
    }
    Err(Refused::Demand(format!(
        "{}: the <memorytune> of upstream libvirt supports only a bandwidth; use --dialect openeuler for openEuler's \
         libvirt, which supports more",
        asked.join(", ")
    )))
}

/// Checks that the request divides a cache as a whole, or into code and data.
fn check_kinds(wish: &Tune) -> Result<(), Refused> {
    let mut kinds: Vec<&str> = wish.cache.iter().map(|part| part.kind).collect();
    kinds.sort_unstable();
    match kinds.as_slice() {
        ["both" | "code" | "data"] | ["code", "data"] => Ok(()),
        _ => Err(Refused::Demand("--cache: give l3, or l3code and l3data, each once".to_owned())),
    }
}

/// Returns the ids of bandwidth limits for these CPUs: of nodes or of L3 caches.
pub(super) fn bandwidth_ids(task: &Task, cpus: &CpuSet) -> Vec<u32> {
    if is_by_node(task) { nodes(task, cpus) } else { cache_ids(task, cpus) }
}

/// Returns the ids of the L3 caches that these CPUs use.
pub(super) fn cache_ids(task: &Task, cpus: &CpuSet) -> Vec<u32> {
    used_caches(task, cpus).into_iter().map(|(id, _)| id).collect()
}

/// Returns whether memory bandwidth is limited by NUMA node, as in openEuler's kernels on Arm. All other
/// kernels limit it by L3 cache.
fn is_by_node(task: &Task) -> bool {
    let host = task.machine.system.architecture.as_deref().unwrap_or(&task.arch);
    task.wish.dialect == Dialect::OpenEuler && host == "aarch64"
}

/// Returns the host nodes of these CPUs.
fn nodes(task: &Task, cpus: &CpuSet) -> Vec<u32> {
    let used = task.machine.nodes.iter().filter(|node| !node.memory_only && node.cpus.intersects(cpus));
    used.map(|node| node.id).collect()
}

/// Returns the L3 caches that the guest's CPUs use, with the ids that resctrl and libvirt use.
fn caches<'t>(
    task: &'t Task,
    seats: &Seats,
    notes: &mut Vec<String>,
) -> Result<Vec<(u32, &'t Cache)>, Refused> {
    let used = used_caches(task, &CpuSet::union_of(&seats.pins));
    if used.is_empty() {
        return Err(Refused::Demand(
            "the machine has no L3 cache, and memory bandwidth and caches are limited per L3 cache"
                .to_owned(),
        ));
    }
    if used.iter().any(|(_, cache)| cache.id.is_none()) {
        notes.push(
            "the machine's description has no cache ids: memorytune and cachetune count the caches from 0 (compare \
             with virsh capabilities; 'manycore topo --save' on the host saves the ids)"
                .to_owned(),
        );
    }
    Ok(used)
}

/// Returns the L3 caches that these CPUs use, with their ids.
fn used_caches<'t>(task: &'t Task, cpus: &CpuSet) -> Vec<(u32, &'t Cache)> {
    let all = task.machine.caches_at(3).enumerate();
    let used = all.filter(|(_, cache)| cache.cpus.intersects(cpus));
    used.map(|(at, cache)| (cache.id.unwrap_or(at as u32), cache)).collect()
}

/// Returns the bandwidth to write. libvirt passes the number to the kernel unchanged.
fn bandwidth(task: &Task, notes: &mut Vec<String>) -> Result<u64, Refused> {
    let asked = u64::from(task.wish.tune.bandwidth.unwrap_or(100));
    let instead = "leave out --bandwidth, and limit the running domain with 'manycore qos set --domain NAME \
                   --bandwidth 2000MB/s'";
    if is_amd(task) {
        return Err(Refused::Demand(format!(
            "memory bandwidth limits are not in percent on this machine: AMD CPUs take them in steps of {AMD_UNIT} \
             MB/s, so <memorytune> with {asked} would mean {} MB/s of each L3; {instead}",
            asked * AMD_UNIT
        )));
    }
    match task.wish.steps {
        Some(Steps::Megabytes) => Err(Refused::Demand(format!(
            "memory bandwidth limits are not in percent on this machine: resctrl is mounted with mba_MBps, so \
             <memorytune> with {asked} would mean {asked} MB/s; {instead}, or mount resctrl without mba_MBps"
        ))),
        Some(Steps::Percent { least, step }) => {
            let taken = (asked.max(least).div_ceil(step.max(1)) * step.max(1)).min(100);
            if taken != asked {
                notes.push(format!(
                    "bandwidth {asked} % changes to {taken} %: this machine supports steps of {step} % from {least} % \
                     on, and libvirt refuses other values"
                ));
            }
            Ok(taken)
        }
        None => {
            if task.is_x86() && (asked < 10 || asked % 10 != 0) {
                notes.push(format!(
                    "bandwidth {asked} %: libvirt refuses to start a domain with a bandwidth that is not a step of \
                     its host; the steps are 10 % on most hosts (see info/MB/bandwidth_gran and min_bandwidth below \
                     the host's /sys/fs/resctrl)"
                ));
            }
            Ok(asked)
        }
    }
}

/// Returns whether the machine's CPUs limit bandwidth the way AMD CPUs do; Hygon CPUs do as well.
fn is_amd(task: &Task) -> bool {
    let id = task.machine.system.cpu_id.as_deref().unwrap_or_default();
    ["AuthenticAMD/", "HygonGenuine/"].iter().any(|vendor| id.starts_with(vendor))
}

fn node(id: u32, bandwidth: u64, wish: &Tune) -> Element {
    let element = Element::new("node").with("id", id).with("bandwidth", bandwidth);
    let more = [
        ("min_bandwidth", wish.min_bandwidth),
        ("hardlimit", wish.hardlimit.map(u8::from)),
        ("priority", wish.priority),
    ];
    more.into_iter().fold(element, |element, (name, value)| match value {
        Some(value) => element.with(name, value),
        None => element,
    })
}

/// Returns the size of a part in KiB: a whole number of cache ways, as the hardware allocates them.
fn kib(part: &CacheWish, cache: &Cache) -> Result<u64, Refused> {
    let (Some(size), Some(ways @ 1..)) = (cache.size_bytes, cache.ways) else {
        return Err(Refused::Demand(
            "--cache: the size and ways of the machine's L3 cache are unknown".to_owned(),
        ));
    };
    let way = size / u64::from(ways);
    let taken = match part.amount {
        CacheAmount::Percent(percent) => (ways * u32::from(percent) / 100).max(1),
        CacheAmount::Ways(asked) if asked <= ways => asked,
        CacheAmount::Ways(asked) => {
            return Err(Refused::Demand(format!(
                "--cache: {asked} ways were requested, but the L3 cache has {ways}"
            )));
        }
        CacheAmount::Bytes(bytes) if bytes <= size && bytes % way == 0 => return Ok(bytes >> 10),
        CacheAmount::Bytes(bytes) => {
            let below = (bytes / way).clamp(1, u64::from(ways)) * way;
            return Err(Refused::Demand(format!(
                "--cache: {} is not a whole number of ways; the L3 cache has {} ways of {}. The next smaller size is \
                 {} KiB",
                manycore_text::units::bytes(bytes),
                ways,
                manycore_text::units::bytes(way),
                below >> 10
            )));
        }
    };
    Ok((u64::from(taken) * way) >> 10)
}

/// Writes `inner` elements into the element of this name for all virtual CPUs. Other content of it stays.
fn put<'a>(
    task: &Task<'_, 'a>,
    name: &'static str,
    inner: &str,
    all: &CpuSet,
    elements: Vec<Element>,
    edits: &mut Edits<'_, 'a>,
) {
    match task.xml.at(&["cputune"]).and_then(|tune| child(tune, name)) {
        Some(there) => {
            children(there, inner).for_each(|old| edits.remove(old));
            edits.append(there, &elements);
        }
        None => edits.add("cputune", vec![Element::new(name).with("vcpus", all).children(elements)]),
    }
}

//! `<memorytune>` and `<cachetune>`: what of the host's memory bandwidth and caches the guest may take.
//!
//! Both are for all virtual CPUs. libvirt makes one resctrl group for each set of them, so the sets of all such
//! elements must be the same or have nothing in common.

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

/// What is there must be for the same virtual CPUs.
fn check_sets(task: &Task, all: &CpuSet) -> Result<(), Refused> {
    let Some(tune) = task.xml.at(&["cputune"]) else { return Ok(()) };
    for name in ["memorytune", "cachetune"] {
        for there in children(tune, name) {
            let vcpus = cpu_list(there, "vcpus")?;
            if vcpus != *all {
                return Err(Refused::Demand(format!(
                    "the domain has a <{name}> for virtual CPUs {vcpus}, and the one that is asked for is for \
                     {all}: such sets must be equal or have none in common; take it out first"
                )));
            }
        }
    }
    Ok(())
}

/// What upstream libvirt has no word for.
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
        "{}: the <memorytune> of libvirt.org has a bandwidth and nothing else; --dialect openeuler writes more for \
         openEuler's libvirt",
        asked.join(", ")
    )))
}

/// A cache is divided as one, or as code and data.
fn check_kinds(wish: &Tune) -> Result<(), Refused> {
    let mut kinds: Vec<&str> = wish.cache.iter().map(|part| part.kind).collect();
    kinds.sort_unstable();
    match kinds.as_slice() {
        ["both" | "code" | "data"] | ["code", "data"] => Ok(()),
        _ => Err(Refused::Demand("--cache: ask for l3, or for l3code and l3data, each once".to_owned())),
    }
}

/// Ids that limits of memory bandwidth have for these CPUs: of nodes or of L3s.
pub(super) fn bandwidth_ids(task: &Task, cpus: &CpuSet) -> Vec<u32> {
    if is_by_node(task) { nodes(task, cpus) } else { cache_ids(task, cpus) }
}

/// Ids of the L3s that these CPUs use.
pub(super) fn cache_ids(task: &Task, cpus: &CpuSet) -> Vec<u32> {
    used_caches(task, cpus).into_iter().map(|(id, _)| id).collect()
}

/// Whether memory bandwidth is given out by NUMA node, as openEuler's kernels do on Arm; all others do by L3.
fn is_by_node(task: &Task) -> bool {
    let host = task.machine.system.architecture.as_deref().unwrap_or(&task.arch);
    task.wish.dialect == Dialect::OpenEuler && host == "aarch64"
}

/// The host's nodes that these CPUs are on.
fn nodes(task: &Task, cpus: &CpuSet) -> Vec<u32> {
    let used = task.machine.nodes.iter().filter(|node| !node.memory_only && node.cpus.intersects(cpus));
    used.map(|node| node.id).collect()
}

/// The L3s that the guest's CPUs use, by the ids that resctrl and libvirt know them by.
fn caches<'t>(
    task: &'t Task,
    seats: &Seats,
    notes: &mut Vec<String>,
) -> Result<Vec<(u32, &'t Cache)>, Refused> {
    let used = used_caches(task, &CpuSet::union_of(&seats.pins));
    if used.is_empty() {
        return Err(Refused::Demand(
            "the machine shows no L3, and memory bandwidth and caches are given out by L3".to_owned(),
        ));
    }
    if used.iter().any(|(_, cache)| cache.id.is_none()) {
        notes.push(
            "the machine's description has no ids of caches: they are counted from 0 in memorytune and cachetune \
             (virsh capabilities has them; 'manycore topo --save' on the host keeps them)"
                .to_owned(),
        );
    }
    Ok(used)
}

/// The L3s that these CPUs use, with their ids.
fn used_caches<'t>(task: &'t Task, cpus: &CpuSet) -> Vec<(u32, &'t Cache)> {
    let all = task.machine.caches_at(3).enumerate();
    let used = all.filter(|(_, cache)| cache.cpus.intersects(cpus));
    used.map(|(at, cache)| (cache.id.unwrap_or(at as u32), cache)).collect()
}

/// The bandwidth that is written. libvirt hands the number to the kernel as it is.
fn bandwidth(task: &Task, notes: &mut Vec<String>) -> Result<u64, Refused> {
    let asked = u64::from(task.wish.tune.bandwidth.unwrap_or(100));
    let instead = "leave it out, and limit the running domain with 'manycore qos set --domain NAME --bandwidth \
                   2000MB/s'";
    if is_amd(task) {
        return Err(Refused::Demand(format!(
            "limits of memory bandwidth are no percent on this machine: AMD's CPUs take them in steps of {AMD_UNIT} \
             MB/s, so that <memorytune> with {asked} would be {} MB/s of each L3; {instead}",
            asked * AMD_UNIT
        )));
    }
    match task.wish.steps {
        Some(Steps::Megabytes) => Err(Refused::Demand(format!(
            "limits of memory bandwidth are no percent on this machine: resctrl is mounted with mba_MBps, so that \
             <memorytune> with {asked} would be {asked} MB/s; {instead}, or mount it without"
        ))),
        Some(Steps::Percent { least, step }) => {
            let taken = (asked.max(least).div_ceil(step.max(1)) * step.max(1)).min(100);
            if taken != asked {
                notes.push(format!(
                    "bandwidth {asked} % becomes {taken} %: this machine takes steps of {step} % from {least} % on, and \
                     libvirt refuses all others"
                ));
            }
            Ok(taken)
        }
        None => {
            if task.is_x86() && (asked < 10 || asked % 10 != 0) {
                notes.push(format!(
                    "bandwidth {asked} %: libvirt refuses to start a domain with another bandwidth than the steps of \
                     its host, which are 10 % on most (info/MB/bandwidth_gran and min_bandwidth below its \
                     /sys/fs/resctrl)"
                ));
            }
            Ok(asked)
        }
    }
}

/// Whether the machine's CPUs limit bandwidth as AMD's do; Hygon's do as well.
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

/// KiB of a part: whole ways, as the hardware gives them out.
fn kib(part: &CacheWish, cache: &Cache) -> Result<u64, Refused> {
    let (Some(size), Some(ways @ 1..)) = (cache.size_bytes, cache.ways) else {
        return Err(Refused::Demand(
            "--cache: the machine does not tell the size and ways of its L3".to_owned(),
        ));
    };
    let way = size / u64::from(ways);
    let taken = match part.amount {
        CacheAmount::Percent(percent) => (ways * u32::from(percent) / 100).max(1),
        CacheAmount::Ways(asked) if asked <= ways => asked,
        CacheAmount::Ways(asked) => {
            return Err(Refused::Demand(format!(
                "--cache: {asked} ways are asked for, and the L3 has {ways}"
            )));
        }
        CacheAmount::Bytes(bytes) if bytes <= size && bytes % way == 0 => return Ok(bytes >> 10),
        CacheAmount::Bytes(bytes) => {
            let below = (bytes / way).clamp(1, u64::from(ways)) * way;
            return Err(Refused::Demand(format!(
                "--cache: {} is not a number of whole ways of an L3 of {} ways of {}; the next below is {} KiB",
                manycore_text::units::bytes(bytes),
                ways,
                manycore_text::units::bytes(way),
                below >> 10
            )));
        }
    };
    Ok((u64::from(taken) * way) >> 10)
}

/// Writes `inner` elements into the element of this name for all virtual CPUs; what else is in it stays.
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

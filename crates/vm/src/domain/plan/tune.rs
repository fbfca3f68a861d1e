//! Planning of `<memorytune>` and `<cachetune>`: the share of the host's memory bandwidth and caches that the
//! guest may use.
//!
//! Both apply to all virtual CPUs. libvirt creates one resctrl group per set of virtual CPUs, so the sets of
//! all such elements must be equal or disjoint.

use super::{PlanInput, vcpu_placement::DomainPlacement};
use crate::{
    domain::{
        edit::{Edits, Element},
        read::cpu_list,
        request::{BandwidthUnit, CacheShare, CacheShareRequest, LibvirtDialect, TuneRequest},
    },
    error::PlanError,
    remedy::{Notes, Remedy},
};
use manycore_linux::resctrl::dialect::AMD_UNIT;
use manycore_text::{
    units,
    xml::{child, children},
};
use manycore_topology::{CpuSet, machine::Cache};

pub(super) fn tune<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Result<(), PlanError> {
    let request = &input.request.tune;
    if !request.limits_bandwidth() && request.cache.is_empty() {
        return Ok(());
    }
    let all: CpuSet = (0..placement.pins.len() as u32).collect();
    check_vcpu_sets(input, &all)?;
    let by_node = request.cache.is_empty() && is_by_node(input);
    let caches = if by_node { Vec::new() } else { caches(input, placement, notes)? };
    if request.limits_bandwidth() {
        check_memory(request, input.request.dialect)?;
        let bandwidth = bandwidth(input, notes)?;
        let ids = if is_by_node(input) {
            nodes(input, &CpuSet::union_of(&placement.pins))
        } else {
            caches.iter().map(|(id, _)| *id).collect()
        };
        let parts = ids.into_iter().map(|id| node(id, bandwidth, request)).collect();
        write_tune_element(input, "memorytune", "node", &all, parts, edits);
    }
    if !request.cache.is_empty() {
        check_cache_types(request)?;
        let mut parts = Vec::new();
        for (id, cache) in &caches {
            for part in &request.cache {
                parts.push(
                    Element::new("cache")
                        .with("id", id)
                        .with("level", cache.level)
                        .with("type", part.kind)
                        .with("size", share_kib(part, cache)?)
                        .with("unit", "KiB"),
                );
            }
        }
        write_tune_element(input, "cachetune", "cache", &all, parts, edits);
    }
    Ok(())
}

/// Checks that existing elements are for the same virtual CPUs.
fn check_vcpu_sets(input: &PlanInput, all: &CpuSet) -> Result<(), PlanError> {
    let Some(tune) = input.xml.at(&["cputune"]) else { return Ok(()) };
    for name in ["memorytune", "cachetune"] {
        for there in children(tune, name) {
            let vcpus = cpu_list(there, "vcpus")?;
            if vcpus != *all {
                return Err(PlanError::unsupported(format!(
                    "the domain has a <{name}> for virtual CPUs {vcpus}, and the requested one is for {all}: such \
                     sets must be equal or disjoint; remove the existing element first"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses requests that upstream libvirt cannot express.
fn check_memory(request: &TuneRequest, dialect: LibvirtDialect) -> Result<(), PlanError> {
    if dialect == LibvirtDialect::OpenEuler {
        return Ok(());
    }
    let attributes = [
        ("min_bandwidth", request.min_bandwidth.is_some()),
        ("hardlimit", request.hardlimit.is_some()),
        ("priority", request.priority.is_some()),
    ];
    let requested: Vec<&str> =
        attributes.into_iter().filter(|(_, is_requested)| *is_requested).map(|(name, _)| name).collect();
    if requested.is_empty() {
        return Ok(());
    }
    Err(PlanError::resolved_by(
        Remedy::OpenEuler,
        format!(
            "{}: the <memorytune> of upstream libvirt supports only a bandwidth; the libvirt of openEuler supports more",
            requested.join(", ")
        ),
    ))
}

/// Checks that the request divides a cache as a whole, or into code and data.
fn check_cache_types(request: &TuneRequest) -> Result<(), PlanError> {
    let mut kinds: Vec<&str> = request.cache.iter().map(|part| part.kind).collect();
    kinds.sort_unstable();
    match kinds.as_slice() {
        ["both" | "code" | "data"] | ["code", "data"] => Ok(()),
        _ => Err(PlanError::resolved_by(
            Remedy::CacheShare,
            "shares of the cache: give l3, or l3code and l3data, each once",
        )),
    }
}

/// Returns the ids of bandwidth limits for these CPUs: of nodes or of L3 caches.
pub(super) fn bandwidth_ids(input: &PlanInput, cpus: &CpuSet) -> Vec<u32> {
    if is_by_node(input) { nodes(input, cpus) } else { cache_ids(input, cpus) }
}

/// Returns the ids of the L3 caches that these CPUs use.
pub(super) fn cache_ids(input: &PlanInput, cpus: &CpuSet) -> Vec<u32> {
    used_caches(input, cpus).into_iter().map(|(id, _)| id).collect()
}

/// Returns whether memory bandwidth is limited by NUMA node, as in openEuler's kernels on Arm. All other
/// kernels limit it by L3 cache.
fn is_by_node(input: &PlanInput) -> bool {
    let host = input.machine.system.architecture.as_deref().unwrap_or(&input.arch);
    input.request.dialect == LibvirtDialect::OpenEuler && host == "aarch64"
}

/// Returns the host nodes of these CPUs.
fn nodes(input: &PlanInput, cpus: &CpuSet) -> Vec<u32> {
    let used = input.machine.nodes.iter().filter(|node| !node.memory_only && node.cpus.intersects(cpus));
    used.map(|node| node.id).collect()
}

/// Returns the L3 caches that the guest's CPUs use, with the ids that resctrl and libvirt use.
fn caches<'t>(
    input: &'t PlanInput,
    placement: &DomainPlacement,
    notes: &mut Notes,
) -> Result<Vec<(u32, &'t Cache)>, PlanError> {
    let used = used_caches(input, &CpuSet::union_of(&placement.pins));
    if used.is_empty() {
        return Err(PlanError::unsupported(
            "the machine has no L3 cache, and memory bandwidth and caches are limited per L3 cache",
        ));
    }
    if used.iter().any(|(_, cache)| cache.id.is_none()) {
        notes.push_with(
            Remedy::SaveMachine,
            "the machine's description has no cache ids: memorytune and cachetune count the caches from 0 (compare \
             with virsh capabilities), or save the description on the host again, with the ids",
        );
    }
    Ok(used)
}

/// Returns the L3 caches that these CPUs use, with their ids.
fn used_caches<'t>(input: &'t PlanInput, cpus: &CpuSet) -> Vec<(u32, &'t Cache)> {
    let all = input.machine.caches_at(3).enumerate();
    let used = all.filter(|(_, cache)| cache.cpus.intersects(cpus));
    used.map(|(at, cache)| (cache.id.unwrap_or(at as u32), cache)).collect()
}

/// Returns the bandwidth to write. libvirt passes the number to the kernel unchanged.
fn bandwidth(input: &PlanInput, notes: &mut Notes) -> Result<u64, PlanError> {
    let requested = u64::from(input.request.tune.bandwidth.unwrap_or(100));
    let instead = "leave out the bandwidth, and limit the running domain in MB/s";
    if is_amd(input) {
        return Err(PlanError::resolved_by(
            Remedy::RunningLimit,
            format!(
                "memory bandwidth limits are not in percent on this machine: AMD CPUs take them in steps of \
                 {AMD_UNIT} MB/s, so <memorytune> with {requested} would mean {} MB/s of each L3; {instead}",
                requested * AMD_UNIT
            ),
        ));
    }
    match input.request.bandwidth_unit {
        Some(BandwidthUnit::Megabytes) => Err(PlanError::resolved_by(
            Remedy::RunningLimit,
            format!(
                "memory bandwidth limits are not in percent on this machine: resctrl is mounted with mba_MBps, so \
                 <memorytune> with {requested} would mean {requested} MB/s; mount resctrl without mba_MBps, or \
                 {instead}"
            ),
        )),
        Some(BandwidthUnit::Percent { minimum, step }) => {
            let taken = (requested.max(minimum).div_ceil(step.max(1)) * step.max(1)).min(100);
            if taken != requested {
                notes.push(format!(
                    "bandwidth {requested} % changes to {taken} %: this machine supports steps of {step} % from {minimum} % \
                     on, and libvirt refuses other values"
                ));
            }
            Ok(taken)
        }
        None => {
            if input.is_x86() && (requested < 10 || requested % 10 != 0) {
                notes.push(format!(
                    "bandwidth {requested} %: libvirt refuses to start a domain with a bandwidth that is not a step of \
                     its host; the steps are 10 % on most hosts (see info/MB/bandwidth_gran and min_bandwidth below \
                     the host's /sys/fs/resctrl)"
                ));
            }
            Ok(requested)
        }
    }
}

/// Returns whether the machine's CPUs limit bandwidth the way AMD CPUs do; Hygon CPUs do as well.
fn is_amd(input: &PlanInput) -> bool {
    let id = input.machine.system.cpu_id.as_deref().unwrap_or_default();
    ["AuthenticAMD/", "HygonGenuine/"].iter().any(|vendor| id.starts_with(vendor))
}

fn node(id: u32, bandwidth: u64, request: &TuneRequest) -> Element {
    let element = Element::new("node").with("id", id).with("bandwidth", bandwidth);
    let more = [
        ("min_bandwidth", request.min_bandwidth),
        ("hardlimit", request.hardlimit.map(u8::from)),
        ("priority", request.priority),
    ];
    more.into_iter().fold(element, |element, (name, value)| match value {
        Some(value) => element.with(name, value),
        None => element,
    })
}

/// Returns the size of a part in KiB: a whole number of cache ways, as the hardware allocates them.
fn share_kib(part: &CacheShareRequest, cache: &Cache) -> Result<u64, PlanError> {
    let (Some(size), Some(ways @ 1..)) = (cache.size_bytes, cache.ways) else {
        return Err(PlanError::unsupported("the size and ways of the machine's L3 cache are unknown"));
    };
    let way = size / u64::from(ways);
    let taken = match part.amount {
        CacheShare::Percent(percent) => (ways * u32::from(percent) / 100).max(1),
        CacheShare::Ways(requested) if requested <= ways => requested,
        CacheShare::Ways(requested) => {
            return Err(PlanError::resolved_by(
                Remedy::CacheShare,
                format!("{requested} ways were requested, but the L3 cache has {ways}"),
            ));
        }
        CacheShare::Bytes(bytes) if bytes <= size && bytes % way == 0 => return Ok(bytes >> 10),
        CacheShare::Bytes(bytes) => {
            let below = (bytes / way).clamp(1, u64::from(ways)) * way;
            return Err(PlanError::resolved_by(
                Remedy::CacheShare,
                format!(
                    "{} is not a whole number of ways; the L3 cache has {ways} ways of {}. The next smaller size is \
                     {} KiB",
                    units::bytes(bytes),
                    units::bytes(way),
                    below >> 10
                ),
            ));
        }
    };
    Ok((u64::from(taken) * way) >> 10)
}

/// Writes `inner` elements into the element of this name for all virtual CPUs. Other content of it stays.
fn write_tune_element<'a>(
    input: &PlanInput<'_, 'a>,
    name: &'static str,
    inner: &str,
    all: &CpuSet,
    elements: Vec<Element>,
    edits: &mut Edits<'_, 'a>,
) {
    match input.xml.at(&["cputune"]).and_then(|tune| child(tune, name)) {
        Some(there) => {
            children(there, inner).for_each(|old| edits.remove(old));
            edits.append(there, &elements);
        }
        None => edits.add("cputune", vec![Element::new(name).with("vcpus", all).children(elements)]),
    }
}

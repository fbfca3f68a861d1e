//! Comparison of what a guest sees with its plan.

use super::{CheckReport, host::node_of};
use crate::domain::{Cell, ExpanderBus, GuestDevice, GuestHardware, address::PciAddress};
use manycore_text::units;
use manycore_topology::{
    CpuSet, Machine,
    machine::{CacheKind, Device},
};
use std::collections::BTreeMap;

/// PCI base class of bridges. They lead to devices and are not compared.
const BRIDGE: u32 = 0x06;

/// Reports what the machine this program runs in shows, and compares it with the plan if there is one.
pub fn check_guest(plan: Option<&GuestHardware>, machine: &Machine) -> CheckReport {
    let of = match plan {
        Some(plan) if !plan.name.is_empty() => format!("this guest, planned as {}", plan.name),
        _ => "this guest".to_owned(),
    };
    let mut check = CheckReport::new(of);
    let cpus = units::counted(machine.online.len(), "CPU");
    match plan {
        Some(plan) => check.compare(
            "CPUs",
            units::counted(plan.vcpus as usize, "CPU"),
            cpus,
            machine.online.len() == plan.vcpus as usize,
        ),
        None => check.report("CPUs", cpus),
    }
    nodes(plan, machine, &mut check);
    topology(plan, machine, &mut check);
    caches(plan, machine, &mut check);
    devices(plan, machine, &mut check);
    check
}

fn nodes(plan: Option<&GuestHardware>, machine: &Machine, check: &mut CheckReport) {
    let cells: &[Cell] = plan.map_or(&[], |plan| &plan.cells);
    for cell in cells {
        let what = format!("node {}", cell.id);
        // CPUs that may be plugged in later are not present.
        let planned = format!("CPUs {}", cell.vcpus.intersection(&range(plan.map_or(0, |plan| plan.vcpus))));
        let Some(node) = machine.nodes.iter().find(|node| node.id == cell.id) else {
            check.compare(what, planned, "no such node", false);
            continue;
        };
        let shown = |is_without: bool, cpus: String| if is_without { "memory only".to_owned() } else { cpus };
        let planned = shown(cell.vcpus.is_empty(), planned);
        let found = shown(node.memory_only, format!("CPUs {}", node.cpus));
        let matches = planned == found;
        check.compare(&what, planned, found, matches);
        if !cell.distances.is_empty() {
            check.compare_equal(format!("{what}, distances"), &list(&cell.distances), &list(&node.distances));
        }
        if let Some(memory) = node.memory_bytes {
            // The kernel reserves some memory before it counts the rest.
            let planned = cell.memory_kib << 10;
            let matches = memory <= planned && memory >= planned / 2;
            check.compare(format!("{what}, memory"), units::bytes(planned), units::bytes(memory), matches);
        }
    }
    let known: CpuSet = cells.iter().map(|cell| cell.id).collect();
    for node in machine.nodes.iter().filter(|node| !known.contains(node.id)) {
        let memory = node.memory_bytes.map(|bytes| format!(", {}", units::bytes(bytes))).unwrap_or_default();
        let distances = if node.distances.is_empty() {
            String::new()
        } else {
            format!(", distances {}", list(&node.distances))
        };
        let found = format!("CPUs {}{memory}{distances}", node.cpus);
        let what = format!("node {}", node.id);
        match cells {
            [] => check.report(what, found),
            _ => check.compare(what, "no such node", found, false),
        }
    }
}

fn range(count: u32) -> CpuSet {
    (0..count).collect()
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn topology(plan: Option<&GuestHardware>, machine: &Machine, check: &mut CheckReport) {
    let threads = machine.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(1);
    let found = [
        ("packages", machine.packages.len()),
        ("dies", machine.dies.len()),
        ("clusters", machine.clusters.len()),
        ("cores", machine.cores.len()),
        ("threads per core", threads),
    ];
    let planned = plan.and_then(|plan| Some((plan, plan.topology?)));
    // The guest does not see CPUs that may be plugged in later, so its topology is not compared then.
    let whole =
        planned.filter(|(plan, _)| plan.vcpus as usize == plan.pins.len()).map(|(_, topology)| topology);
    let planned = whole.map(|topology| {
        let dies = topology.sockets * topology.dies;
        let clusters = dies * topology.clusters;
        [topology.sockets, dies, clusters, clusters * topology.cores, topology.threads]
            .map(|count| count as usize)
    });
    for (at, (what, found)) in found.into_iter().enumerate() {
        // The kernel reports clusters only if several cores share something, and reports no dies on Arm.
        let is_comparable = match (what, whole) {
            ("clusters", Some(topology)) => topology.clusters > 1,
            ("dies", Some(topology)) => topology.dies > 1,
            (_, topology) => topology.is_some(),
        };
        match planned.filter(|_| is_comparable) {
            Some(planned) => check.compare_equal(what, &planned[at], &found),
            None => check.report(what, found),
        }
    }
}

fn caches(plan: Option<&GuestHardware>, machine: &Machine, check: &mut CheckReport) {
    let mut found: BTreeMap<u32, (usize, Option<u64>)> = BTreeMap::new();
    for cache in machine.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction) {
        let (count, size) = found.entry(cache.level).or_default();
        *count += 1;
        *size = (*size).max(cache.size_bytes);
    }
    let size = |size: Option<u64>| size.map_or_else(|| "of unknown size".to_owned(), units::bytes);
    for planned in plan.map_or(&[][..], |plan| &plan.caches) {
        let what = format!("L{}", planned.level);
        match found.remove(&planned.level) {
            Some((count, there)) => {
                let matches = there == Some(planned.size_bytes);
                check.compare(
                    what,
                    size(Some(planned.size_bytes)),
                    format!("{count} of {}", size(there)),
                    matches,
                );
            }
            None => check.compare(what, size(Some(planned.size_bytes)), "none", false),
        }
    }
    for (level, (count, there)) in found {
        check.report(format!("L{level}"), format!("{count} of {}", size(there)));
    }
    let has_caches = machine.caches.iter().any(|cache| cache.level > 1);
    if plan.is_some_and(|plan| plan.cache_passthrough && plan.caches.is_empty()) {
        check.compare("caches", "as on the host", if has_caches { "present" } else { "none" }, has_caches);
    }
}

/// A device of the guest and its bus number.
type DeviceOnBus<'m> = (&'m Device, u32);

fn devices(plan: Option<&GuestHardware>, machine: &Machine, check: &mut CheckReport) {
    let devices = machine.devices.iter().filter(|device| device.class >> 16 != BRIDGE);
    let mut seen: Vec<DeviceOnBus> = devices
        .map(|device| (device, device.address.parse().map_or(0, |address: PciAddress| address.bus)))
        .collect();
    if let Some(plan) = plan {
        for expander in plan.expanders.iter().filter(|expander| expander.bus.is_some()) {
            check_expander(plan, expander, &mut seen, check);
        }
        let known = |device: &&GuestDevice| {
            device.expander.is_none_or(|index| {
                !plan.expanders.iter().any(|expander| expander.index == index && expander.bus.is_some())
            })
        };
        for device in plan.devices.iter().filter(known) {
            check_device_by_id(device, &mut seen, check);
        }
    }
    for (device, _) in seen {
        check.report(name(device), node_of(device.node));
    }
}

/// Checks an expander with known bus numbers: all devices behind it must be on its node, and there must be as
/// many as planned.
fn check_expander(
    plan: &GuestHardware,
    expander: &ExpanderBus,
    seen: &mut Vec<DeviceOnBus>,
    check: &mut CheckReport,
) {
    let numbers = expander.bus.unwrap_or(0)..=expander.last_bus.unwrap_or(255);
    let planned = plan.devices.iter().filter(|device| device.expander == Some(expander.index)).count();
    let (own, others): (Vec<DeviceOnBus>, Vec<DeviceOnBus>) =
        seen.iter().partition(|(_, bus)| numbers.contains(bus));
    *seen = others;
    for (device, _) in &own {
        check.compare_equal(name(device), &node_of(Some(expander.node)), &node_of(device.node));
    }
    if own.len() < planned {
        check.compare(
            format!("buses {:02x}-{:02x}", numbers.start(), numbers.end()),
            units::counted(planned, "device"),
            units::counted(own.len(), "device"),
            false,
        );
    }
}

/// Checks a device with an unknown bus number: a device of the same vendor and device id must be on its node.
/// If the id is unknown too, any device with a node counts.
fn check_device_by_id(planned: &GuestDevice, seen: &mut Vec<DeviceOnBus>, check: &mut CheckReport) {
    let Some(node) = planned.node else { return };
    let alike = |device: &Device| match &planned.id {
        Some(id) => device.id.as_ref() == Some(id),
        None => device.node.is_some(),
    };
    let right = seen.iter().position(|(device, _)| alike(device) && device.node == Some(node));
    let wrong = || planned.id.as_ref().and_then(|_| seen.iter().position(|(device, _)| alike(device)));
    match right.or_else(wrong) {
        Some(at) => {
            let (device, _) = seen.remove(at);
            check.compare_equal(name(device), &node_of(Some(node)), &node_of(device.node));
        }
        None => {
            let host = planned.host.as_deref().unwrap_or(&planned.kind);
            check.compare(format!("device ({host} on the host)"), node_of(Some(node)), "not found", false);
        }
    }
}

fn name(device: &Device) -> String {
    match device.names.first() {
        Some(name) => format!("{} ({name})", device.address),
        None => format!("{} ({})", device.address, device.class_name),
    }
}

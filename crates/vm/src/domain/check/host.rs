//! Comparison of a running domain with its plan: threads, memory, devices.

use super::CheckReport;
use crate::domain::{Cell, GuestHardware};
use manycore_linux::vms::memory::MemoryMapping;
use manycore_text::units;
use manycore_topology::{CpuSet, Machine};
use std::collections::BTreeMap;

/// State of a running domain as the host shows it.
#[derive(Clone, Debug, Default)]
pub struct RunningDomain {
    /// Process id of the emulator.
    pub pid: u32,
    /// CPUs that the thread of each virtual CPU may run on.
    pub vcpus: BTreeMap<u32, CpuSet>,
    /// CPUs that the emulator's main thread may run on.
    pub emulator: CpuSet,
    /// CPUs that each I/O thread may run on, by the id of the I/O thread.
    pub iothreads: BTreeMap<u32, CpuSet>,
    /// Memory of the process; absent if it cannot be read.
    pub memory: Option<Vec<MemoryMapping>>,
}

/// Compares a running domain with its XML or a plan for it.
pub fn check_running(guest: &GuestHardware, running: &RunningDomain, machine: &Machine) -> CheckReport {
    let mut check = CheckReport::new(format!("domain {} (pid {})", guest.name, running.pid));
    vcpus(guest, running, machine, &mut check);
    threads(guest, running, machine, &mut check);
    memory(guest, running, &mut check);
    devices(guest, machine, &mut check);
    check
}

/// Adds one line for all virtual CPUs that are pinned as planned, and one line for each other.
fn vcpus(guest: &GuestHardware, running: &RunningDomain, machine: &Machine, check: &mut CheckReport) {
    let (mut right, mut free) = (Vec::new(), Vec::new());
    let mut wrong = Vec::new();
    for (vcpu, pin) in (0_u32..).zip(&guest.pins) {
        // A virtual CPU that may be plugged in later has no thread.
        let (found, expected) = (running.vcpus.get(&vcpu), vcpu < guest.vcpus);
        match (pin, found) {
            (Some(pin), Some(found)) if *found == online(pin, machine) => right.push(vcpu),
            (Some(pin), Some(found)) => wrong.push((vcpu, pin.to_string(), format!("CPUs {found}"))),
            (Some(pin), None) if expected => wrong.push((vcpu, pin.to_string(), "no such thread".to_owned())),
            (None, None) if expected => wrong.push((vcpu, String::new(), "no such thread".to_owned())),
            (None, Some(_)) => free.push(vcpu),
            (_, None) => {}
        }
    }
    if !right.is_empty() {
        let right: CpuSet = right.into_iter().collect();
        let what = units::counted(right.len(), "virtual CPU");
        check.compare(what, "pinned", format!("on their CPUs: {}", right.brief()), true);
    }
    for (vcpu, pin, found) in wrong {
        check.compare(format!("virtual CPU {vcpu}"), format!("CPUs {pin}"), found, false);
    }
    if !free.is_empty() {
        let free: CpuSet = free.into_iter().collect();
        check.report(units::counted(free.len(), "virtual CPU"), format!("not pinned: {}", free.brief()));
    }
}

/// Compares the emulator and the I/O threads.
fn threads(guest: &GuestHardware, running: &RunningDomain, machine: &Machine, check: &mut CheckReport) {
    match &guest.emulator {
        Some(pin) => check.compare_equal("emulator", &online(pin, machine), &running.emulator),
        None => check.report("emulator", format!("not pinned: {}", running.emulator.brief())),
    }
    for (id, pin) in &guest.iothreads {
        let what = format!("I/O thread {id}");
        match running.iothreads.get(id) {
            Some(found) => check.compare_equal(what, &online(pin, machine), found),
            None => check.compare(what, pin, "no such thread", false),
        }
    }
}

fn online(pin: &CpuSet, machine: &Machine) -> CpuSet {
    pin.intersection(&machine.online)
}

/// Compares memory that is bound: by its memory policy, or only by control groups.
fn memory(guest: &GuestHardware, running: &RunningDomain, check: &mut CheckReport) {
    let Some(mappings) = &running.memory else {
        if guest.has_bound_memory() {
            check.report("memory", "cannot be read without permission to inspect the process");
        }
        return;
    };
    let (restricted, bound): (Vec<&Cell>, Vec<&Cell>) =
        guest.cells.iter().filter(|cell| !cell.host_nodes.is_empty()).partition(|cell| cell.is_restrictive);
    check_memory_policies(&bound, mappings, check);
    if let Some(least) = restricted.iter().map(|cell| cell.memory_kib << 10).min() {
        let by_size = MappingsBySize {
            least,
            bytes: restricted.iter().map(|cell| cell.memory_kib << 10).sum(),
            nodes: &CpuSet::union_of(restricted.iter().map(|cell| &cell.host_nodes)),
        };
        check_page_locations(memory_name(restricted.iter().map(|cell| cell.id)), &by_size, mappings, check);
    }
    if let Some(memory) = &guest.memory {
        let bytes = memory.kib << 10;
        check_page_locations(
            "memory".to_owned(),
            &MappingsBySize { least: bytes, bytes, nodes: &memory.host_nodes },
            mappings,
            check,
        );
    }
}

/// Returns `memory of cells 0-1`.
fn memory_name(cells: impl Iterator<Item = u32>) -> String {
    let cells: CpuSet = cells.collect();
    format!("memory of cell{} {cells}", if cells.len() == 1 { "" } else { "s" })
}

/// Checks for each set of host nodes that as much memory has this policy as the guest's nodes need, and that
/// all its pages are on these nodes.
fn check_memory_policies(cells: &[&Cell], mappings: &[MemoryMapping], check: &mut CheckReport) {
    let mut wanted: BTreeMap<&CpuSet, (u64, Vec<u32>)> = BTreeMap::new();
    for cell in cells {
        let (bytes, cells) = wanted.entry(&cell.host_nodes).or_default();
        *bytes = bytes.saturating_add(cell.memory_kib << 10);
        cells.push(cell.id);
    }
    for (nodes, (bytes, cells)) in wanted {
        let own: Vec<&MemoryMapping> =
            mappings.iter().filter(|mapping| mapping.policy_nodes.as_ref() == Some(nodes)).collect();
        let bound: u64 = own.iter().map(|mapping| mapping.bytes).sum();
        let planned = format!("{} from node {nodes}", units::bytes(bytes));
        let what = memory_name(cells.into_iter());
        if bound < bytes {
            let found = format!("{} bound to node {nodes}", units::bytes(bound));
            check.compare(&what, &planned, found, false);
        }
        let (found, is_there) = pages_by_node(&own, nodes);
        if !is_there || bound >= bytes {
            check.compare(what, planned, found, is_there);
        }
    }
}

/// Memory mappings that are identified by their size.
struct MappingsBySize<'a> {
    /// Bytes of the smallest mapping.
    least: u64,
    /// Bytes of all mappings.
    bytes: u64,
    /// Nodes on which the pages may be.
    nodes: &'a CpuSet,
}

/// Only the control group restricts where this memory comes from, so the location of its pages is checked.
fn check_page_locations(
    what: String,
    by_size: &MappingsBySize,
    mappings: &[MemoryMapping],
    check: &mut CheckReport,
) {
    let own: Vec<&MemoryMapping> = mappings.iter().filter(|mapping| mapping.bytes >= by_size.least).collect();
    let planned = format!("{} from node {}", units::bytes(by_size.bytes), by_size.nodes);
    let (found, is_there) = pages_by_node(&own, by_size.nodes);
    if own.is_empty() {
        check.report(
            what,
            format!("no mapping of the process is as large as {}", units::bytes(by_size.least)),
        );
    } else {
        check.compare(what, planned, found, is_there);
    }
}

/// Returns `2 GiB on node 0, 3 MiB on node 1`, and whether all of it is on `nodes`.
fn pages_by_node(mappings: &[&MemoryMapping], nodes: &CpuSet) -> (String, bool) {
    let mut there = BTreeMap::new();
    for (node, held) in mappings.iter().flat_map(|mapping| &mapping.bytes_by_node) {
        *there.entry(*node).or_insert(0_u64) += held;
    }
    let is_there = there.iter().all(|(node, held)| nodes.contains(*node) || *held == 0);
    let spread: Vec<String> =
        there.iter().map(|(node, held)| format!("{} on node {node}", units::bytes(*held))).collect();
    let found = if spread.is_empty() { "nothing used yet".to_owned() } else { spread.join(", ") };
    (found, is_there)
}

/// Checks that each passed-through device is on the host node that its guest node stands for.
fn devices(guest: &GuestHardware, machine: &Machine, check: &mut CheckReport) {
    for device in &guest.devices {
        let Some(host) = device.host.as_deref() else { continue };
        let what = format!("device {host}");
        let known = machine.device(host);
        let cell = device.node.and_then(|node| guest.cells.iter().find(|cell| cell.id == node));
        let bound = cell.filter(|cell| !cell.host_nodes.is_empty());
        let planned = bound.map(|cell| format!("node {} (the guest's node {})", cell.host_nodes, cell.id));
        match (known, cell, planned) {
            (None, _, planned) => {
                check.compare(what, planned.unwrap_or_default(), "not present on this machine", false);
            }
            (Some(known), Some(cell), Some(planned)) => {
                let matches = known.node.is_some_and(|node| cell.host_nodes.contains(node));
                check.compare(what, planned, node_of(known.node), matches);
            }
            (Some(known), Some(cell), None) => {
                let found = format!(
                    "{}; the guest's node {}, whose memory may be anywhere",
                    node_of(known.node),
                    cell.id
                );
                check.report(what, found);
            }
            (Some(known), None, _) => {
                check.report(what, format!("{}; the guest gets no node for it", node_of(known.node)));
            }
        }
    }
}

pub(super) fn node_of(node: Option<u32>) -> String {
    node.map_or_else(|| "no node".to_owned(), |node| format!("node {node}"))
}

//! Checks of plans against machines that match them and machines that do not.

use super::*;
use crate::domain::{
    GuestHardware,
    tests::{domain, hostdev, machine, planned},
};
use manycore_linux::vms::memory::MemoryMapping;
use manycore_topology::{CpuSet, Machine, machine::Device};
use std::collections::BTreeMap;

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn guest_plan() -> GuestHardware {
    planned(&domain(16, &(hostdev(1) + &hostdev(0))), &machine(2, 1, 2, 2, 2), "close").guest
}

/// Returns the state of a domain that runs as planned.
fn running(guest: &GuestHardware) -> RunningDomain {
    RunningDomain {
        pid: 7,
        vcpus: (0..).zip(guest.pins.iter().flatten().cloned()).collect(),
        emulator: guest.emulator.clone().unwrap(),
        iothreads: BTreeMap::new(),
        memory: Some(
            guest
                .cells
                .iter()
                .map(|cell| MemoryMapping {
                    bytes: cell.memory_kib << 10,
                    policy_nodes: Some(cell.host_nodes.clone()),
                    bytes_by_node: BTreeMap::from([(cell.host_nodes.first().unwrap(), 4096)]),
                })
                .collect(),
        ),
    }
}

fn mismatches(check: &CheckReport) -> Vec<String> {
    let wrong = check.properties.iter().filter(|line| line.matches == Some(false));
    wrong.map(|line| format!("{}: {} / {}", line.name, line.planned, line.found)).collect()
}

#[test]
fn domain_running_as_planned_passes() {
    let (guest, host) = (guest_plan(), machine(2, 1, 2, 2, 2));
    let check = check_running(&guest, &running(&guest), &host);
    assert!(check.all_match(), "{:?}", mismatches(&check));
    assert_eq!(check.planned_and_matching(), (6, 6), "CPUs, emulator, memory of two cells, two devices");
}

#[test]
fn wrong_locations_are_reported() {
    let (guest, mut host) = (guest_plan(), machine(2, 1, 2, 2, 2));
    let mut seen = running(&guest);
    seen.vcpus.insert(3, set("0-15"));
    seen.vcpus.remove(&5);
    seen.emulator = set("2");
    let memory = seen.memory.as_mut().unwrap();
    memory[0].bytes_by_node = BTreeMap::from([(0, 1 << 30), (1, 3 << 20)]);
    memory[1].policy_nodes = None;
    host.devices[1].node = Some(0);
    let differences = mismatches(&check_running(&guest, &seen, &host));
    assert_eq!(
        differences,
        [
            "virtual CPU 3: CPUs 3 / CPUs 0-15",
            "virtual CPU 5: CPUs 5 / no such thread",
            "emulator: 0-15 / 2",
            "memory of cell 0: 4 GiB from node 0 / 1 GiB on node 0, 3 MiB on node 1",
            "memory of cell 1: 4 GiB from node 1 / 0 B bound to node 1",
            "device 0000:11:00.0: node 1 (the guest's node 1) / node 0",
        ]
    );
}

/// Returns a domain with two guest nodes, and its memory by node in the state in which QEMU sets no policy.
fn restrictive(on: [[u64; 2]; 2]) -> (GuestHardware, RunningDomain) {
    let tuned = "  <numatune>\n    <memory mode='restrictive' nodeset='0'/>\n  </numatune>\n  <os>";
    let text = domain(16, "").replace("  <os>", tuned);
    let guest = planned(&text, &machine(2, 1, 2, 2, 2), "close").guest;
    let mut seen = running(&guest);
    for (mapping, on) in seen.memory.as_mut().unwrap().iter_mut().zip(on) {
        mapping.policy_nodes = None;
        mapping.bytes_by_node = (0..).zip(on).filter(|(_, held)| *held > 0).collect();
    }
    // Other memory of the process may be on any node.
    let other =
        MemoryMapping { bytes: 1 << 20, policy_nodes: None, bytes_by_node: BTreeMap::from([(7, 4096)]) };
    seen.memory.as_mut().unwrap().push(other);
    (guest, seen)
}

#[test]
fn restrictive_memory_is_checked_by_pages() {
    let host = machine(2, 1, 2, 2, 2);
    let (guest, seen) = restrictive([[1 << 30, 1 << 20], [0, 1 << 30]]);
    assert!(guest.cells.iter().all(|cell| cell.is_restrictive));
    let check = check_running(&guest, &seen, &host);
    assert!(check.all_match(), "{:?}", mismatches(&check));
    assert!(
        check.properties.iter().any(|line| line.name == "memory of cells 0-1" && line.matches == Some(true))
    );
    let (mut guest, seen) = restrictive([[1 << 30, 0], [0, 1 << 30]]);
    guest.cells.iter_mut().for_each(|cell| cell.host_nodes = set("0"));
    let differences = mismatches(&check_running(&guest, &seen, &host));
    assert_eq!(differences, ["memory of cells 0-1: 8 GiB from node 0 / 1 GiB on node 0, 1 GiB on node 1"]);
}

#[test]
fn devices_on_unbound_nodes_are_reported_only() {
    let numa = "  <cpu>\n    <numa>\n      <cell id='0' cpus='0-15' memory='8' unit='GiB'/>\n    </numa>\n  </cpu>\n  <os>";
    let placed = hostdev(1).replace(
        "    </hostdev>",
        "<address type='pci' domain='0' bus='1' slot='0' function='0'/></hostdev><controller type='pci' index='1' \
         model='pcie-expander-bus'><target busNr='200'><node>0</node></target></controller>",
    );
    let guest: GuestHardware = domain(16, &placed).replace("  <os>", numa).parse().unwrap();
    let check = check_running(&guest, &running_freely(), &machine(2, 1, 2, 2, 2));
    assert!(check.all_match(), "{:?}", mismatches(&check));
    let device = check.properties.iter().find(|line| line.name.starts_with("device")).unwrap();
    assert_eq!(device.found, "node 1; the guest's node 0, whose memory may be anywhere");
}

/// Returns the state of sixteen virtual CPUs that are not pinned.
fn running_freely() -> RunningDomain {
    RunningDomain {
        vcpus: (0..16).map(|vcpu| (vcpu, set("0-15"))).collect(),
        memory: Some(Vec::new()),
        ..RunningDomain::default()
    }
}

#[test]
fn memory_without_guest_nodes_is_checked() {
    let tuned = "  <numatune>\n    <memory mode='strict' nodeset='1'/>\n  </numatune>\n  <os>";
    let guest: GuestHardware = domain(16, "").replace("  <os>", tuned).parse().unwrap();
    for (bound, on, right) in [(None, 1, true), (Some(set("1")), 1, true), (None, 0, false)] {
        let own = MemoryMapping {
            bytes: 8 << 30,
            policy_nodes: bound,
            bytes_by_node: BTreeMap::from([(on, 4096)]),
        };
        let seen = RunningDomain { memory: Some(vec![own]), ..running_freely() };
        let check = check_running(&guest, &seen, &machine(2, 1, 2, 2, 2));
        let line = check.properties.iter().find(|line| line.name == "memory").unwrap();
        assert_eq!((line.planned.as_str(), line.matches), ("8 GiB from node 1", Some(right)), "{line:?}");
    }
    let unread = RunningDomain { memory: None, ..running_freely() };
    let check = check_running(&guest, &unread, &machine(2, 1, 2, 2, 2));
    assert!(
        check.properties.iter().any(|line| line.found.contains("cannot be read")),
        "{:?}",
        check.properties
    );
}

#[test]
fn hotpluggable_vcpus_need_no_thread() {
    let (mut guest, host) = (guest_plan(), machine(2, 1, 2, 2, 2));
    let mut seen = running(&guest);
    guest.vcpus = 8;
    seen.vcpus.retain(|vcpu, _| *vcpu < 8);
    assert!(check_running(&guest, &seen, &host).all_match());
}

/// Returns the machine that the guest should see: that of the host, with the devices behind the expanders.
fn inside(guest: &GuestHardware) -> Machine {
    let mut inside = machine(2, 1, 2, 2, 2);
    inside.nodes.iter_mut().for_each(|node| node.memory_bytes = Some(4 << 30));
    inside.devices = guest
        .expanders
        .iter()
        .map(|expander| Device {
            address: format!("0000:{:02x}:00.0", expander.bus.unwrap() + 1),
            class: 0x02_0000,
            class_name: "Ethernet controller".to_owned(),
            node: Some(expander.node),
            ..Device::default()
        })
        .collect();
    let bridge = Device { address: "0000:00:1f.0".to_owned(), class: 0x06_0100, ..Device::default() };
    inside.devices.push(bridge);
    inside
}

#[test]
fn guest_matching_its_plan_passes() {
    let guest = guest_plan();
    let check = check_guest(Some(&guest), &inside(&guest));
    assert!(check.all_match(), "{:?}", mismatches(&check));
}

#[test]
fn guest_differences_are_reported() {
    let guest = guest_plan();
    let mut inside = inside(&guest);
    inside.nodes[1].distances = vec![20, 10];
    inside.nodes[0].memory_bytes = Some(1 << 20);
    inside.packages.truncate(1);
    inside.caches.iter_mut().for_each(|cache| cache.size_bytes = Some(16 << 20));
    inside.devices[0].node = None;
    inside.devices.remove(1);
    let differences = mismatches(&check_guest(Some(&guest), &inside));
    let bus = |index: usize| guest.expanders[index].bus.unwrap();
    assert_eq!(
        differences,
        [
            "node 0, memory: 4 GiB / 1 MiB".to_owned(),
            "node 1, distances: 32 10 / 20 10".to_owned(),
            "packages: 2 / 1".to_owned(),
            "L3: 32 MiB / 2 of 16 MiB".to_owned(),
            format!(
                "0000:{:02x}:00.0 (Ethernet controller): node {} / no node",
                bus(0) + 1,
                guest.expanders[0].node
            ),
            format!(
                "buses {:02x}-{:02x}: 1 device / 0 devices",
                bus(1),
                guest.expanders[1].last_bus.unwrap()
            ),
        ]
    );
}

#[test]
fn without_a_plan_values_are_reported_only() {
    let check = check_guest(None, &machine(2, 1, 2, 2, 2));
    assert!(check.all_match());
    assert_eq!(check.planned_and_matching(), (0, 0));
    assert!(check.properties.iter().any(|line| line.found.contains("distances 10 32")));
}

#[test]
fn a_device_without_a_known_bus_is_found_by_its_vendor() {
    let mut guest = guest_plan();
    guest.expanders.clear();
    guest.devices.iter_mut().for_each(|device| device.expander = None);
    let host = machine(2, 1, 2, 2, 2);
    assert!(mismatches(&check_guest(Some(&guest), &host)).iter().all(|line| !line.contains("0000:1")));
    let mut moved = host.clone();
    moved.devices[1].node = Some(0);
    let differences = mismatches(&check_guest(Some(&guest), &moved));
    assert!(differences.iter().any(|line| line == "0000:11:00.0 (): node 1 / node 0"), "{differences:?}");
    moved.devices.remove(1);
    let differences = mismatches(&check_guest(Some(&guest), &moved));
    assert!(
        differences.iter().any(|line| line.contains("(0000:11:00.0 on the host): node 1 / not found")),
        "{differences:?}"
    );
}

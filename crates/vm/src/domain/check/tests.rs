//! Checks of plans against machines that match them and machines that do not.

use super::*;
use crate::domain::{
    Guest,
    tests::{domain, hostdev, machine, planned},
};
use manycore_linux::vms::memory::Mapping;
use manycore_topology::{CpuSet, Machine, machine::Device};
use std::collections::BTreeMap;

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn guest_plan() -> Guest {
    planned(&domain(16, &(hostdev(1) + &hostdev(0))), &machine(2, 1, 2, 2, 2), "close").guest
}

/// Returns the state of a domain that runs as planned.
fn running(guest: &Guest) -> Running {
    Running {
        pid: 7,
        vcpus: (0..).zip(guest.pins.iter().flatten().cloned()).collect(),
        emulator: guest.emulator.clone().unwrap(),
        iothreads: BTreeMap::new(),
        memory: Some(
            guest
                .cells
                .iter()
                .map(|cell| Mapping {
                    bytes: cell.memory_kib << 10,
                    bound: Some(cell.host_nodes.clone()),
                    on: BTreeMap::from([(cell.host_nodes.first().unwrap(), 4096)]),
                })
                .collect(),
        ),
    }
}

fn wrong(check: &Check) -> Vec<String> {
    let wrong = check.lines.iter().filter(|line| line.holds == Some(false));
    wrong.map(|line| format!("{}: {} / {}", line.what, line.planned, line.found)).collect()
}

#[test]
fn a_domain_that_runs_as_planned_holds() {
    let (guest, host) = (guest_plan(), machine(2, 1, 2, 2, 2));
    let check = of_running(&guest, &running(&guest), &host);
    assert!(check.holds(), "{:?}", wrong(&check));
    assert_eq!(check.count(), (6, 6), "CPUs, emulator, memory of two cells, two devices");
}

#[test]
fn what_is_elsewhere_is_told() {
    let (guest, mut host) = (guest_plan(), machine(2, 1, 2, 2, 2));
    let mut seen = running(&guest);
    seen.vcpus.insert(3, set("0-15"));
    seen.vcpus.remove(&5);
    seen.emulator = set("2");
    let memory = seen.memory.as_mut().unwrap();
    memory[0].on = BTreeMap::from([(0, 1 << 30), (1, 3 << 20)]);
    memory[1].bound = None;
    host.devices[1].node = Some(0);
    let said = wrong(&of_running(&guest, &seen, &host));
    assert_eq!(
        said,
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
fn restrictive(on: [[u64; 2]; 2]) -> (Guest, Running) {
    let tuned = "  <numatune>\n    <memory mode='restrictive' nodeset='0'/>\n  </numatune>\n  <os>";
    let text = domain(16, "").replace("  <os>", tuned);
    let guest = planned(&text, &machine(2, 1, 2, 2, 2), "close").guest;
    let mut seen = running(&guest);
    for (mapping, on) in seen.memory.as_mut().unwrap().iter_mut().zip(on) {
        mapping.bound = None;
        mapping.on = (0..).zip(on).filter(|(_, held)| *held > 0).collect();
    }
    // Other memory of the process may be on any node.
    let other = Mapping { bytes: 1 << 20, bound: None, on: BTreeMap::from([(7, 4096)]) };
    seen.memory.as_mut().unwrap().push(other);
    (guest, seen)
}

#[test]
fn a_restrictive_domain_is_judged_by_its_pages() {
    let host = machine(2, 1, 2, 2, 2);
    let (guest, seen) = restrictive([[1 << 30, 1 << 20], [0, 1 << 30]]);
    assert!(guest.cells.iter().all(|cell| cell.is_restrictive));
    let check = of_running(&guest, &seen, &host);
    assert!(check.holds(), "{:?}", wrong(&check));
    assert!(check.lines.iter().any(|line| line.what == "memory of cells 0-1" && line.holds == Some(true)));
    let (mut guest, seen) = restrictive([[1 << 30, 0], [0, 1 << 30]]);
    guest.cells.iter_mut().for_each(|cell| cell.host_nodes = set("0"));
    let said = wrong(&of_running(&guest, &seen, &host));
    assert_eq!(said, ["memory of cells 0-1: 8 GiB from node 0 / 1 GiB on node 0, 1 GiB on node 1"]);
}

#[test]
fn devices_on_a_node_whose_memory_is_not_bound_are_told_and_not_judged() {
    let numa = "  <cpu>\n    <numa>\n      <cell id='0' cpus='0-15' memory='8' unit='GiB'/>\n    </numa>\n  </cpu>\n  <os>";
    let placed = hostdev(1).replace(
        "    </hostdev>",
        "<address type='pci' domain='0' bus='1' slot='0' function='0'/></hostdev><controller type='pci' index='1' \
         model='pcie-expander-bus'><target busNr='200'><node>0</node></target></controller>",
    );
    let guest: Guest = domain(16, &placed).replace("  <os>", numa).parse().unwrap();
    let check = of_running(&guest, &running_freely(), &machine(2, 1, 2, 2, 2));
    assert!(check.holds(), "{:?}", wrong(&check));
    let told = check.lines.iter().find(|line| line.what.starts_with("device")).unwrap();
    assert_eq!(told.found, "node 1; the guest's node 0, whose memory may be anywhere");
}

/// Returns the state of sixteen virtual CPUs that are not pinned.
fn running_freely() -> Running {
    Running {
        vcpus: (0..16).map(|vcpu| (vcpu, set("0-15"))).collect(),
        memory: Some(Vec::new()),
        ..Running::default()
    }
}

#[test]
fn memory_of_a_guest_without_nodes_is_judged() {
    let tuned = "  <numatune>\n    <memory mode='strict' nodeset='1'/>\n  </numatune>\n  <os>";
    let guest: Guest = domain(16, "").replace("  <os>", tuned).parse().unwrap();
    for (bound, on, right) in [(None, 1, true), (Some(set("1")), 1, true), (None, 0, false)] {
        let own = Mapping { bytes: 8 << 30, bound, on: BTreeMap::from([(on, 4096)]) };
        let seen = Running { memory: Some(vec![own]), ..running_freely() };
        let check = of_running(&guest, &seen, &machine(2, 1, 2, 2, 2));
        let line = check.lines.iter().find(|line| line.what == "memory").unwrap();
        assert_eq!((line.planned.as_str(), line.holds), ("8 GiB from node 1", Some(right)), "{line:?}");
    }
    let unread = Running { memory: None, ..running_freely() };
    let check = of_running(&guest, &unread, &machine(2, 1, 2, 2, 2));
    assert!(check.lines.iter().any(|line| line.found.contains("cannot be read")), "{:?}", check.lines);
}

#[test]
fn virtual_cpus_that_are_plugged_in_later_need_no_thread() {
    let (mut guest, host) = (guest_plan(), machine(2, 1, 2, 2, 2));
    let mut seen = running(&guest);
    guest.vcpus = 8;
    seen.vcpus.retain(|vcpu, _| *vcpu < 8);
    assert!(of_running(&guest, &seen, &host).holds());
}

/// Returns the machine that the guest should see: that of the host, with the devices behind the expanders.
fn inside(guest: &Guest) -> Machine {
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
fn a_guest_that_sees_its_plan_holds() {
    let guest = guest_plan();
    let check = of_guest(Some(&guest), &inside(&guest));
    assert!(check.holds(), "{:?}", wrong(&check));
}

#[test]
fn what_a_guest_sees_otherwise_is_told() {
    let guest = guest_plan();
    let mut inside = inside(&guest);
    inside.nodes[1].distances = vec![20, 10];
    inside.nodes[0].memory_bytes = Some(1 << 20);
    inside.packages.truncate(1);
    inside.caches.iter_mut().for_each(|cache| cache.size_bytes = Some(16 << 20));
    inside.devices[0].node = None;
    inside.devices.remove(1);
    let said = wrong(&of_guest(Some(&guest), &inside));
    let bus = |index: usize| guest.expanders[index].bus.unwrap();
    assert_eq!(
        said,
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
fn without_a_plan_all_is_told_and_nothing_judged() {
    let check = of_guest(None, &machine(2, 1, 2, 2, 2));
    assert!(check.holds());
    assert_eq!(check.count(), (0, 0));
    assert!(check.lines.iter().any(|line| line.found.contains("distances 10 32")));
}

#[test]
fn a_device_without_a_known_bus_is_found_by_its_vendor() {
    let mut guest = guest_plan();
    guest.expanders.clear();
    guest.devices.iter_mut().for_each(|device| device.expander = None);
    let host = machine(2, 1, 2, 2, 2);
    assert!(wrong(&of_guest(Some(&guest), &host)).iter().all(|line| !line.contains("0000:1")));
    let mut moved = host.clone();
    moved.devices[1].node = Some(0);
    let said = wrong(&of_guest(Some(&guest), &moved));
    assert!(said.iter().any(|line| line == "0000:11:00.0 (): node 1 / node 0"), "{said:?}");
    moved.devices.remove(1);
    let said = wrong(&of_guest(Some(&guest), &moved));
    assert!(
        said.iter().any(|line| line.contains("(0000:11:00.0 on the host): node 1 / not found")),
        "{said:?}"
    );
}

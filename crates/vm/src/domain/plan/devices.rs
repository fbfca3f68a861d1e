//! Placement of passed-through devices: each on the guest node that stands for the device's host node.
//!
//! Upstream libvirt and QEMU support a NUMA node only on a bus: the plan adds an expander bus for each node,
//! a root port below it for each slot, and puts the device behind that port. The libvirt of openEuler accepts
//! the node in the device itself.

use super::{PlanInput, vcpu_placement::DomainPlacement};
use crate::{
    domain::{
        address::PciAddress,
        buses::PciBuses,
        edit::{Edits, Element},
        guest::{controllers, devices_of, has_pcie, node_of},
        read::os_type,
        request::LibvirtDialect,
    },
    error::PlanError,
    remedy::Notes,
};
use manycore_text::{
    units,
    xml::{Node, child, is_element, number},
};
use std::collections::{BTreeMap, BTreeSet};

/// One or more functions of a device that share a slot and get a port of their own.
struct DeviceSlot<'n, 'a> {
    functions: Vec<Node<'n, 'a>>,
    /// Guest node that they are to be on; `None` for no node.
    cell: Option<u32>,
    /// Current bus.
    bus: Option<u32>,
}

pub(super) fn place_devices<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Result<(), PlanError> {
    let buses = PciBuses::from_xml(input.xml);
    let placed = devices_with_cells(input, placement, &buses, notes);
    if input.request.dialect == LibvirtDialect::OpenEuler {
        for (device, cell) in placed {
            write_numa_element(device, cell, edits, notes);
        }
        remove_missing_nodes(input, placement, &[], buses, edits, notes);
        return Ok(());
    }
    if !placed.is_empty() && !has_pcie(input.xml) {
        let machine = os_type(input.xml, "machine").unwrap_or("(default)");
        notes.push(format!(
            "devices are not moved: the machine type {machine} has no PCI express; q35 has it (virt on Arm)"
        ));
        remove_missing_nodes(input, placement, &[], buses, edits, notes);
        return Ok(());
    }
    let mut moving = slots(placed);
    moving.retain(|slot| slot.bus.and_then(|bus| buses.node_above(bus)) != slot.cell);
    let buses = remove_missing_nodes(input, placement, &moving, buses, edits, notes);
    move_behind_expanders(input, moving, buses, edits, notes)
}

/// Returns the passed-through devices, each with its guest node. The node is `None` if the XML claims a guest
/// node for the device although its host node has no guest node.
fn devices_with_cells<'n, 'a>(
    input: &'n PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    buses: &PciBuses,
    notes: &mut Notes,
) -> Vec<(Node<'n, 'a>, Option<u32>)> {
    let mut placed = Vec::new();
    for device in devices_of(input.xml) {
        let Some(host) = PciAddress::on_host(device) else { continue };
        let claimed = match input.request.dialect {
            LibvirtDialect::OpenEuler => {
                child(device, "numa").and_then(|numa| numa.attribute("node").and_then(number))
            }
            LibvirtDialect::Upstream => {
                PciAddress::in_guest(device).and_then(|place| buses.node_above(place.bus)).map(u64::from)
            }
        };
        if let Some(kind) = PciAddress::non_pci_address_type(device)
            .filter(|_| input.request.dialect == LibvirtDialect::Upstream)
        {
            notes.push(format!("device {host} is not moved: its <address> is of type '{kind}'"));
            continue;
        }
        let known = input.machine.device(&host.to_string()).map(|known| known.node);
        let why = match known {
            None => "the machine has no such device".to_owned(),
            Some(None) => "the host's firmware reports no node for it".to_owned(),
            Some(Some(_)) if placement.cells.is_empty() => "the guest's nodes are unchanged".to_owned(),
            Some(Some(node)) => match placement.cells.iter().find(|hosted| hosted.host_node == node) {
                Some(hosted) => {
                    placed.push((device, Some(hosted.cell.id)));
                    continue;
                }
                None => format!("it is on node {node} of the host, where no virtual CPU runs"),
            },
        };
        let is_false = known.flatten().is_some() || claimed.is_some_and(|node| placement.is_removed(node));
        if claimed.is_some() && is_false && !placement.cells.is_empty() {
            placed.push((device, None));
            notes.push(format!("device {host} is no longer on a node of the guest: {why}"));
        } else {
            notes.push(format!("device {host} is not moved: {why}"));
        }
    }
    placed
}

/// Writes openEuler's `<numa node='0'/>`.
fn write_numa_element<'a>(
    device: Node<'_, 'a>,
    cell: Option<u32>,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) {
    if !is_element(device, "hostdev") {
        let host = PciAddress::on_host(device).map(|host| host.to_string()).unwrap_or_default();
        notes.push(format!("device {host} is not moved: openEuler accepts a node only in <hostdev>"));
        return;
    }
    match (child(device, "numa"), cell) {
        (Some(numa), Some(cell)) => edits.set(numa, "node", cell),
        (Some(numa), None) => edits.remove(numa),
        (None, Some(cell)) => edits.append(device, &[Element::new("numa").with("node", cell)]),
        (None, None) => {}
    }
}

/// Groups the devices by slot: functions that share a slot of the guest stay together.
fn slots<'n, 'a>(placed: Vec<(Node<'n, 'a>, Option<u32>)>) -> Vec<DeviceSlot<'n, 'a>> {
    let mut slots: Vec<DeviceSlot> = Vec::new();
    let mut by_place: BTreeMap<(u32, u32, u32), usize> = BTreeMap::new();
    for (device, cell) in placed {
        let place = PciAddress::in_guest(device);
        let key = place.map(|place| (place.domain, place.bus, place.slot));
        if let Some(at) = key.and_then(|key| by_place.get(&key)) {
            slots[*at].functions.push(device);
            continue;
        }
        key.map(|key| by_place.insert(key, slots.len()));
        slots.push(DeviceSlot { functions: vec![device], cell, bus: place.map(|place| place.bus) });
    }
    slots
}

/// Removes guest nodes that no longer exist from the controllers that refer to them, since libvirt would
/// refuse these. An expander of such a node, or one that `moving` devices leave, is removed with its ports if
/// nothing remains behind it.
fn remove_missing_nodes<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    moving: &[DeviceSlot<'_, 'a>],
    mut buses: PciBuses,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> PciBuses {
    let is_moving = |device: &Node| moving.iter().any(|slot| slot.functions.contains(device));
    let staying = devices_of(input.xml).filter(|device| !is_pci_controller(*device) && !is_moving(device));
    let locations: BTreeSet<u32> =
        staying.filter_map(|device| Some(PciAddress::in_guest(device)?.bus)).collect();
    let used: BTreeSet<u32> = locations.iter().filter_map(|bus| buses.expander_of(*bus)).collect();
    for bus in locations {
        buses.reserve_index(bus);
    }
    let left: BTreeSet<u32> = moving.iter().filter_map(|slot| buses.expander_of(slot.bus?)).collect();
    let mut dropped = BTreeSet::new();
    for controller in controllers(input.xml) {
        let Some((node, text)) = node_of(controller) else { continue };
        let index = controller.attribute("index").and_then(number).unwrap_or(0) as u32;
        let below = buses.below(index);
        let is_removed = placement.is_removed(text);
        let is_empty = !below.is_empty() && !used.contains(&index);
        if is_empty && (is_removed || left.contains(&index)) {
            notes.push(format!(
                "expander bus {index}, on the guest's node {text}, is removed with its {}: the plan leaves nothing \
                 behind it",
                units::counted(below.len() - 1, "port")
            ));
            dropped.extend(below);
        } else if is_removed {
            edits.remove(node);
            notes.push(format!(
                "controller {index} and the devices behind it are no longer on a node of the guest: its node {text} \
                 no longer exists"
            ));
        }
    }
    for controller in controllers(input.xml) {
        let index = controller.attribute("index").and_then(number);
        if index.is_some_and(|index| dropped.contains(&(index as u32))) {
            edits.remove(controller);
        }
    }
    for index in dropped {
        buses.remove(index);
    }
    buses
}

fn is_pci_controller(device: Node) -> bool {
    is_element(device, "controller") && device.attribute("type") == Some("pci")
}

/// Creates missing buses and moves each slot behind a port of its own.
fn move_behind_expanders<'a>(
    input: &PlanInput<'_, 'a>,
    moving: Vec<DeviceSlot<'_, 'a>>,
    mut buses: PciBuses,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Result<(), PlanError> {
    let mut ports: Vec<(u32, Option<(u32, u32)>)> = Vec::new();
    let mut expanders: Vec<(u32, u32)> = Vec::new();
    let mut free = free_root_ports(input, &buses).into_iter();
    for slot in moving {
        if let Some(port) = slot.cell.is_none().then(|| free.next()).flatten() {
            move_to(port, &slot.functions, edits);
            continue;
        }
        let expander = match slot.cell {
            Some(cell) => Some(expander_on(cell, &mut buses, &mut expanders)?),
            None => None,
        };
        let port = buses.free_index().ok_or_else(too_many_buses)?;
        ports.push((port, expander.map(|expander| (expander, buses.add_port(port, expander)))));
        if expander.is_none() {
            buses.add_root_port(port);
        }
        move_to(port, &slot.functions, edits);
    }
    if ports.is_empty() {
        return Ok(());
    }
    // libvirt adds a port below bus 0 for each device without an address.
    let without_address =
        devices_of(input.xml).filter(|device| PciAddress::in_guest(*device).is_none()).count();
    let first =
        buses.assign_bus_numbers((buses.at_root() + without_address) as u32).ok_or_else(too_many_buses)?;
    write_bus_numbers(input, &first, &buses, edits, notes);
    let expanders = expanders.into_iter().map(|(index, cell)| expander(index, first[&index], cell));
    let ports = ports.into_iter().map(|(index, place)| port(index, place));
    edits.add("devices", expanders.chain(ports).collect());
    Ok(())
}

/// Writes the first bus number of each expander that the XML already has.
fn write_bus_numbers<'a>(
    input: &PlanInput<'_, 'a>,
    first: &BTreeMap<u32, u32>,
    buses: &PciBuses,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) {
    for controller in controllers(input.xml) {
        let index = controller.attribute("index").and_then(number).map(|index| index as u32);
        let bus = index.and_then(|index| first.get(&index));
        let (Some(target), Some(bus)) = (child(controller, "target"), bus) else { continue };
        edits.set(target, "busNr", bus);
        if let Some(old) = index.and_then(|index| buses.bus_of(index)).filter(|old| old != bus) {
            notes.push(format!(
                "the expander bus with index {} gets busNr {bus} instead of {old}, which leaves too few bus \
                 numbers",
                index.unwrap_or_default()
            ));
        }
    }
}

/// Returns the root ports on bus 0 that nothing is plugged into.
fn free_root_ports(input: &PlanInput, buses: &PciBuses) -> Vec<u32> {
    let used: BTreeSet<u32> =
        devices_of(input.xml).filter_map(|device| Some(PciAddress::in_guest(device)?.bus)).collect();
    let ports = controllers(input.xml).filter(|port| port.attribute("model") == Some("pcie-root-port"));
    let ports = ports.filter_map(|port| Some(number(port.attribute("index")?)? as u32));
    ports.filter(|port| !used.contains(port) && buses.is_at_root(*port)).collect()
}

/// Returns an expander of that node with a free slot, or adds a new one.
fn expander_on(cell: u32, buses: &mut PciBuses, new: &mut Vec<(u32, u32)>) -> Result<u32, PlanError> {
    if let Some(expander) = buses.with_free_slot(cell) {
        return Ok(expander);
    }
    let index = buses.free_index().ok_or_else(too_many_buses)?;
    buses.add_expander(index, cell);
    new.push((index, cell));
    Ok(index)
}

fn too_many_buses() -> PlanError {
    PlanError::unsupported(
        "the devices need more than the 255 PCI buses that exist: pass through fewer, or put functions of one card \
         into one slot (multifunction='on')"
            .to_owned(),
    )
}

fn move_to<'a>(port: u32, functions: &[Node<'_, 'a>], edits: &mut Edits<'_, 'a>) {
    for device in functions {
        // The existing address may have no attribute but its type.
        match child(*device, "address") {
            Some(address) => {
                edits.set(address, "domain", "0x0000");
                edits.set(address, "bus", format!("{port:#04x}"));
                edits.set(address, "slot", "0x00");
                if functions.len() == 1 {
                    edits.set(address, "function", "0x0");
                }
            }
            None => edits.append(*device, &[address(port, 0)]),
        }
    }
}

fn expander(index: u32, bus: u32, cell: u32) -> Element {
    let target = Element::new("target").with("busNr", bus).child(Element::new("node").text(cell));
    controller(index, "pcie-expander-bus").child(Element::new("model").with("name", "pxb-pcie")).child(target)
}

/// Returns a port in a slot of an expander. Without a slot, libvirt puts it on bus 0, which has no node.
fn port(index: u32, place: Option<(u32, u32)>) -> Element {
    let port = controller(index, "pcie-root-port");
    match place {
        Some((expander, slot)) => port.child(address(expander, slot)),
        None => port,
    }
}

fn controller(index: u32, model: &str) -> Element {
    Element::new("controller").with("type", "pci").with("index", index).with("model", model)
}

fn address(bus: u32, slot: u32) -> Element {
    Element::new("address")
        .with("type", "pci")
        .with("domain", "0x0000")
        .with("bus", format!("{bus:#04x}"))
        .with("slot", format!("{slot:#04x}"))
        .with("function", "0x0")
}

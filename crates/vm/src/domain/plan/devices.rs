//! Placement of passed-through devices: each on the guest node that stands for the device's host node.
//!
//! Upstream libvirt and QEMU support a NUMA node only on a bus: the plan adds an expander bus for each node,
//! a root port below it for each slot, and puts the device behind that port. The libvirt of openEuler accepts
//! the node in the device itself.

use super::{Refused, Task, seats::Seats};
use crate::domain::{
    address::PciAddress,
    buses::Buses,
    edit::{Edits, Element},
    guest::{controllers, devices_of, has_pcie, node_of},
    read::os_type,
    wish::Dialect,
};
use manycore_linux::vms::xml::{child, is, number};
use roxmltree::Node;
use std::collections::{BTreeMap, BTreeSet};

/// One or more functions of a device that share a slot and get a port of their own.
struct Slot<'n, 'a> {
    functions: Vec<Node<'n, 'a>>,
    /// Guest node that they are to be on; `None` for no node.
    cell: Option<u32>,
    /// Current bus.
    bus: Option<u32>,
}

pub(super) fn place<'a>(
    task: &Task<'_, 'a>,
    seats: &Seats,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Vec<String>,
) -> Result<(), Refused> {
    let buses = Buses::of(task.xml);
    let placed = with_cells(task, seats, &buses, notes);
    if task.wish.dialect == Dialect::OpenEuler {
        for (device, cell) in placed {
            say_node(device, cell, edits, notes);
        }
        leave_gone_nodes(task, seats, &[], buses, edits, notes);
        return Ok(());
    }
    if !placed.is_empty() && !has_pcie(task.xml) {
        let machine = os_type(task.xml, "machine").unwrap_or("(default)");
        notes.push(format!(
            "devices are not moved: the machine type {machine} has no PCI express; q35 has it (virt on Arm)"
        ));
        leave_gone_nodes(task, seats, &[], buses, edits, notes);
        return Ok(());
    }
    let mut moving = slots(placed);
    moving.retain(|slot| slot.bus.and_then(|bus| buses.node_above(bus)) != slot.cell);
    let buses = leave_gone_nodes(task, seats, &moving, buses, edits, notes);
    behind_expanders(task, moving, buses, edits, notes)
}

/// Returns the passed-through devices, each with its guest node. The node is `None` if the XML claims a guest
/// node for the device although its host node has no guest node.
fn with_cells<'n, 'a>(
    task: &'n Task<'_, 'a>,
    seats: &Seats,
    buses: &Buses,
    notes: &mut Vec<String>,
) -> Vec<(Node<'n, 'a>, Option<u32>)> {
    let mut placed = Vec::new();
    for device in devices_of(task.xml) {
        let Some(host) = PciAddress::on_host(device) else { continue };
        let told = match task.wish.dialect {
            Dialect::OpenEuler => {
                child(device, "numa").and_then(|numa| numa.attribute("node").and_then(number))
            }
            Dialect::Upstream => {
                PciAddress::in_guest(device).and_then(|place| buses.node_above(place.bus)).map(u64::from)
            }
        };
        if let Some(kind) = PciAddress::other_kind(device).filter(|_| task.wish.dialect == Dialect::Upstream)
        {
            notes.push(format!("device {host} is not moved: its <address> is of type '{kind}'"));
            continue;
        }
        let known = task.machine.device(&host.to_string()).map(|known| known.node);
        let why = match known {
            None => "the machine has no such device".to_owned(),
            Some(None) => "the host's firmware reports no node for it".to_owned(),
            Some(Some(_)) if seats.cells.is_empty() => "the guest's nodes are unchanged".to_owned(),
            Some(Some(node)) => match seats.cells.iter().find(|hosted| hosted.host == node) {
                Some(hosted) => {
                    placed.push((device, Some(hosted.cell.id)));
                    continue;
                }
                None => format!("it is on node {node} of the host, where no virtual CPU runs"),
            },
        };
        let is_false = known.flatten().is_some() || told.is_some_and(|node| seats.is_gone(node));
        if told.is_some() && is_false && !seats.cells.is_empty() {
            placed.push((device, None));
            notes.push(format!("device {host} is no longer on a node of the guest: {why}"));
        } else {
            notes.push(format!("device {host} is not moved: {why}"));
        }
    }
    placed
}

/// Writes openEuler's `<numa node='0'/>`.
fn say_node<'a>(device: Node<'_, 'a>, cell: Option<u32>, edits: &mut Edits<'_, 'a>, notes: &mut Vec<String>) {
    if !is(device, "hostdev") {
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
fn slots<'n, 'a>(placed: Vec<(Node<'n, 'a>, Option<u32>)>) -> Vec<Slot<'n, 'a>> {
    let mut slots: Vec<Slot> = Vec::new();
    let mut by_place: BTreeMap<(u32, u32, u32), usize> = BTreeMap::new();
    for (device, cell) in placed {
        let place = PciAddress::in_guest(device);
        let key = place.map(|place| (place.domain, place.bus, place.slot));
        if let Some(at) = key.and_then(|key| by_place.get(&key)) {
            slots[*at].functions.push(device);
            continue;
        }
        key.map(|key| by_place.insert(key, slots.len()));
        slots.push(Slot { functions: vec![device], cell, bus: place.map(|place| place.bus) });
    }
    slots
}

/// Removes guest nodes that no longer exist from the controllers that refer to them, since libvirt would
/// refuse these. An expander of such a node, or one that `moving` devices leave, is removed with its ports if
/// nothing remains behind it.
fn leave_gone_nodes<'a>(
    task: &Task<'_, 'a>,
    seats: &Seats,
    moving: &[Slot<'_, 'a>],
    mut buses: Buses,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Vec<String>,
) -> Buses {
    let is_moving = |device: &Node| moving.iter().any(|slot| slot.functions.contains(device));
    let staying = devices_of(task.xml).filter(|device| !is_pci_controller(*device) && !is_moving(device));
    let places: BTreeSet<u32> =
        staying.filter_map(|device| Some(PciAddress::in_guest(device)?.bus)).collect();
    let used: BTreeSet<u32> = places.iter().filter_map(|bus| buses.expander_of(*bus)).collect();
    for bus in places {
        buses.keep(bus);
    }
    let left: BTreeSet<u32> = moving.iter().filter_map(|slot| buses.expander_of(slot.bus?)).collect();
    let mut dropped = BTreeSet::new();
    for controller in controllers(task.xml) {
        let Some((node, text)) = node_of(controller) else { continue };
        let index = controller.attribute("index").and_then(number).unwrap_or(0) as u32;
        let below = buses.below(index);
        let is_gone = seats.is_gone(text);
        let is_empty = !below.is_empty() && !used.contains(&index);
        if is_empty && (is_gone || left.contains(&index)) {
            notes.push(format!(
                "expander bus {index}, on the guest's node {text}, is removed with its {}: the plan leaves nothing \
                 behind it",
                manycore_text::units::counted(below.len() - 1, "port")
            ));
            dropped.extend(below);
        } else if is_gone {
            edits.remove(node);
            notes.push(format!(
                "controller {index} and the devices behind it are no longer on a node of the guest: its node {text} \
                 no longer exists"
            ));
        }
    }
    for controller in controllers(task.xml) {
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
    is(device, "controller") && device.attribute("type") == Some("pci")
}

/// Creates missing buses and moves each slot behind a port of its own.
fn behind_expanders<'a>(
    task: &Task<'_, 'a>,
    moving: Vec<Slot<'_, 'a>>,
    mut buses: Buses,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Vec<String>,
) -> Result<(), Refused> {
    let mut ports: Vec<(u32, Option<(u32, u32)>)> = Vec::new();
    let mut expanders: Vec<(u32, u32)> = Vec::new();
    let mut free = free_root_ports(task, &buses).into_iter();
    for slot in moving {
        if let Some(port) = slot.cell.is_none().then(|| free.next()).flatten() {
            move_to(port, &slot.functions, edits);
            continue;
        }
        let expander = match slot.cell {
            Some(cell) => Some(expander_on(cell, &mut buses, &mut expanders)?),
            None => None,
        };
        let port = buses.free_index().ok_or_else(too_many)?;
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
    let homeless = devices_of(task.xml).filter(|device| PciAddress::in_guest(*device).is_none()).count();
    let first = buses.arrange((buses.at_root() + homeless) as u32).ok_or_else(too_many)?;
    for controller in controllers(task.xml) {
        let index = controller.attribute("index").and_then(number).map(|index| index as u32);
        let bus = index.and_then(|index| first.get(&index));
        if let (Some(target), Some(bus)) = (child(controller, "target"), bus) {
            edits.set(target, "busNr", bus);
            if let Some(old) = index.and_then(|index| buses.bus_of(index)).filter(|old| old != bus) {
                notes.push(format!(
                    "the expander bus with index {} gets busNr {bus} instead of {old}: the buses need more numbers \
                     than that leaves",
                    index.unwrap_or_default()
                ));
            }
        }
    }
    let expanders = expanders.into_iter().map(|(index, cell)| expander(index, first[&index], cell));
    let ports = ports.into_iter().map(|(index, place)| port(index, place));
    edits.add("devices", expanders.chain(ports).collect());
    Ok(())
}

/// Returns the root ports on bus 0 that nothing is plugged into.
fn free_root_ports(task: &Task, buses: &Buses) -> Vec<u32> {
    let used: BTreeSet<u32> =
        devices_of(task.xml).filter_map(|device| Some(PciAddress::in_guest(device)?.bus)).collect();
    let ports = controllers(task.xml).filter(|port| port.attribute("model") == Some("pcie-root-port"));
    let ports = ports.filter_map(|port| Some(number(port.attribute("index")?)? as u32));
    ports.filter(|port| !used.contains(port) && buses.is_at_root(*port)).collect()
}

/// Returns an expander of that node with a free slot, or adds a new one.
fn expander_on(cell: u32, buses: &mut Buses, new: &mut Vec<(u32, u32)>) -> Result<u32, Refused> {
    if let Some(expander) = buses.with_room(cell) {
        return Ok(expander);
    }
    let index = buses.free_index().ok_or_else(too_many)?;
    buses.add_expander(index, cell);
    new.push((index, cell));
    Ok(index)
}

fn too_many() -> Refused {
    Refused::Demand(
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

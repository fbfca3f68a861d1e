//! Devices that are passed through, each on the guest's node that stands for its own on the host.
//!
//! Upstream libvirt and QEMU know the node of a bus only: an expander bus for each node, a root port below it for each
//! slot, the device behind that. openEuler's libvirt takes the node in the device itself.

use super::{Refused, Task, seats::Seats};
use crate::domain::{
    address::PciAddress,
    buses::Buses,
    edit::{Edits, Element},
    guest::{controllers, devices_of, has_pcie, os_type},
    wish::Dialect,
    xml::{child, is, number},
};
use roxmltree::Node;
use std::collections::BTreeMap;

/// A device, or the functions of one, that goes behind a port of its own.
struct Slot<'n, 'a> {
    functions: Vec<Node<'n, 'a>>,
    cell: u32,
    /// Bus that it is on now.
    bus: Option<u32>,
}

pub(super) fn place<'a>(
    task: &Task<'_, 'a>,
    seats: &Seats,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Vec<String>,
) -> Result<(), Refused> {
    let placed = with_cells(task, seats, notes);
    if task.wish.dialect == Dialect::OpenEuler {
        for (device, cell) in placed {
            say_node(device, cell, edits, notes);
        }
        return Ok(());
    }
    if !placed.is_empty() && !has_pcie(task.xml) {
        let machine = os_type(task.xml, "machine").unwrap_or("that it has by default");
        notes.push(format!(
            "devices stay where they are: the machine type {machine} has no PCI express, q35 has (virt on Arm)"
        ));
        return Ok(());
    }
    behind_expanders(task, slots(placed), edits)
}

/// Devices that are passed through, with the guest's node for each.
fn with_cells<'n, 'a>(
    task: &'n Task<'_, 'a>,
    seats: &Seats,
    notes: &mut Vec<String>,
) -> Vec<(Node<'n, 'a>, u32)> {
    let mut placed = Vec::new();
    for device in devices_of(task.xml) {
        let Some(host) = PciAddress::on_host(device) else { continue };
        let why = match task.machine.device(&host.to_string()).map(|known| known.node) {
            None => "the machine has no such device".to_owned(),
            Some(None) => "the host's firmware tells no node for it".to_owned(),
            Some(Some(_)) if seats.cells.is_empty() => "the guest's nodes are as they were".to_owned(),
            Some(Some(node)) => match seats.cells.iter().find(|hosted| hosted.host == node) {
                Some(hosted) => {
                    placed.push((device, hosted.cell.id));
                    continue;
                }
                None => format!("it is on node {node} of the host, and no virtual CPU is"),
            },
        };
        notes.push(format!("device {host} stays where it is: {why}"));
    }
    placed
}

/// openEuler's `<numa node='0'/>`.
fn say_node<'a>(device: Node<'_, 'a>, cell: u32, edits: &mut Edits<'_, 'a>, notes: &mut Vec<String>) {
    if !is(device, "hostdev") {
        let host = PciAddress::on_host(device).map(|host| host.to_string()).unwrap_or_default();
        notes.push(format!("device {host} stays where it is: openEuler takes a node in <hostdev> only"));
        return;
    }
    match child(device, "numa") {
        Some(numa) => edits.set(numa, "node", cell),
        None => edits.append(device, &[Element::new("numa").with("node", cell)]),
    }
}

/// Functions that share a slot of the guest stay together.
fn slots<'n, 'a>(placed: Vec<(Node<'n, 'a>, u32)>) -> Vec<Slot<'n, 'a>> {
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

/// Makes the buses that are missing and moves each slot behind a port of its own.
fn behind_expanders<'a>(
    task: &Task<'_, 'a>,
    slots: Vec<Slot<'_, 'a>>,
    edits: &mut Edits<'_, 'a>,
) -> Result<(), Refused> {
    let mut buses = Buses::of(task.xml);
    let mut ports: Vec<(u32, u32, u32)> = Vec::new();
    let mut expanders: Vec<(u32, u32)> = Vec::new();
    for slot in slots {
        let now = slot.bus.and_then(|bus| buses.node_of(buses.expander_of(bus)?));
        if now == Some(slot.cell) {
            continue;
        }
        let expander = match buses.with_room(slot.cell) {
            Some(expander) => expander,
            None => {
                let index = buses.free_index().ok_or_else(too_many)?;
                buses.add_expander(index, slot.cell);
                expanders.push((index, slot.cell));
                index
            }
        };
        let port = buses.free_index().ok_or_else(too_many)?;
        ports.push((port, expander, buses.add_port(port, expander)));
        move_to(port, &slot.functions, edits);
    }
    if ports.is_empty() {
        return Ok(());
    }
    // libvirt makes a port below bus 0 for each device that has no place yet.
    let homeless = devices_of(task.xml).filter(|device| PciAddress::in_guest(*device).is_none()).count();
    let first = buses.arrange((buses.at_root() + homeless) as u32).ok_or_else(too_many)?;
    for controller in controllers(task.xml) {
        let index = controller.attribute("index").and_then(number).map(|index| index as u32);
        let bus = index.and_then(|index| first.get(&index));
        if let (Some(target), Some(bus)) = (child(controller, "target"), bus) {
            edits.set(target, "busNr", bus);
        }
    }
    let expanders = expanders.into_iter().map(|(index, cell)| expander(index, first[&index], cell));
    let ports = ports.into_iter().map(|(index, expander, slot)| port(index, expander, slot));
    edits.add("devices", expanders.chain(ports).collect());
    Ok(())
}

fn too_many() -> Refused {
    Refused::Demand(
        "the devices need more PCI buses than the 255 that there are: pass through fewer, or put functions of one \
         card into one slot (multifunction='on')"
            .to_owned(),
    )
}

fn move_to<'a>(port: u32, functions: &[Node<'_, 'a>], edits: &mut Edits<'_, 'a>) {
    for device in functions {
        match device.children().find(|node| is(*node, "address") && PciAddress::in_guest(*device).is_some()) {
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

fn port(index: u32, expander: u32, slot: u32) -> Element {
    controller(index, "pcie-root-port").child(address(expander, slot))
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

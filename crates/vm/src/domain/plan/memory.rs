//! Planning of `<numatune>`: each guest node takes its memory from its own host node.

use super::{Refused, Task, seats::Seats};
use crate::domain::{
    edit::{Edits, Element},
    guest::{devices_of, node_of},
    read::attribute,
};
use manycore_linux::vms::xml::{child, children, is};
use manycore_topology::CpuSet;
use roxmltree::Node;
use std::collections::BTreeMap;

pub(super) fn bind<'a>(
    task: &Task<'_, 'a>,
    seats: &Seats,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Vec<String>,
) -> Result<(), Refused> {
    let tune = task.xml.at(&["numatune"]);
    let memory = tune.and_then(|tune| child(tune, "memory"));
    if seats.cells.is_empty() {
        stay_automatic(task, memory, edits);
        return Ok(());
    }
    check_modules(task, seats)?;
    place_modules(task, seats, edits, notes);
    // Mode `restrictive` leaves the policy to the control group; then it must apply to all elements.
    let told = memory.and_then(|memory| memory.attribute("mode"));
    let mode = if told == Some("restrictive") { "restrictive" } else { "strict" };
    if let Some(other) = told.filter(|told| *told != mode) {
        notes.push(format!(
            "mode '{other}' of <numatune> changes to {mode}, so that the memory is where the plan says"
        ));
    }
    let kept = task.before.cells.iter().filter(|cell| seats.memory_only.contains(cell.id));
    let all = CpuSet::union_of(
        seats.cells.iter().map(|hosted| &hosted.cell.host_nodes).chain(kept.map(|cell| &cell.host_nodes)),
    );
    let mut new = Vec::new();
    match memory {
        Some(memory) => {
            edits.set(memory, "mode", mode);
            if memory.has_attribute("placement") {
                edits.set(memory, "placement", "static");
            }
            edits.set(memory, "nodeset", all);
        }
        None => new.push(Element::new("memory").with("mode", mode).with("nodeset", all)),
    }
    let cells = seats.cells.iter().map(|hosted| &hosted.cell);
    let mut wanted: BTreeMap<u32, &CpuSet> = cells.map(|cell| (cell.id, &cell.host_nodes)).collect();
    for node in tune.into_iter().flat_map(|tune| children(tune, "memnode")) {
        let cell = attribute(node, "cellid")?;
        match wanted.remove(&cell) {
            Some(host) => {
                edits.set(node, "mode", mode);
                edits.set(node, "nodeset", host);
            }
            None if seats.memory_only.contains(cell) => {}
            None => edits.remove(node),
        }
    }
    new.extend(wanted.into_iter().map(|(cell, nodes)| {
        Element::new("memnode").with("cellid", cell).with("mode", mode).with("nodeset", nodes)
    }));
    edits.add("numatune", new);
    Ok(())
}

/// Keeps the automatic placement of memory. A `<numatune>` without a placement inherits that of `<vcpu>`: if
/// numad was to choose the nodes of the memory, it still does when the virtual CPUs are pinned.
fn stay_automatic<'a>(task: &Task<'_, 'a>, memory: Option<Node<'_, 'a>>, edits: &mut Edits<'_, 'a>) {
    let is_auto = task.xml.at(&["vcpu"]).is_some_and(|vcpu| vcpu.attribute("placement") == Some("auto"));
    let inherits = |memory: &Node| !memory.has_attribute("placement") && !memory.has_attribute("nodeset");
    if let Some(memory) = memory.filter(|memory| is_auto && inherits(memory)) {
        edits.set(memory, "placement", "auto");
    }
}

/// Assigns nodes to memory modules without one, in turn. libvirt requires a node for each module of a guest
/// with NUMA nodes.
fn place_modules<'a>(task: &Task<'_, 'a>, seats: &Seats, edits: &mut Edits<'_, 'a>, notes: &mut Vec<String>) {
    let kinds = ["dimm", "nvdimm", "virtio-mem"];
    let modules = devices_of(task.xml).filter(|device| {
        is(*device, "memory") && device.attribute("model").is_some_and(|model| kinds.contains(&model))
    });
    let homeless: Vec<Node> = modules
        .filter_map(|module| child(module, "target"))
        .filter(|target| child(*target, "node").is_none())
        .collect();
    if homeless.is_empty() {
        return;
    }
    notes.push(format!(
        "{} without a <node> get one, since the guest now has NUMA nodes",
        manycore_text::units::counted(homeless.len(), "<memory> module")
    ));
    for (target, hosted) in homeless.into_iter().zip(seats.cells.iter().cycle()) {
        edits.append(target, &[Element::new("node").text(hosted.cell.id)]);
    }
}

/// Checks that the guest nodes of memory modules still exist.
fn check_modules(task: &Task, seats: &Seats) -> Result<(), Refused> {
    for module in devices_of(task.xml).filter(|device| is(*device, "memory")) {
        if let Some((_, node)) = node_of(module).filter(|(_, node)| seats.is_gone(*node)) {
            return Err(Refused::Demand(format!(
                "it has a <memory> module of kind '{}' on the guest's node {node}, but by this plan the guest has \
                 only {}: give the module another <node>, remove it, or spread the CPUs over more nodes (--policy \
                 spread)",
                module.attribute("model").unwrap_or_default(),
                manycore_text::units::counted(seats.cells.len(), "node")
            )));
        }
    }
    Ok(())
}

//! Planning of `<numatune>`: each guest node takes its memory from its own host node.

use super::{PlanInput, vcpu_placement::DomainPlacement};
use crate::{
    domain::{
        edit::{Edits, Element},
        guest::{devices_of, node_of},
        read::attribute,
    },
    error::PlanError,
    remedy::{Notes, Remedy},
};
use manycore_text::{
    units,
    xml::{Node, child, children, is_element},
};
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Binds the memory of each guest node to its host node.
pub(super) fn bind<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Result<(), PlanError> {
    let tune = input.xml.at(&["numatune"]);
    let memory = tune.and_then(|tune| child(tune, "memory"));
    if placement.cells.is_empty() {
        keep_automatic_placement(input, memory, edits);
        return Ok(());
    }
    check_modules(input, placement)?;
    place_modules(input, placement, edits, notes);
    // Mode `restrictive` leaves the policy to the control group; then it must apply to all elements.
    let present = memory.and_then(|memory| memory.attribute("mode"));
    let mode = if present == Some("restrictive") { "restrictive" } else { "strict" };
    if let Some(other) = present.filter(|present| *present != mode) {
        notes.push(format!(
            "mode '{other}' of <numatune> changes to {mode}, so that the memory is where the plan says"
        ));
    }
    let kept = input.before.cells.iter().filter(|cell| placement.memory_only.contains(cell.id));
    let all = CpuSet::union_of(
        placement.cells.iter().map(|hosted| &hosted.cell.host_nodes).chain(kept.map(|cell| &cell.host_nodes)),
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
    new.extend(bind_cells(tune, mode, placement, edits)?);
    edits.add("numatune", new);
    Ok(())
}

/// Updates the existing `<memnode>` elements, removes those of removed nodes, and returns the missing ones.
fn bind_cells<'a>(
    tune: Option<Node<'_, 'a>>,
    mode: &str,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
) -> Result<Vec<Element>, PlanError> {
    let cells = placement.cells.iter().map(|hosted| &hosted.cell);
    let mut wanted: BTreeMap<u32, &CpuSet> = cells.map(|cell| (cell.id, &cell.host_nodes)).collect();
    for node in tune.into_iter().flat_map(|tune| children(tune, "memnode")) {
        let cell = attribute(node, "cellid")?;
        match wanted.remove(&cell) {
            Some(host) => {
                edits.set(node, "mode", mode);
                edits.set(node, "nodeset", host);
            }
            None if placement.memory_only.contains(cell) => {}
            None => edits.remove(node),
        }
    }
    let new = wanted.into_iter().map(|(cell, nodes)| {
        Element::new("memnode").with("cellid", cell).with("mode", mode).with("nodeset", nodes)
    });
    Ok(new.collect())
}

/// Keeps the automatic placement of memory. A `<numatune>` without a placement inherits that of `<vcpu>`: if
/// numad was to choose the nodes of the memory, it still does when the virtual CPUs are pinned.
fn keep_automatic_placement<'a>(
    input: &PlanInput<'_, 'a>,
    memory: Option<Node<'_, 'a>>,
    edits: &mut Edits<'_, 'a>,
) {
    let is_auto = input.xml.at(&["vcpu"]).is_some_and(|vcpu| vcpu.attribute("placement") == Some("auto"));
    let inherits = |memory: &Node| !memory.has_attribute("placement") && !memory.has_attribute("nodeset");
    if let Some(memory) = memory.filter(|memory| is_auto && inherits(memory)) {
        edits.set(memory, "placement", "auto");
    }
}

/// Assigns nodes to memory modules without one, in turn. libvirt requires a node for each module of a guest
/// with NUMA nodes.
fn place_modules<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) {
    let kinds = ["dimm", "nvdimm", "virtio-mem"];
    let modules = devices_of(input.xml).filter(|device| {
        is_element(*device, "memory") && device.attribute("model").is_some_and(|model| kinds.contains(&model))
    });
    let without_node: Vec<Node> = modules
        .filter_map(|module| child(module, "target"))
        .filter(|target| child(*target, "node").is_none())
        .collect();
    if without_node.is_empty() {
        return;
    }
    notes.push(format!(
        "{} without a <node> get one, since the guest now has NUMA nodes",
        units::counted(without_node.len(), "<memory> module")
    ));
    for (target, hosted) in without_node.into_iter().zip(placement.cells.iter().cycle()) {
        edits.append(target, &[Element::new("node").text(hosted.cell.id)]);
    }
}

/// Checks that the guest nodes of memory modules still exist.
fn check_modules(input: &PlanInput, placement: &DomainPlacement) -> Result<(), PlanError> {
    for module in devices_of(input.xml).filter(|device| is_element(*device, "memory")) {
        if let Some((_, node)) = node_of(module).filter(|(_, node)| placement.is_removed(*node)) {
            return Err(PlanError::resolved_by(
                Remedy::Policy,
                format!(
                    "it has a <memory> module of kind '{}' on the guest's node {node}, but by this plan the guest \
                     has only {}: give the module another <node>, remove it, or spread the CPUs over more nodes \
                     (policy spread)",
                    module.attribute("model").unwrap_or_default(),
                    units::counted(placement.cells.len(), "node")
                ),
            ));
        }
    }
    Ok(())
}

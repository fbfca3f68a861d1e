//! `<numatune>`: each of the guest's nodes takes its memory from its own node of the host.

use super::{Refused, Task, seats::Seats};
use crate::{
    CpuSet,
    domain::{
        edit::{Edits, Element},
        guest::{attribute, devices_of, node_of},
        xml::{child, children, is},
    },
};
use std::collections::BTreeMap;

pub(super) fn bind<'a>(task: &Task<'_, 'a>, seats: &Seats, edits: &mut Edits<'_, 'a>) -> Result<(), Refused> {
    if seats.cells.is_empty() {
        return Ok(());
    }
    check_modules(task, seats)?;
    let tune = task.xml.at(&["numatune"]);
    let memory = tune.and_then(|tune| child(tune, "memory"));
    // restrictive leaves the policy to the control group, and then all of it must.
    let told = memory.and_then(|memory| memory.attribute("mode"));
    let mode = if told == Some("restrictive") { "restrictive" } else { "strict" };
    let all = CpuSet::union_of(seats.cells.iter().map(|hosted| &hosted.cell.host_nodes));
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
        match wanted.remove(&attribute(node, "cellid")?) {
            Some(nodes) => {
                edits.set(node, "mode", mode);
                edits.set(node, "nodeset", nodes);
            }
            None => edits.remove(node),
        }
    }
    new.extend(wanted.into_iter().map(|(cell, nodes)| {
        Element::new("memnode").with("cellid", cell).with("mode", mode).with("nodeset", nodes)
    }));
    edits.add("numatune", new);
    Ok(())
}

/// Modules of memory are on a node of the guest, which must be there.
fn check_modules(task: &Task, seats: &Seats) -> Result<(), Refused> {
    for module in devices_of(task.xml).filter(|device| is(*device, "memory")) {
        if let Some((_, node)) = node_of(module).filter(|(_, node)| seats.is_gone(*node)) {
            return Err(Refused::Demand(format!(
                "it has a <memory> module of kind '{}' on the guest's node {node}, and by this plan the guest has \
                 {}: give the module another <node>, take it out, or spread the CPUs over more nodes (--policy \
                 spread)",
                module.attribute("model").unwrap_or_default(),
                crate::units::counted(seats.cells.len(), "node")
            )));
        }
    }
    Ok(())
}

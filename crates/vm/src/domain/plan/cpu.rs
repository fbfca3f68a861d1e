//! Planning of `<vcpu>`, `<cputune>` and `<cpu>`.

use super::{
    PlanInput,
    topology::topology,
    vcpu_placement::{CellOnHost, DomainPlacement},
};
use crate::{
    domain::{
        edit::{Edits, Element},
        guest::Cell,
        read::attribute,
    },
    error::PlanError,
    remedy::{Notes, Remedy},
};
use manycore_text::xml::{Node, child, children, number, text_of};
use manycore_topology::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

/// Pins virtual CPUs, the emulator and I/O threads.
pub(super) fn pin<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
) -> Result<(), PlanError> {
    if let Some(vcpu) = input.xml.at(&["vcpu"]) {
        if vcpu.attribute("placement") == Some("auto") {
            edits.set(vcpu, "placement", "static");
        }
        if vcpu.has_attribute("cpuset") {
            let others = &placement.others;
            let others = others.iothreads.values().chain([&others.emulator]);
            let all = CpuSet::union_of(placement.pins.iter().chain(others));
            edits.set(vcpu, "cpuset", all);
        }
    }
    let vcpus = placement.pins.iter().enumerate().map(|(at, cpus)| (at as u32, cpus.to_string())).collect();
    let iothreads = placement.others.iothreads.iter().map(|(id, cpus)| (*id, cpus.to_string())).collect();
    let mut new = pins(input, "vcpupin", "vcpu", vcpus, edits)?;
    let emulator = placement.others.emulator.to_string();
    match input.xml.at(&["cputune", "emulatorpin"]) {
        Some(there) => edits.set(there, "cpuset", emulator),
        None => new.push(Element::new("emulatorpin").with("cpuset", emulator)),
    }
    new.extend(pins(input, "iothreadpin", "iothread", iothreads, edits)?);
    edits.add("cputune", new);
    Ok(())
}

/// Updates existing pins, removes those of threads that do not exist, and returns the missing ones.
fn pins<'a>(
    input: &PlanInput<'_, 'a>,
    name: &'static str,
    key: &'static str,
    mut wanted: BTreeMap<u32, String>,
    edits: &mut Edits<'_, 'a>,
) -> Result<Vec<Element>, PlanError> {
    let tune = input.xml.at(&["cputune"]);
    let there: Vec<Node> = tune.into_iter().flat_map(|tune| children(tune, name)).collect();
    for pin in &there {
        match wanted.remove(&attribute(*pin, key)?) {
            Some(cpus) => edits.set(*pin, "cpuset", cpus),
            None => edits.remove(*pin),
        }
    }
    let new = wanted.into_iter();
    let new = new.map(|(id, cpus)| Element::new(name).with(key, id).with("cpuset", cpus)).collect();
    // New pins go after the existing ones.
    let Some(last) = there.last() else { return Ok(new) };
    edits.insert_after(*last, &new);
    Ok(Vec::new())
}

/// Returns the ids of I/O threads: the named ones, and the lowest free ids up to their number.
pub(super) fn iothreads(input: &PlanInput) -> Result<BTreeSet<u32>, PlanError> {
    let mut ids = BTreeSet::new();
    if let Some(named) = input.xml.at(&["iothreadids"]) {
        for one in children(named, "iothread") {
            ids.insert(attribute(one, "id")?);
        }
    }
    let count = input.xml.at(&["iothreads"]).and_then(|node| number(&text_of(node))).unwrap_or(0).min(1024);
    let free = (1..=2048).filter(|id| !ids.contains(id));
    let missing = (count as usize).saturating_sub(ids.len());
    let free: Vec<u32> = free.take(missing).collect();
    ids.extend(free);
    Ok(ids)
}

/// Describes the topology, caches and NUMA nodes to the guest.
pub(super) fn write_cpu_element<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) {
    if !input.machine_type.has_nodes {
        return;
    }
    let mut new = Vec::new();
    let is_kvm = input.xml.root().attribute("type") == Some("kvm");
    let cpu = input.xml.at(&["cpu"]);
    let mode = cpu.map_or("", |cpu| cpu.attribute("mode").unwrap_or("custom"));
    let passthrough =
        mode == "host-passthrough" || is_kvm && (cpu.is_none() || input.request.host_passthrough);
    if let Some(cpu) = cpu.filter(|_| passthrough && mode != "host-passthrough") {
        set_host_passthrough(input, cpu, edits);
    }
    if passthrough && cpu.is_none() {
        notes.push(
            "the domain has no <cpu> and gets the mode host-passthrough: while it runs, the guest can be migrated only \
             to a host with the same CPU, microcode and kernel (for another mode, first add <cpu mode='host-model'/>)",
        );
    }
    new.extend(write_topology(input, placement, edits, notes));
    new.extend(write_cache(input, mode, passthrough, edits, notes));
    if passthrough {
        new.extend(write_topoext(input));
    }
    new.extend(write_numa(input, placement, edits, notes));
    if cpu.is_some() {
        edits.add("cpu", new);
    } else {
        let cpu = Element::new("cpu");
        let cpu = if passthrough { cpu.with("mode", "host-passthrough").with("check", "none") } else { cpu };
        edits.add_whole(cpu.children(new));
    }
}

/// Changes a CPU of another mode to host-passthrough and removes its model. Features that the user required
/// or disabled stay, since this mode accepts them, too.
fn set_host_passthrough<'a>(input: &PlanInput<'_, 'a>, cpu: Node<'_, 'a>, edits: &mut Edits<'_, 'a>) {
    edits.set(cpu, "mode", "host-passthrough");
    edits.remove_attribute(cpu, "match");
    for name in ["model", "vendor"] {
        if let Some(node) = input.xml.at(&["cpu", name]) {
            edits.remove(node);
        }
    }
}

fn write_topology<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Option<Element> {
    let counts = topology(input, &placement.locations, notes);
    let parts = [
        ("sockets", counts.sockets),
        ("dies", counts.dies),
        ("clusters", counts.clusters),
        ("cores", counts.cores),
        ("threads", counts.threads),
    ];
    let there = input.xml.at(&["cpu", "topology"]);
    // Older versions of libvirt have neither dies nor clusters: these are written only if they add
    // information.
    let needed = |name: &str, count: u32| {
        !["dies", "clusters"].contains(&name)
            || count > 1
            || there.is_some_and(|there| there.has_attribute(name))
    };
    let parts = parts.into_iter().filter(|(name, count)| needed(name, *count));
    match there {
        Some(there) => {
            parts.for_each(|(name, count)| edits.set(there, name, count));
            None
        }
        None => {
            Some(parts.fold(Element::new("topology"), |element, (name, count)| element.with(name, count)))
        }
    }
}

/// AMD CPUs report SMT siblings and shared caches only with this feature. QEMU enables it in a guest only on
/// request.
fn write_topoext(input: &PlanInput) -> Option<Element> {
    let has_it = input.xml.at(&["cpu"]).is_some_and(|cpu| {
        children(cpu, "feature").any(|feature| feature.attribute("name") == Some("topoext"))
    });
    let host_has = input.machine.system.cpu_flags.iter().any(|flag| flag == "topoext");
    (host_has && !has_it).then(|| Element::new("feature").with("policy", "require").with("name", "topoext"))
}

fn write_cache<'a>(
    input: &PlanInput<'_, 'a>,
    mode: &str,
    passthrough: bool,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Option<Element> {
    let kind = input.xml.root().attribute("type").unwrap_or_default();
    if !input.is_x86() {
        notes.push(format!(
            "no <cache mode='passthrough'/>: libvirt supports it only on x86, not on {}",
            input.arch
        ));
        return None;
    }
    if kind != "kvm" {
        notes.push(format!(
            "no <cache mode='passthrough'/>: a domain of type '{kind}' does not run on the host's CPU"
        ));
        return None;
    }
    if !passthrough {
        notes.push_with(
            Remedy::HostPassthrough,
            format!(
                "no <cache mode='passthrough'/>: it needs the CPU mode host-passthrough, and the mode is {mode}; \
                 it changes on request (such a guest can be migrated only between equal hosts)"
            ),
        );
        return None;
    }
    let cache = Element::new("cache").with("mode", "passthrough");
    match input.xml.at(&["cpu", "cache"]) {
        Some(there) => {
            if let Some(other) = there.attribute("mode").filter(|mode| *mode != "passthrough") {
                notes.push(format!(
                    "<cache mode='{other}'/> changes to passthrough, so that the guest sees the host's caches"
                ));
            }
            edits.remove_attribute(there, "level");
            edits.set(there, "mode", "passthrough");
            None
        }
        None => Some(cache),
    }
}

fn write_numa<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) -> Option<Element> {
    if placement.cells.is_empty() {
        return None;
    }
    let cells: Vec<&Cell> = placement.cells.iter().map(|hosted| &hosted.cell).collect();
    let ids: Vec<u32> = cells.iter().map(|cell| cell.id).collect();
    let Some(numa) = input.xml.at(&["cpu", "numa"]) else {
        let cells = cells.iter().map(|cell| element(&ids, cell, &[]));
        return Some(Element::new("numa").children(cells));
    };
    let mut there: Vec<Node> = children(numa, "cell").collect();
    there.sort_by_key(|cell| cell.attribute("id").and_then(number));
    // How the memory is shared with other processes is the user's choice and stays.
    let kept = |name: &'static str| Some((name, there.first()?.attribute(name)?.to_owned()));
    let kept: Vec<(&'static str, String)> = ["memAccess", "discard"].into_iter().filter_map(kept).collect();
    if !placement.memory_only.is_empty() || there.len() == cells.len() {
        let with_cpus = (0..).zip(there).filter(|(id, _)| !placement.memory_only.contains(*id));
        let old: Vec<Node> = with_cpus.map(|(_, cell)| cell).collect();
        edit_cells(input, placement, &old, edits);
        let new = cells.iter().skip(old.len()).map(|cell| element(&ids, cell, &kept));
        edits.append(numa, &new.collect::<Vec<_>>());
        return None;
    }
    let links = child(numa, "interconnects");
    note_removed_elements(&there, links, cells.len(), notes);
    there.iter().copied().chain(links).for_each(|old| edits.remove(old));
    let cells: Vec<Element> = cells.iter().map(|cell| element(&ids, cell, &kept)).collect();
    edits.append(numa, &cells);
    None
}

/// Updates the virtual CPUs, memory and distances of existing node elements.
fn edit_cells<'a>(
    input: &PlanInput<'_, 'a>,
    placement: &DomainPlacement,
    old: &[Node<'_, 'a>],
    edits: &mut Edits<'_, 'a>,
) {
    let ids: Vec<u32> = placement.cells.iter().map(|hosted| hosted.cell.id).collect();
    for (old, CellOnHost { cell, .. }) in old.iter().zip(&placement.cells) {
        edits.set(*old, "cpus", &cell.vcpus);
        if input.before.cells.iter().all(|was| was.id != cell.id || was.memory_kib != cell.memory_kib) {
            edits.set(*old, "memory", cell.memory_kib);
            edits.set(*old, "unit", "KiB");
        }
        if cell.distances.is_empty() {
            continue;
        }
        match child(*old, "distances") {
            Some(_) if cell.distances == distances_in_xml(input, cell.id) => {}
            Some(distances) => set_distances(distances, &ids, cell, placement, edits),
            None => edits.append(*old, &[siblings(&ids, cell)]),
        }
    }
}

/// Sets the distance to each node. Distances to memory-only nodes and other content stay unchanged.
fn set_distances<'a>(
    distances: Node<'_, 'a>,
    ids: &[u32],
    cell: &Cell,
    placement: &DomainPlacement,
    edits: &mut Edits<'_, 'a>,
) {
    let mut wanted: BTreeMap<u32, &u32> = ids.iter().copied().zip(&cell.distances).collect();
    for sibling in children(distances, "sibling") {
        let id = sibling.attribute("id").and_then(number).and_then(|id| u32::try_from(id).ok());
        match id.and_then(|id| wanted.remove(&id)) {
            Some(far) => edits.set(sibling, "value", far),
            None if id.is_some_and(|id| placement.memory_only.contains(id)) => {}
            None => edits.remove(sibling),
        }
    }
    let missing: Vec<Element> = wanted.into_iter().map(|(to, far)| sibling(to, *far)).collect();
    edits.append(distances, &missing);
}

/// Reports parts of the old nodes, such as `<cache>` (HMAT), that do not fit the new nodes and are removed.
fn note_removed_elements(old: &[Node], links: Option<Node>, new: usize, notes: &mut Notes) {
    let inside = old.iter().flat_map(Node::children).filter(Node::is_element);
    let removed: BTreeSet<&str> =
        inside.chain(links).map(|node| node.tag_name().name()).filter(|name| *name != "distances").collect();
    if !removed.is_empty() {
        let removed: Vec<String> = removed.into_iter().map(|name| format!("<{name}>")).collect();
        notes.push(format!(
            "removed with the guest's old nodes: {}; there were {} nodes, and the plan replaces them by {new}",
            removed.join(" and "),
            old.len()
        ));
    }
}

/// Returns the distances of a cell in the XML.
fn distances_in_xml(input: &PlanInput, id: u32) -> Vec<u32> {
    let cell = input.before.cells.iter().find(|cell| cell.id == id);
    cell.map(|cell| cell.distances.clone()).unwrap_or_default()
}

fn element(ids: &[u32], cell: &Cell, kept: &[(&'static str, String)]) -> Element {
    let element = Element::new("cell")
        .with("id", cell.id)
        .with("cpus", &cell.vcpus)
        .with("memory", cell.memory_kib)
        .with("unit", "KiB");
    let element = kept.iter().fold(element, |element, (name, value)| element.with(name, value));
    if cell.distances.is_empty() { element } else { element.child(siblings(ids, cell)) }
}

fn siblings(ids: &[u32], cell: &Cell) -> Element {
    let siblings = ids.iter().zip(&cell.distances).map(|(to, far)| sibling(*to, *far));
    Element::new("distances").children(siblings)
}

fn sibling(to: u32, far: u32) -> Element {
    Element::new("sibling").with("id", to).with("value", far)
}

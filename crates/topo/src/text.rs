//! The machine for reading: its properties, its topology as a tree, and its devices.
//!
//! Units that differ only in their numbers share one line, so that 256 CPUs fit on a screen. Units that
//! differ in anything else have their own line.

use crate::{device_text, node_table};
use manycore_render::document::Document;
use manycore_text::units;
use manycore_topology::{
    CpuSet, Machine,
    machine::System,
    topology_tree::{Part, TopologyTree, TopologyUnit, kind_of},
};

/// Returns the whole report.
pub fn render(machine: &Machine) -> Document {
    let topology = TopologyTree::new(machine);
    let mut document = Document::new();
    header(machine, &mut document);
    document.gap();
    attached(machine, &topology.root, "", &mut document);
    children(machine, &topology.root, "", "", &mut document);
    for part in &topology.overlapping {
        document.paragraph(format!(
            "Overlaps the tree: {}  {}",
            part.label(machine),
            cpu_list(part.cpus(machine))
        ));
    }
    if let Some(nodes) = node_table::table(machine) {
        document.gap();
        document.table(nodes);
    }
    if let Some(devices) = device_text::summary(machine) {
        document.gap();
        document.paragraph(devices);
    }
    document
}

/// Adds the properties of the machine and what this process may use of it.
fn header(machine: &Machine, document: &mut Document) {
    let system = &machine.system;
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(system.hostname.clone().map(|name| ("Host", name)));
    rows.extend(system.hardware.clone().map(|name| ("Hardware", name)));
    rows.extend(system.bios.clone().map(|name| ("BIOS", name)));
    rows.extend(processor(system).map(|name| ("Processor", name)));
    rows.extend(software(system).map(|name| ("System", name)));
    rows.extend(system.hypervisor.clone().map(|name| ("Guest of", name)));
    rows.push(("CPUs", cpus(machine)));
    rows.extend(core_kinds(machine).into_iter().map(|kind| ("Core kind", kind)));
    rows.extend(system.memory_bytes.map(|bytes| ("Memory", memory(machine, bytes))));
    rows.extend(system.memory_modules.clone().map(|modules| ("Modules", modules)));
    rows.push(("Allowed", allowed(machine)));
    for (name, value) in rows {
        document.field(name, value);
    }
}

fn processor(system: &System) -> Option<String> {
    match (&system.cpu_model, &system.cpu_id) {
        (Some(model), Some(id)) => Some(format!("{model} ({id})")),
        (model, id) => model.clone().or_else(|| id.clone()),
    }
}

fn software(system: &System) -> Option<String> {
    let kernel = system.kernel.as_ref().map(|release| format!("Linux {release}"));
    let parts: Vec<String> =
        [system.os.clone(), kernel, system.architecture.clone()].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn cpus(machine: &Machine) -> String {
    let mut parts = vec![format!("{} online ({})", machine.online.len(), machine.online.brief())];
    let smt = if machine.has_smt() { " with SMT" } else { "" };
    let count = |count: usize, name: &str| match count {
        0 => None,
        1 => Some(format!("1 {name}")),
        _ => Some(format!("{count} {name}s")),
    };
    parts.extend(count(machine.cores.len(), "core").map(|cores| cores + smt));
    if machine.dies != machine.packages {
        parts.extend(count(machine.dies.len(), "die"));
    }
    parts.extend(count(machine.clusters.len(), "cluster"));
    parts.extend(count(machine.packages.len(), "package"));
    for (name, set) in [("offline", &machine.offline), ("isolated", &machine.isolated)] {
        if !set.is_empty() {
            parts.push(format!("{} {name} ({})", set.len(), set.brief()));
        }
    }
    parts.join(", ")
}

fn core_kinds(machine: &Machine) -> Vec<String> {
    let several = machine.core_kinds.iter().filter(|_| machine.core_kinds.len() > 1);
    several
        .map(|kind| {
            let capacity = kind.capacity.map(|capacity| format!(", capacity {capacity}")).unwrap_or_default();
            let clock =
                kind.max_khz.map(|khz| format!(", up to {}", units::gigahertz(khz))).unwrap_or_default();
            format!("{}: CPUs {}{capacity}{clock}", kind.name, kind.cpus.brief())
        })
        .collect()
}

fn memory(machine: &Machine, bytes: u64) -> String {
    let nodes = match machine.nodes.len() {
        0 | 1 => "1 NUMA node".to_owned(),
        count => format!("{count} NUMA nodes"),
    };
    format!("{} in {nodes}", units::bytes(bytes))
}

fn allowed(machine: &Machine) -> String {
    let allowed = &machine.allowed;
    if allowed.effective_limit == "nothing" && allowed.cpus == machine.online {
        return "all CPUs; not limited".to_owned();
    }
    let (count, online) = (allowed.cpus.len(), machine.online.len());
    format!("{} ({count} of {online}); limited by: {}", cpu_list(&allowed.cpus), allowed.effective_limit)
}

/// Adds the children of a unit: one line for each run of equal units, followed by the children of the
/// first unit of the run. `more` is appended to the CPUs where they are those of the first of several equal
/// units.
fn children(machine: &Machine, unit: &TopologyUnit, indent: &str, more: &str, document: &mut Document) {
    let runs: Vec<&[TopologyUnit]> = unit.runs().collect();
    let loose =
        if unit.is_core() || unit.children.is_empty() { CpuSet::new() } else { unit.cpus_without_child() };
    let last = runs.len() + usize::from(!loose.is_empty());
    for (index, run) in runs.iter().enumerate() {
        let (branch, stem) = if index + 1 == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let (branch, stem) = if unit.parts.is_empty() { ("", "") } else { (branch, stem) };
        let cpus = run.iter().fold(CpuSet::new(), |all, unit| all.union(&unit.cpus));
        document.branch(format!("{indent}{branch}{}", run_label(machine, run)), cpu_list(&cpus) + more);
        // Below the top of the tree, memory and devices are aligned with the unit's children.
        let inner = if unit.parts.is_empty() { String::new() } else { format!("{indent}{stem}") };
        attached(machine, &run[0], &inner, document);
        children(machine, &run[0], &inner, if run.len() > 1 { ", ..." } else { more }, document);
    }
    if !loose.is_empty() {
        document.branch(format!("{indent}└─ CPUs without a core"), cpu_list(&loose) + more);
    }
}

fn cpu_list(cpus: &CpuSet) -> String {
    if cpus.len() == 1 { format!("CPU {cpus}") } else { format!("CPUs {}", cpus.brief()) }
}

/// Returns the label: `package 0 = node 0 16 GiB = L3 32 MiB`, or `8 × core of 2 CPUs: L2 1 MiB, L1d 48
/// KiB, L1i 32 KiB`.
fn run_label(machine: &Machine, run: &[TopologyUnit]) -> String {
    let unit = &run[0];
    let many = if run.len() > 1 { format!("{} × ", run.len()) } else { String::new() };
    let threads = match unit.cpus.len() {
        count if unit.is_core() && count > 1 => format!(" of {count} CPUs"),
        _ => String::new(),
    };
    let kind = kind_of(machine, &unit.cpus).filter(|_| unit.is_core()).map(|kind| format!("{kind} "));
    let (outer, caches): (Vec<Part>, Vec<Part>) =
        unit.parts.iter().partition(|part| !unit.is_core() || !matches!(part, Part::Cache(_)));
    let name = |part: &Part| match part {
        Part::Core(_) => format!("{}core{threads}", kind.as_deref().unwrap_or_default()),
        part if run.len() > 1 => plural_label(machine, run, *part),
        part => part.label(machine),
    };
    let names: Vec<String> = outer.iter().map(name).collect();
    let caches: Vec<String> = caches.iter().map(|part| part.kind_and_size(machine)).collect();
    let inside = if caches.is_empty() { String::new() } else { format!(": {}", caches.join(", ")) };
    format!("{many}{}{inside}", names.join(" = "))
}

/// Returns the label of a part for a run of units, with the numbers of all of them: `node 0-63 16 GiB`.
fn plural_label(machine: &Machine, run: &[TopologyUnit], part: Part) -> String {
    let place = run[0].parts.iter().position(|other| *other == part);
    let ids: Option<Vec<i64>> =
        run.iter().map(|unit| unit.parts.get(place?).and_then(|part| part.id(machine))).collect();
    let ids: Option<CpuSet> =
        ids.map(|ids| ids.into_iter().filter_map(|id| u32::try_from(id).ok()).collect());
    // Numbers of dies and clusters repeat or have gaps, so only those of packages and nodes are shown.
    let telling = matches!(part, Part::Package(_) | Part::Node(_));
    let ids = match ids.filter(|ids| telling && ids.len() == run.len()) {
        Some(ids) => format!(" {ids}"),
        None => String::new(),
    };
    let size = part.size(machine).map(|size| format!(" {}", units::bytes(size))).unwrap_or_default();
    let each = if matches!(part, Part::Node(_)) && !size.is_empty() { " each" } else { "" };
    part.kind(machine) + &ids + &size + each
}

/// Adds the memory-only nodes and the devices that are attached to a unit.
fn attached(machine: &Machine, unit: &TopologyUnit, indent: &str, document: &mut Document) {
    let bar =
        if unit.children.is_empty() || indent.is_empty() && unit.parts.is_empty() { "  " } else { "│ " };
    let mut add = |label: String| document.branch(format!("{indent}{bar}{label}"), "");
    for &at in &unit.memory {
        let node = &machine.nodes[at];
        let tier = node.tier.map(|tier| format!(", tier {tier}")).unwrap_or_default();
        let size = units::bytes(node.memory_bytes.unwrap_or(0));
        add(format!("memory: node {} {size}, without CPUs{tier}", node.id));
    }
    for &at in unit.devices.iter().filter(|&&at| device_text::is_relevant(&machine.devices[at])) {
        add(device_text::line(&machine.devices[at]));
    }
}

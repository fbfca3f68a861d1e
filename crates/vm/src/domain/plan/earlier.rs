//! Checks of elements that an earlier plan or the user wrote and that this plan keeps: they must not
//! contradict the new placement.

use super::{Refused, Task, seats::Seats, tune};
use crate::domain::{
    address::PciAddress,
    edit::Edits,
    guest::devices_of,
    read::{attribute, cpu_list},
    wish::Dialect,
};
use manycore_linux::vms::xml::{child, children, is, number};
use manycore_topology::CpuSet;
use roxmltree::Node;
use std::collections::BTreeSet;

/// Attributes of the nodes in `<memorytune>` that only openEuler has.
const OPENEULERS: [&str; 3] = ["min_bandwidth", "hardlimit", "priority"];

/// Checks that virtual CPUs stay on the nodes to which their memory is bound. A plan without nodes leaves the
/// binding of the memory unchanged.
pub(super) fn check_bound(task: &Task, seats: &Seats) -> Result<(), Refused> {
    if !seats.cells.is_empty() {
        return Ok(());
    }
    let Some(tune) = task.xml.at(&["numatune"]) else { return Ok(()) };
    let memory = child(tune, "memory");
    let every: CpuSet = (0..seats.pins.len() as u32).collect();
    if task.before.cells.is_empty() {
        return memory.map_or(Ok(()), |memory| check_one(task, seats, memory, &every, "the memory"));
    }
    for cell in &task.before.cells {
        let is_own = |node: &Node| node.attribute("cellid").and_then(number) == Some(u64::from(cell.id));
        if let Some(bound) = children(tune, "memnode").find(is_own).or(memory) {
            let what = format!("the memory of the guest's node {}", cell.id);
            check_one(task, seats, bound, &cell.vcpus, &what)?;
        }
    }
    Ok(())
}

/// Checks one `<memory>` or `<memnode>` for the virtual CPUs that use it. Nodes without CPUs are ignored.
fn check_one(task: &Task, seats: &Seats, bound: Node, vcpus: &CpuSet, what: &str) -> Result<(), Refused> {
    let is_bound = matches!(bound.attribute("mode"), None | Some("strict" | "restrictive"));
    if !is_bound || !bound.has_attribute("nodeset") || bound.attribute("placement") == Some("auto") {
        return Ok(());
    }
    let nodes = cpu_list(bound, "nodeset")?;
    let own = task.machine.nodes.iter().filter(|node| nodes.contains(node.id));
    let near = CpuSet::union_of(own.map(|node| &node.cpus));
    let pins = vcpus.iter().filter_map(|vcpu| seats.pins.get(vcpu as usize));
    let far = CpuSet::union_of(pins).difference(&near);
    if near.is_empty() || far.is_empty() {
        return Ok(());
    }
    Err(Refused::Demand(format!(
        "<numatune> binds {what} to {} {nodes} of the host, but with {} its virtual CPUs ({vcpus}) may run on CPUs \
         {far} of other nodes: remove <numatune> from the XML, and <numa> if an earlier plan wrote it, or choose a \
         policy that makes nodes (--policy close, spread or spread@node)",
        if nodes.len() == 1 { "node" } else { "nodes" },
        task.wish.policy
    )))
}

/// Removes what only the libvirt of openEuler accepts if upstream libvirt is to read the XML.
pub(super) fn leave_dialect<'a>(task: &Task<'_, 'a>, edits: &mut Edits<'_, 'a>, notes: &mut Vec<String>) {
    if task.wish.dialect != Dialect::Upstream {
        return;
    }
    let mut lost = Vec::new();
    for device in devices_of(task.xml).filter(|device| is(*device, "hostdev")) {
        if let Some(numa) = child(device, "numa") {
            edits.remove(numa);
            let host = PciAddress::on_host(device).map(|host| format!(" of device {host}"));
            lost.push(format!("<numa>{}", host.unwrap_or_default()));
        }
    }
    let mut attributes = BTreeSet::new();
    for tune in tunes(task, "memorytune") {
        let parts: Vec<Node> = children(tune, "node").collect();
        for node in &parts {
            for name in OPENEULERS.into_iter().filter(|name| node.has_attribute(*name)) {
                edits.unset(*node, name);
                attributes.insert(name);
            }
        }
        // Upstream libvirt has no use for a node without a bandwidth.
        let is_empty = |node: &Node| !node.has_attribute("bandwidth");
        if !task.wish.tune.has_memory() && !parts.is_empty() && parts.iter().all(is_empty) {
            edits.remove(tune);
        } else {
            parts.into_iter().filter(is_empty).for_each(|node| edits.remove(node));
        }
    }
    if !attributes.is_empty() {
        let names: Vec<&str> = attributes.into_iter().collect();
        lost.push(format!("{} of <memorytune>", names.join(", ")));
    }
    if !lost.is_empty() {
        notes.push(format!(
            "removed, since only openEuler's libvirt accepts it: {} (--dialect openeuler keeps it)",
            lost.join("; ")
        ));
    }
}

/// Reports limits that stay unchanged but do not cover all nodes or caches that their virtual CPUs now use.
pub(super) fn say_uncovered(task: &Task, seats: &Seats, notes: &mut Vec<String>) -> Result<(), Refused> {
    let wish = &task.wish.tune;
    let kinds = [
        ("memorytune", "node", "--bandwidth", wish.has_memory()),
        ("cachetune", "cache", "--cache", !wish.cache.is_empty()),
    ];
    for (name, inner, option, is_new) in kinds {
        for there in tunes(task, name).into_iter().filter(|_| !is_new) {
            let vcpus = cpu_list(there, "vcpus")?;
            let pins = vcpus.iter().filter_map(|vcpu| seats.pins.get(vcpu as usize));
            let cpus = CpuSet::union_of(pins);
            let used = match name {
                "memorytune" => tune::bandwidth_ids(task, &cpus),
                _ => tune::cache_ids(task, &cpus),
            };
            let told: Result<BTreeSet<u32>, _> =
                children(there, inner).map(|one| attribute(one, "id")).collect();
            let told = told?;
            let missing: CpuSet = used.into_iter().filter(|id| !told.contains(id)).collect();
            if !told.is_empty() && !missing.is_empty() {
                let told: CpuSet = told.into_iter().collect();
                notes.push(format!(
                    "<{name}> for virtual CPUs {vcpus} is unchanged and limits the ids {told}; the virtual CPUs now \
                     use {missing} too or instead, without a limit: request a new limit ({option}), or remove the \
                     element"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the elements of this name in `<cputune>`.
fn tunes<'n, 'a>(task: &'n Task<'_, 'a>, name: &str) -> Vec<Node<'n, 'a>> {
    let tune = task.xml.at(&["cputune"]);
    tune.into_iter().flat_map(|tune| children(tune, name).collect::<Vec<_>>()).collect()
}

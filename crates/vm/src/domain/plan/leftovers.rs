//! Checks of elements that an earlier plan or the user wrote and that this plan keeps: they must not
//! contradict the new placement.

use super::{PlanInput, tune, vcpu_placement::DomainPlacement};
use crate::{
    domain::{
        address::PciAddress,
        edit::Edits,
        guest::devices_of,
        read::{attribute, cpu_list},
        request::LibvirtDialect,
    },
    error::PlanError,
    remedy::{Notes, Remedy},
};
use manycore_text::xml::{Node, child, children, is_element, number};
use manycore_topology::CpuSet;
use std::collections::BTreeSet;

/// Attributes of the nodes in `<memorytune>` that only openEuler has.
const OPENEULER_ATTRIBUTES: [&str; 3] = ["min_bandwidth", "hardlimit", "priority"];

/// Checks that virtual CPUs stay on the nodes to which their memory is bound. A plan without nodes leaves the
/// binding of the memory unchanged.
pub(super) fn check_memory_binding(input: &PlanInput, placement: &DomainPlacement) -> Result<(), PlanError> {
    if !placement.cells.is_empty() {
        return Ok(());
    }
    let Some(tune) = input.xml.at(&["numatune"]) else { return Ok(()) };
    let memory = child(tune, "memory");
    let every: CpuSet = (0..placement.pins.len() as u32).collect();
    if input.before.cells.is_empty() {
        return memory.map_or(Ok(()), |memory| check_one(input, placement, memory, &every, "the memory"));
    }
    for cell in &input.before.cells {
        let is_own = |node: &Node| node.attribute("cellid").and_then(number) == Some(u64::from(cell.id));
        if let Some(bound) = children(tune, "memnode").find(is_own).or(memory) {
            let what = format!("the memory of the guest's node {}", cell.id);
            check_one(input, placement, bound, &cell.vcpus, &what)?;
        }
    }
    Ok(())
}

/// Checks one `<memory>` or `<memnode>` for the virtual CPUs that use it. Nodes without CPUs are ignored.
fn check_one(
    input: &PlanInput,
    placement: &DomainPlacement,
    bound: Node,
    vcpus: &CpuSet,
    what: &str,
) -> Result<(), PlanError> {
    let has_bound_memory = matches!(bound.attribute("mode"), None | Some("strict" | "restrictive"));
    if !has_bound_memory || !bound.has_attribute("nodeset") || bound.attribute("placement") == Some("auto") {
        return Ok(());
    }
    let nodes = cpu_list(bound, "nodeset")?;
    let own = input.machine.nodes.iter().filter(|node| nodes.contains(node.id));
    let near = CpuSet::union_of(own.map(|node| &node.cpus));
    let pins = vcpus.iter().filter_map(|vcpu| placement.pins.get(vcpu as usize));
    let far = CpuSet::union_of(pins).difference(&near);
    if near.is_empty() || far.is_empty() {
        return Ok(());
    }
    Err(PlanError::resolved_by(
        Remedy::Policy,
        format!(
            "<numatune> binds {what} to {} {nodes} of the host, but with {} its virtual CPUs ({vcpus}) may run on \
             CPUs {far} of other nodes: remove <numatune> from the XML, and <numa> if an earlier plan wrote it, or \
             choose a policy that makes nodes (close, spread or spread@node)",
            if nodes.len() == 1 { "node" } else { "nodes" },
            input.request.policy
        ),
    ))
}

/// Removes what only the libvirt of openEuler accepts if upstream libvirt is to read the XML.
pub(super) fn remove_dialect_elements<'a>(
    input: &PlanInput<'_, 'a>,
    edits: &mut Edits<'_, 'a>,
    notes: &mut Notes,
) {
    if input.request.dialect != LibvirtDialect::Upstream {
        return;
    }
    let mut removed = Vec::new();
    for device in devices_of(input.xml).filter(|device| is_element(*device, "hostdev")) {
        if let Some(numa) = child(device, "numa") {
            edits.remove(numa);
            let host = PciAddress::on_host(device).map(|host| format!(" of device {host}"));
            removed.push(format!("<numa>{}", host.unwrap_or_default()));
        }
    }
    let mut attributes = BTreeSet::new();
    for tune in tune_elements(input, "memorytune") {
        let parts: Vec<Node> = children(tune, "node").collect();
        for node in &parts {
            for name in OPENEULER_ATTRIBUTES.into_iter().filter(|name| node.has_attribute(*name)) {
                edits.remove_attribute(*node, name);
                attributes.insert(name);
            }
        }
        // Upstream libvirt has no use for a node without a bandwidth.
        let is_empty = |node: &Node| !node.has_attribute("bandwidth");
        if !input.request.tune.limits_bandwidth() && !parts.is_empty() && parts.iter().all(is_empty) {
            edits.remove(tune);
        } else {
            parts.into_iter().filter(is_empty).for_each(|node| edits.remove(node));
        }
    }
    if !attributes.is_empty() {
        let names: Vec<&str> = attributes.into_iter().collect();
        removed.push(format!("{} of <memorytune>", names.join(", ")));
    }
    if !removed.is_empty() {
        notes.push_with(
            Remedy::OpenEuler,
            format!(
                "removed, since only openEuler's libvirt accepts it: {} (a plan for that libvirt keeps it)",
                removed.join("; ")
            ),
        );
    }
}

/// Reports limits that stay unchanged but do not cover all nodes or caches that their virtual CPUs now use.
pub(super) fn note_uncovered_limits(
    input: &PlanInput,
    placement: &DomainPlacement,
    notes: &mut Notes,
) -> Result<(), PlanError> {
    let request = &input.request.tune;
    let kinds = [
        ("memorytune", "node", Remedy::Bandwidth, request.limits_bandwidth()),
        ("cachetune", "cache", Remedy::CacheShare, !request.cache.is_empty()),
    ];
    for (name, inner, remedy, is_new) in kinds {
        for there in tune_elements(input, name).into_iter().filter(|_| !is_new) {
            let vcpus = cpu_list(there, "vcpus")?;
            let pins = vcpus.iter().filter_map(|vcpu| placement.pins.get(vcpu as usize));
            let cpus = CpuSet::union_of(pins);
            let used = match name {
                "memorytune" => tune::bandwidth_ids(input, &cpus),
                _ => tune::cache_ids(input, &cpus),
            };
            let limited: Result<BTreeSet<u32>, _> =
                children(there, inner).map(|one| attribute(one, "id")).collect();
            let limited = limited?;
            let missing: CpuSet = used.into_iter().filter(|id| !limited.contains(id)).collect();
            if !limited.is_empty() && !missing.is_empty() {
                let limited: CpuSet = limited.into_iter().collect();
                notes.push_with(
                    remedy,
                    format!(
                        "<{name}> for virtual CPUs {vcpus} is unchanged and limits the ids {limited}; the virtual \
                         CPUs now use {missing} too or instead, without a limit: request a new limit, or remove the \
                         element"
                    ),
                );
            }
        }
    }
    Ok(())
}

/// Returns the elements of this name in `<cputune>`.
fn tune_elements<'n, 'a>(input: &'n PlanInput<'_, 'a>, name: &str) -> Vec<Node<'n, 'a>> {
    let tune = input.xml.at(&["cputune"]);
    tune.into_iter().flat_map(|tune| children(tune, name).collect::<Vec<_>>()).collect()
}

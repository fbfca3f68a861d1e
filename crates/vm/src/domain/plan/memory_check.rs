//! Check of whether the memory that the plan takes from each host node is available now.

use super::{PlanInput, huge_pages, vcpu_placement::DomainPlacement};
use crate::{error::PlanError, remedy::Notes};
use manycore_text::units;
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Memory that the guest takes from each set of host nodes, in KiB, by page size; `None` for normal pages.
type MemoryNeeds<'s> = BTreeMap<(&'s CpuSet, Option<u64>), u64>;

/// Adds a note for each set of host nodes with less free memory than the guest takes: libvirt or QEMU could
/// not start the guest, or the kernel would kill it.
pub(super) fn check(
    input: &PlanInput,
    placement: &DomainPlacement,
    notes: &mut Notes,
) -> Result<(), PlanError> {
    let available = &input.request.available;
    if available.nodes.is_empty() {
        return Ok(());
    }
    let sizes: BTreeMap<u32, Option<u64>> =
        huge_pages::page_sizes_of_cells(input, &placement.node_ids(), available.default_page_kib)?
            .into_iter()
            .collect();
    let mut needs: MemoryNeeds = BTreeMap::new();
    for hosted in &placement.cells {
        let size = sizes.get(&hosted.cell.id).copied().flatten();
        *needs.entry((&hosted.cell.host_nodes, size)).or_default() += hosted.cell.memory_kib;
    }
    for ((nodes, size), kib) in needs {
        let there = nodes.iter().filter_map(|node| Some((node, available.nodes.get(&node)?)));
        match size {
            None => {
                let free: Option<u64> = there.map(|(_, node)| node.free_bytes).sum();
                if let Some(note) = free.and_then(|free| insufficient_memory_note(nodes, free, kib << 10)) {
                    notes.push(note);
                }
            }
            Some(size) => {
                let own = there.map(|(_, node)| node.pages.get(&size).copied().unwrap_or_default());
                let (total, free) = own.fold((0, 0), |sum, own| (sum.0 + own.total, sum.1 + own.free));
                if let Some(note) =
                    insufficient_huge_pages_note(nodes, size, (total, free), kib.div_ceil(size))
                {
                    notes.push(note);
                }
            }
        }
    }
    Ok(())
}

fn insufficient_memory_note(nodes: &CpuSet, free: u64, needed: u64) -> Option<String> {
    (free < needed).then(|| {
        format!(
            "node {nodes} of the host has {} free now, and {} of the guest's memory come from there (if the guest \
             already runs there, the memory that it holds now is not counted as free)",
            units::bytes(free),
            units::bytes(needed)
        )
    })
}

fn insufficient_huge_pages_note(
    nodes: &CpuSet,
    size: u64,
    (total, free): (u64, u64),
    needed: u64,
) -> Option<String> {
    if free >= needed {
        return None;
    }
    let first = nodes.first()?;
    let more = total + needed - free;
    Some(format!(
        "node {nodes} of the host has {free} of {total} huge pages of {} free, but the guest needs {needed} and \
         cannot start without them: echo {more} \
         >/sys/devices/system/node/node{first}/hugepages/hugepages-{size}kB/nr_hugepages makes more (if the guest \
         already runs there, the pages that it holds now are not counted as free)",
        units::bytes(size << 10)
    ))
}

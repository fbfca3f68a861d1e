//! Check of whether the memory that the plan takes from each host node is available now.

use super::{Refused, Task, pages, seats::Seats};
use manycore_text::units;
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// Memory that the guest takes from each set of host nodes, in KiB, by page size; `None` for normal pages.
type Needs<'s> = BTreeMap<(&'s CpuSet, Option<u64>), u64>;

/// Adds a note for each set of host nodes with less free memory than the guest takes: libvirt or QEMU could
/// not start the guest, or the kernel would kill it.
pub(super) fn check(task: &Task, seats: &Seats, notes: &mut Vec<String>) -> Result<(), Refused> {
    let room = &task.wish.room;
    if room.nodes.is_empty() {
        return Ok(());
    }
    let sizes: BTreeMap<u32, Option<u64>> =
        pages::of_cells(task, &seats.node_ids(), room.default_page_kib)?.into_iter().collect();
    let mut needs: Needs = BTreeMap::new();
    for hosted in &seats.cells {
        let size = sizes.get(&hosted.cell.id).copied().flatten();
        *needs.entry((&hosted.cell.host_nodes, size)).or_default() += hosted.cell.memory_kib;
    }
    for ((nodes, size), kib) in needs {
        let there = nodes.iter().filter_map(|node| Some((node, room.nodes.get(&node)?)));
        match size {
            None => {
                let free: Option<u64> = there.map(|(_, node)| node.free_bytes).sum();
                notes.extend(free.and_then(|free| too_little(nodes, free, kib << 10)));
            }
            Some(size) => {
                let own = there.map(|(_, node)| node.pages.get(&size).copied().unwrap_or_default());
                let (total, free) = own.fold((0, 0), |sum, own| (sum.0 + own.total, sum.1 + own.free));
                notes.extend(too_few(nodes, size, (total, free), kib.div_ceil(size)));
            }
        }
    }
    Ok(())
}

fn too_little(nodes: &CpuSet, free: u64, needed: u64) -> Option<String> {
    (free < needed).then(|| {
        format!(
            "node {nodes} of the host has {} free now, and {} of the guest's memory come from there (if the guest \
             already runs there, the memory that it holds now is not counted as free)",
            units::bytes(free),
            units::bytes(needed)
        )
    })
}

fn too_few(nodes: &CpuSet, size: u64, (total, free): (u64, u64), needed: u64) -> Option<String> {
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

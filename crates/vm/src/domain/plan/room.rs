//! Whether the memory that the plan takes from each node of the host is free there now.

use super::{Refused, Task, pages, seats::Seats};
use manycore_text::units;
use manycore_topology::CpuSet;
use std::collections::BTreeMap;

/// What the guest takes of one set of the host's nodes, in KiB by the size of its pages; usual pages have none.
type Needs<'s> = BTreeMap<(&'s CpuSet, Option<u64>), u64>;

/// Says where there is less than the guest takes: libvirt or QEMU would not start it, or the kernel would end it.
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
            "node {nodes} of the host has {} free now, and {} of the guest's memory come from there (if the guest runs \
             there already, what it has is not counted)",
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
        "node {nodes} of the host has {free} free huge pages of {} of {total}, and the guest needs {needed}: it will not \
         start without them; echo {more} >/sys/devices/system/node/node{first}/hugepages/hugepages-{size}kB/nr_hugepages \
         makes more (if the guest runs there already, what it has is not counted)",
        units::bytes(size << 10)
    ))
}

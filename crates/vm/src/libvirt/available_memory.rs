//! Available memory and free huge pages of each node (`/sys/devices/system/node/nodeN`).

use crate::domain::{AvailableMemory, HugePagePool, NodeAvailableMemory};
use manycore_topology::sys_tree::{SysTree, kilobytes};
use std::collections::BTreeMap;

const NODE: &str = "sys/devices/system/node";
/// Maximum size of a node's `meminfo`, in bytes; it has about forty lines.
const MAX_MEMINFO_BYTES: usize = 8192;
/// Lines of a node's `meminfo` whose memory is free or can be reclaimed.
const AVAILABLE: [&str; 4] = ["MemFree:", "Active(file):", "Inactive(file):", "SReclaimable:"];

/// Returns the available memory of each node; empty on a kernel without NUMA, which has no such files.
pub fn available_memory(tree: &SysTree) -> AvailableMemory {
    let nodes = tree.numbered_entries(NODE, "node");
    AvailableMemory {
        nodes: nodes.iter().map(|node| (node, of_node(tree, node))).collect(),
        default_page_kib: field(&tree.read("proc/meminfo").unwrap_or_default(), "Hugepagesize:")
            .map(|bytes| bytes >> 10),
    }
}

fn of_node(tree: &SysTree, node: u32) -> NodeAvailableMemory {
    let meminfo = tree
        .read_part(&format!("{NODE}/node{node}/meminfo"), MAX_MEMINFO_BYTES, str::to_owned)
        .unwrap_or_default();
    let free = field(&meminfo, AVAILABLE[0]);
    let reclaimable: u64 = AVAILABLE[1..].iter().filter_map(|name| field(&meminfo, name)).sum();
    let folder = format!("{NODE}/node{node}/hugepages");
    let pages: BTreeMap<u64, HugePagePool> = tree
        .list(&folder)
        .iter()
        .filter_map(|name| {
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let count = |what: &str| tree.number(&format!("{folder}/{name}/{what}"));
            Some((kib, HugePagePool { total: count("nr_hugepages")?, free: count("free_hugepages")? }))
        })
        .collect();
    NodeAvailableMemory { free_bytes: free.map(|free| free + reclaimable), pages }
}

/// Returns the bytes of a line of `meminfo`.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| kilobytes(line.split_once(name)?.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;

    #[test]
    fn free_memory_and_huge_pages_of_a_node_are_read() {
        let mut files = Capture::default();
        files.add_file("proc/meminfo", "MemTotal: 9 kB\nHugepagesize:       2048 kB\n");
        files.add_file(
            &format!("{NODE}/node1/meminfo"),
            "Node 1 MemTotal: 900 kB\nNode 1 MemFree: 100 kB\nNode 1 Inactive(file): 20 kB\nNode 1 Active(file): 3 kB\n\
             Node 1 SReclaimable: 1 kB\n",
        );
        for (name, value) in [("nr_hugepages", "8"), ("free_hugepages", "5")] {
            files.add_file(&format!("{NODE}/node1/hugepages/hugepages-2048kB/{name}"), value);
        }
        let available = available_memory(&SysTree::from_capture(files));
        let node = NodeAvailableMemory {
            free_bytes: Some(124 << 10),
            pages: BTreeMap::from([(2048, HugePagePool { total: 8, free: 5 })]),
        };
        assert_eq!(
            available,
            AvailableMemory { nodes: BTreeMap::from([(1, node)]), default_page_kib: Some(2048) }
        );
    }
}

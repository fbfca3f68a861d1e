//! Memory by node.

use crate::resources::NodeSample;
use manycore_topology::SysTree;

const NODES: &str = "sys/devices/system/node";

/// Reads the counters of all nodes. A node without memory has sizes of 0.
pub(super) fn read(tree: &SysTree, into: &mut Vec<NodeSample>) {
    into.clear();
    into.extend(tree.numbered_entries(NODES, "node").iter().map(|node| {
        let file = |name: &str| tree.read(&format!("{NODES}/node{node}/{name}")).unwrap_or_default();
        let (memory, pages) = (file("meminfo"), file("numastat"));
        // `Node 0 MemTotal:       24683520 kB`
        let kib = |name: &str| value(&memory, 2, name).unwrap_or(0);
        NodeSample {
            node,
            total_kib: kib("MemTotal:"),
            free_kib: kib("MemFree:"),
            file_kib: kib("FilePages:"),
            local_pages: value(&pages, 0, "local_node"),
            other_pages: value(&pages, 0, "other_node"),
            missed_pages: value(&pages, 0, "numa_miss"),
        }
    }));
}

/// Returns the number after the word `name` that is preceded by `skip` words.
fn value(text: &str, skip: usize, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(skip);
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;
    use proptest::prelude::*;

    #[test]
    fn nodes_are_read_and_what_is_missing_is_absent() {
        let mut capture = Capture::default();
        capture.add_file(
            &format!("{NODES}/node3/meminfo"),
            "Node 3 MemTotal:  2000 kB\nNode 3 MemFree:   500 kB\nNode 3 FilePages:  70 kB\nNode 3 Active:  1 kB\n",
        );
        capture.add_file(
            &format!("{NODES}/node3/numastat"),
            "numa_hit 9\nnuma_miss 3\nnuma_foreign 4\ninterleave_hit 5\nlocal_node 6\nother_node 7\n",
        );
        capture.add_file(&format!("{NODES}/node0/meminfo"), "");
        let mut nodes = Vec::new();
        read(&SysTree::from_capture(capture), &mut nodes);
        let full = NodeSample {
            node: 3,
            total_kib: 2000,
            free_kib: 500,
            file_kib: 70,
            local_pages: Some(6),
            other_pages: Some(7),
            missed_pages: Some(3),
        };
        assert_eq!(nodes, [NodeSample::default(), full]);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text in "(Node|[a-z0-9:]|[ \n]){0,80}", skip in 0..3_usize) {
            prop_assert_eq!(value(&text, skip, "none:"), None);
            let _ = value(&text, skip, "a");
        }
    }
}

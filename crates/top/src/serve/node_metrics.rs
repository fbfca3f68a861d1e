//! Families of memory by node, and of memory bandwidth.

use super::{exposition::Family, metrics::and, published::Published};
use crate::resources::NodeSample;

/// Returns the families that have the labels `node` or `domain`.
pub(super) fn families(published: &Published) -> Vec<Family> {
    let gauge = |name, help, kib: fn(&NodeSample) -> u64| {
        let mut family = Family::gauge(name, help);
        for node in &published.totals.nodes {
            let labels = vec![("node", node.node.to_string())];
            family.push(labels, Some(kib(node) as f64 * 1024.0));
        }
        family
    };
    vec![
        gauge("manycore_node_memory_bytes", "Memory of the node.", |node| node.total_kib),
        gauge("manycore_node_memory_free_bytes", "Free memory of the node.", |node| node.free_kib),
        gauge("manycore_node_memory_file_bytes", "Memory of the node that holds files.", |node| {
            node.file_kib
        }),
        pages(published),
        bandwidth(published),
    ]
}

fn pages(published: &Published) -> Family {
    let mut family = Family::counter(
        "manycore_node_pages",
        "Pages from the node: to its own processes (local), to those of other nodes (other), wanted elsewhere (missed).",
    );
    for node in &published.totals.nodes {
        let labels = vec![("node", node.node.to_string())];
        for (kind, pages) in
            [("local", node.local_pages), ("other", node.other_pages), ("missed", node.missed_pages)]
        {
            family.push(and(&labels, "kind", kind), pages.map(|pages| pages as f64));
        }
    }
    family
}

fn bandwidth(published: &Published) -> Family {
    let mut family = Family::counter(
        "manycore_memory_traffic_bytes",
        "Bytes to and from memory by domain of resctrl: all, and those of the own node (local).",
    );
    for (domain, [total, local]) in &published.totals.bandwidth {
        let labels = vec![("domain", domain.to_string())];
        family.push(and(&labels, "kind", "all"), *total);
        family.push(and(&labels, "kind", "local"), *local);
    }
    family
}

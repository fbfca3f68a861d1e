//! NUMA nodes with their memory, tiers and distances as a table.

use manycore_render::table::{Align, Table};
use manycore_text::units;
use manycore_topology::{CpuSet, Machine, machine::Node};
use std::collections::BTreeMap;

/// Maximum number of columns of a distance matrix that fits a screen. Beyond it, each node lists the others
/// by distance.
const MAX_MATRIX_NODES: usize = 16;

/// Returns the table; `None` for a machine with one node.
pub fn table(machine: &Machine) -> Option<Table> {
    let nodes = &machine.nodes;
    if nodes.len() < 2 {
        return None;
    }
    let tiers = nodes.iter().any(|node| node.tier.is_some());
    let far = nodes.iter().any(|node| !node.distances.is_empty());
    let matrix = far && nodes.len() <= MAX_MATRIX_NODES;
    let mut rows = Vec::new();
    for node in nodes {
        let mut row = vec![
            node.id.to_string(),
            node.memory_bytes.map_or_else(|| "?".to_owned(), units::bytes),
            cpus(node),
        ];
        if tiers {
            row.push(node.tier.map_or_else(|| "-".to_owned(), |tier| tier.to_string()));
        }
        if matrix {
            row.extend(node.distances.iter().map(u32::to_string));
        } else if far {
            row.push(by_distance(node, nodes));
        }
        rows.push(row);
    }
    let mut table = Table::new("", &heading(tiers, far && !matrix)).with_rows(rows);
    let to_node = |node: &Node| (format!("to {}", node.id), Align::Right);
    table.head.extend(nodes.iter().filter(|_| matrix).map(to_node));
    Some(table)
}

fn heading(tiers: bool, is_list: bool) -> Vec<(&'static str, Align)> {
    let mut head = vec![("NUMA node", Align::Right), ("memory", Align::Right), ("CPUs", Align::Left)];
    head.extend(tiers.then_some(("tier", Align::Right)));
    head.extend(is_list.then_some(("distance: nodes", Align::Left)));
    head
}

fn cpus(node: &Node) -> String {
    match (node.memory_only, node.cpus.is_empty()) {
        (false, _) => node.cpus.brief(),
        (true, true) => "none".to_owned(),
        (true, false) => format!("none (near {})", node.cpus.brief()),
    }
}

/// Lists the other nodes by distance: `10: 0; 17: 1-3; 22: 4-63`.
fn by_distance(node: &Node, nodes: &[Node]) -> String {
    let mut far: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (other, distance) in nodes.iter().zip(&node.distances) {
        far.entry(*distance).or_default().push(other.id);
    }
    let groups: Vec<String> =
        far.into_iter().map(|(distance, ids)| format!("{distance}: {}", CpuSet::from_iter(ids))).collect();
    groups.join("; ")
}

//! Renders NUMA nodes with their memory, tiers and distances as a table.

use manycore_text::units;
use manycore_topology::{CpuSet, Machine, machine::Node};
use std::collections::BTreeMap;

/// Maximum number of columns of a distance matrix that fits a screen. Beyond it, each node lists the others
/// by distance.
const MAX_MATRIX_NODES: usize = 16;

/// Returns the table; empty for a machine with one node.
pub fn render(machine: &Machine) -> String {
    let nodes = &machine.nodes;
    if nodes.len() < 2 {
        return String::new();
    }
    let tiers = nodes.iter().any(|node| node.tier.is_some());
    let far = nodes.iter().any(|node| !node.distances.is_empty());
    let matrix = far && nodes.len() <= MAX_MATRIX_NODES;
    let mut rows = vec![heading(nodes, tiers, far, matrix)];
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
    align(&rows, if matrix || !far { usize::MAX } else { rows[0].len() - 1 })
}

fn heading(nodes: &[Node], tiers: bool, far: bool, matrix: bool) -> Vec<String> {
    let mut row: Vec<String> = ["NUMA node", "memory", "CPUs"].map(str::to_owned).to_vec();
    row.extend(tiers.then(|| "tier".to_owned()));
    if matrix {
        row.extend(nodes.iter().map(|node| format!("to {}", node.id)));
    } else if far {
        row.push("distance: nodes".to_owned());
    }
    row
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

/// Aligns columns to equal widths: numbers to the right, CPU lists and the columns from `left` on to the
/// left.
fn align(rows: &[Vec<String>], left: usize) -> String {
    const CPUS: usize = 2;
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(column, cell)| match width(column) {
                width if column == CPUS || column >= left => format!("{cell:<width$}"),
                width => format!("{cell:>width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

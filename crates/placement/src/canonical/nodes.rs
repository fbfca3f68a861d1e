//! Finds out which NUMA nodes can be exchanged, by their memory and their distances.

use crate::cpu_tree::{Branch, CpuTree};
use manycore_topology::{machine::Node, topology_tree::Part};
use std::collections::HashMap;

/// Memory sizes that differ by less than this share of the smaller one count as equal: the firmware takes
/// some memory from the first node.
const SIZE_TOLERANCE: f64 = 0.1;

/// Maximum number of ways to exchange nodes that are tried. A ring of eight nodes has 16.
const MAX_NUMBERINGS: usize = 64;

/// Maximum number of steps of the search for them.
const MAX_SEARCH_STEPS: usize = 100_000;

/// The part of a canonical form that describes NUMA nodes.
pub(super) struct NodeSymmetries {
    /// Class of memory size, and tier, of each node.
    kinds: Vec<(usize, Option<u32>)>,
    /// Distance between nodes of different children, by the range of leaves of a branch, if distances
    /// follow the tree.
    distances: HashMap<(usize, usize), Option<u32>>,
    /// The numberings of the nodes that preserve all distances. One empty numbering if distances follow the
    /// tree and nodes need no numbers.
    pub numberings: Vec<Vec<usize>>,
}

impl NodeSymmetries {
    pub fn new(tree: &CpuTree) -> Self {
        let nodes = &tree.machine.nodes;
        let kinds: Vec<_> =
            memory_classes(nodes).into_iter().zip(nodes.iter().map(|node| node.tier)).collect();
        if let Some(distances) = by_tree(tree) {
            return Self { kinds, distances, numberings: vec![Vec::new()] };
        }
        let mut search = RenumberingSearch { nodes, kinds: &kinds, found: Vec::new(), steps: 0 };
        search.extend(&mut Vec::new());
        let whole = search.found.len() <= MAX_NUMBERINGS && search.steps <= MAX_SEARCH_STEPS;
        // An incomplete set would make the choice depend on the nodes' numbers.
        let numberings = if whole { search.found } else { vec![(0..nodes.len()).collect()] };
        Self { kinds, distances: HashMap::new(), numberings }
    }

    /// Returns the distance between nodes in different children of a branch.
    pub fn distance(&self, leaves: (usize, usize)) -> Option<u32> {
        self.distances.get(&leaves).copied().flatten()
    }

    /// Writes a node as part of a canonical form.
    pub fn part(&self, at: usize, numbers: &[usize]) -> String {
        let (memory, tier) = self.kinds[at];
        let number = numbers.get(at).map(|number| format!("#{number}")).unwrap_or_default();
        format!("node{number}={memory},{tier:?};")
    }
}

/// Returns for each node the class of its memory size, ascending; 0 for unknown, 1 for no memory.
fn memory_classes(nodes: &[Node]) -> Vec<usize> {
    let mut sizes: Vec<u64> =
        nodes.iter().filter_map(|node| node.memory_bytes).filter(|&size| size > 0).collect();
    sizes.sort_unstable();
    let alike = |a: &u64, b: &u64| ((b - a) as f64) < SIZE_TOLERANCE * *a as f64;
    let largest: Vec<u64> = sizes.chunk_by(alike).filter_map(|run| run.last().copied()).collect();
    let class = |node: &Node| match node.memory_bytes {
        None => 0,
        Some(0) => 1,
        Some(size) => 2 + largest.partition_point(|&last| last < size),
    };
    nodes.iter().map(class).collect()
}

/// Returns the distance of each branch if the distance of two nodes depends only on the smallest branch
/// that contains both.
fn by_tree(tree: &CpuTree) -> Option<HashMap<(usize, usize), Option<u32>>> {
    let nodes = &tree.machine.nodes;
    let mut spans = HashMap::new();
    find_nodes(&tree.root, &mut spans);
    let mut distances = HashMap::new();
    for (a, node) in nodes.iter().enumerate() {
        let from = spans.get(&a)?;
        if node.memory_only || node.distances.get(a) != nodes[0].distances.first() {
            return None;
        }
        for (b, to) in (0..nodes.len()).filter_map(|b| Some((b, spans.get(&b)?))).filter(|(b, _)| *b != a) {
            let distance = node.distances.get(b).copied();
            let (around, _) = tree.root.smallest_containing(from.0.min(to.0), from.1.max(to.1) - 1);
            let known = *distances.entry((around.leaves.start, around.leaves.end)).or_insert(distance);
            if known != distance {
                return None;
            }
        }
    }
    Some(distances)
}

fn find_nodes(branch: &Branch, spans: &mut HashMap<usize, (usize, usize)>) {
    for part in &branch.parts {
        if let Part::Node(at) = part {
            spans.insert(*at, (branch.leaves.start, branch.leaves.end));
        }
    }
    branch.children.iter().for_each(|child| find_nodes(child, spans));
}

/// Searches all renumberings of the nodes that preserve their kinds and distances.
struct RenumberingSearch<'a> {
    nodes: &'a [Node],
    kinds: &'a [(usize, Option<u32>)],
    found: Vec<Vec<usize>>,
    steps: usize,
}

impl RenumberingSearch<'_> {
    fn extend(&mut self, numbers: &mut Vec<usize>) {
        let next = numbers.len();
        if next == self.nodes.len() {
            self.found.push(numbers.clone());
            return;
        }
        for number in (0..self.nodes.len()).filter(|number| !numbers.contains(number)).collect::<Vec<_>>() {
            self.steps += 1;
            if self.found.len() > MAX_NUMBERINGS || self.steps > MAX_SEARCH_STEPS {
                return;
            }
            numbers.push(number);
            if self.keeps(numbers) {
                self.extend(numbers);
            }
            numbers.pop();
        }
    }

    /// Returns whether the number of the last node is possible.
    fn keeps(&self, numbers: &[usize]) -> bool {
        let at = numbers.len() - 1;
        let (a, b) = (&self.nodes[at], &self.nodes[numbers[at]]);
        let distance = |from: usize, to: usize| self.nodes[from].distances.get(to);
        self.kinds[at] == self.kinds[numbers[at]]
            && (a.memory_only, a.cpus.len()) == (b.memory_only, b.cpus.len())
            && numbers.iter().enumerate().all(|(other, &number)| {
                distance(at, other) == distance(numbers[at], number)
                    && distance(other, at) == distance(number, numbers[at])
            })
    }
}

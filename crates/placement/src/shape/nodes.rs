//! Which NUMA nodes can be exchanged: their memory and their distances.

use crate::tree::{Branch, Tree};
use manycore_topology::{machine::Node, outline::Part};
use std::collections::HashMap;

/// Memories whose sizes differ by less than this share of the smaller one are alike: the firmware takes a
/// little out of the first node.
const ALIKE: f64 = 0.1;

/// Most ways to exchange nodes that are tried; a ring of eight has 16.
const MOST_WAYS: usize = 64;

/// Most steps of the search for them.
const MOST_STEPS: usize = 100_000;

/// What of the nodes belongs to a shape.
pub(super) struct Nodes {
    /// Class of memory size, and tier, of each node.
    kinds: Vec<(usize, Option<u32>)>,
    /// Distance between nodes of different children, by the leaves of a branch; where distances follow the
    /// tree.
    distances: HashMap<(usize, usize), Option<u32>>,
    /// Ways to number the nodes that keep all distances. One that is empty where distances follow the tree,
    /// so that nodes need no number.
    pub numberings: Vec<Vec<usize>>,
}

impl Nodes {
    pub fn new(tree: &Tree) -> Self {
        let nodes = &tree.machine.nodes;
        let kinds: Vec<_> =
            memory_classes(nodes).into_iter().zip(nodes.iter().map(|node| node.tier)).collect();
        if let Some(distances) = by_tree(tree) {
            return Self { kinds, distances, numberings: vec![Vec::new()] };
        }
        let mut search = Search { nodes, kinds: &kinds, found: Vec::new(), steps: 0 };
        search.extend(&mut Vec::new());
        let whole = search.found.len() <= MOST_WAYS && search.steps <= MOST_STEPS;
        // Without all of them the choice among them would hang on the numbers of the nodes.
        let numberings = if whole { search.found } else { vec![(0..nodes.len()).collect()] };
        Self { kinds, distances: HashMap::new(), numberings }
    }

    /// Distance between the nodes in different children of a branch.
    pub fn distance(&self, leaves: (usize, usize)) -> Option<u32> {
        self.distances.get(&leaves).copied().flatten()
    }

    /// A node as a shape has it.
    pub fn part(&self, at: usize, numbers: &[usize]) -> String {
        let (memory, tier) = self.kinds[at];
        let number = numbers.get(at).map(|number| format!("#{number}")).unwrap_or_default();
        format!("node{number}={memory},{tier:?};")
    }
}

/// For each node the place of its memory's size among all sizes; 0 for unknown, 1 for none.
fn memory_classes(nodes: &[Node]) -> Vec<usize> {
    let mut sizes: Vec<u64> =
        nodes.iter().filter_map(|node| node.memory_bytes).filter(|&size| size > 0).collect();
    sizes.sort_unstable();
    let alike = |a: &u64, b: &u64| ((b - a) as f64) < ALIKE * *a as f64;
    let largest: Vec<u64> = sizes.chunk_by(alike).filter_map(|run| run.last().copied()).collect();
    let class = |node: &Node| match node.memory_bytes {
        None => 0,
        Some(0) => 1,
        Some(size) => 2 + largest.partition_point(|&last| last < size),
    };
    nodes.iter().map(class).collect()
}

/// The distance of each branch, if the distance of two nodes hangs only on the smallest branch around them.
fn by_tree(tree: &Tree) -> Option<HashMap<(usize, usize), Option<u32>>> {
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
            let (around, _) = tree.root.around(from.0.min(to.0), from.1.max(to.1) - 1);
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

/// All renumberings of the nodes that keep what they are and their distances.
struct Search<'a> {
    nodes: &'a [Node],
    kinds: &'a [(usize, Option<u32>)],
    found: Vec<Vec<usize>>,
    steps: usize,
}

impl Search<'_> {
    fn extend(&mut self, numbers: &mut Vec<usize>) {
        let next = numbers.len();
        if next == self.nodes.len() {
            self.found.push(numbers.clone());
            return;
        }
        for number in (0..self.nodes.len()).filter(|number| !numbers.contains(number)).collect::<Vec<_>>() {
            self.steps += 1;
            if self.found.len() > MOST_WAYS || self.steps > MOST_STEPS {
                return;
            }
            numbers.push(number);
            if self.keeps(numbers) {
                self.extend(numbers);
            }
            numbers.pop();
        }
    }

    /// Whether the last node may have its number.
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

//! The usable CPUs as a topology tree, for placement decisions.
//!
//! ```text
//! package > die > node > last-level cache > cluster > inner caches > core > CPU
//! ```
//!
//! This is the order of levels whose groups have the same size. Otherwise the level with the larger groups
//! is the outer one, since a node may contain two packages or be half of one. Groups that overlap are split
//! at the boundary of the outer group. A level that does not split a group adds no branch.

use manycore_topology::{
    CpuId, CpuSet, Machine,
    machine::{Cache, CacheKind},
    topology_tree::Part,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    ops::Range,
};

/// Index of a CPU that belongs to no group of the level.
const NO_GROUP: usize = usize::MAX;

/// Deepest cache level. Higher levels come from damaged files.
const MAX_CACHE_LEVEL: u32 = 8;

/// The tree over some CPUs of a machine.
pub(super) struct CpuTree<'a> {
    pub machine: &'a Machine,
    /// The groups of each level, outermost level first.
    pub layers: Vec<Layer>,
    /// CPUs, adjacent ones next to each other.
    pub leaves: Vec<Leaf>,
    pub root: Branch,
    /// Whether all groups nest, so that the tree describes them completely.
    pub nested: bool,
    /// Index in `leaves` by CPU, ascending.
    indices: Vec<(CpuId, usize)>,
}

/// The groups of one level.
pub(super) struct Layer {
    pub rank: Rank,
    pub parts: Vec<Part>,
}

/// Levels, in the order used if their groups have the same size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Package,
    Die,
    Node,
    Llc,
    Cluster,
    Cache(Reverse<u32>),
    Core,
}

pub(super) struct Leaf {
    pub cpu: CpuId,
    /// Index in [`Machine::core_kinds`], fastest first.
    pub kind: usize,
    /// Number of CPUs of the same core that come before it.
    pub sibling: usize,
    /// Its group in each layer.
    groups: Vec<usize>,
}

/// A group that is split further, or one CPU.
#[derive(Default)]
pub(super) struct Branch {
    /// All parts that have exactly these CPUs, outermost first.
    pub parts: Vec<Part>,
    pub leaves: Range<usize>,
    /// Empty for one CPU; otherwise two or more.
    pub children: Vec<Branch>,
}

impl<'a> CpuTree<'a> {
    pub fn new(machine: &'a Machine, cpus: &CpuSet) -> Self {
        let ids: Vec<CpuId> = cpus.iter().collect();
        let layers = layers(machine);
        let mut nested = true;
        let maps: Vec<Vec<usize>> =
            layers.iter().map(|layer| membership(machine, layer, &ids, &mut nested)).collect();
        let sizes = maps.iter().map(|map| count(map)).collect();
        let mut grower = TreeBuilder { layers: &layers, maps: &maps, sizes, order: Vec::new(), nested };
        let root = grower.build(&(0..ids.len()).collect::<Vec<_>>(), 0);
        let (order, nested) = (grower.order, grower.nested);
        let siblings = siblings(&layers, &maps, ids.len());
        let leaves = order.iter().map(|&at| Leaf {
            cpu: ids[at],
            kind: kind(machine, ids[at]),
            sibling: siblings[at],
            groups: maps.iter().map(|map| map[at]).collect(),
        });
        let leaves: Vec<Leaf> = leaves.collect();
        let mut places: Vec<_> = leaves.iter().enumerate().map(|(at, leaf)| (leaf.cpu, at)).collect();
        places.sort_unstable();
        Self { machine, layers, leaves, root, nested, indices: places }
    }

    /// Returns the index of a CPU in `leaves`.
    pub fn index_of(&self, cpu: CpuId) -> Option<usize> {
        let at = self.indices.binary_search_by_key(&cpu, |place| place.0).ok()?;
        Some(self.indices[at].1)
    }

    /// Returns the group of a level that contains a leaf.
    pub fn part(&self, leaf: usize, layer: usize) -> Option<Part> {
        self.layers[layer].parts.get(self.leaves[leaf].groups[layer]).copied()
    }

    /// Returns the group of a level, given by its rank, that contains a leaf.
    pub fn part_at(&self, leaf: usize, rank: Rank) -> Option<Part> {
        let layer = self.layers.iter().position(|layer| layer.rank == rank)?;
        self.part(leaf, layer)
    }

    /// Returns the innermost group that contains both leaves.
    pub fn innermost_common(&self, a: usize, b: usize) -> Option<Part> {
        (0..self.layers.len())
            .rev()
            .find_map(|at| self.part(a, at).filter(|&part| self.part(b, at) == Some(part)))
    }

    /// Returns the lowest CPU of each core.
    pub fn first_siblings(&self) -> CpuSet {
        self.leaves.iter().filter(|leaf| leaf.sibling == 0).map(|leaf| leaf.cpu).collect()
    }
}

impl Branch {
    /// Returns the smallest branch that contains both leaves, and the number of branches around it.
    pub fn smallest_containing(&self, first: usize, last: usize) -> (&Self, usize) {
        let (mut branch, mut depth) = (self, 0);
        loop {
            let after = branch.children.partition_point(|child| child.leaves.end <= first);
            match branch.children.get(after).filter(|child| child.leaves.contains(&last)) {
                Some(child) => (branch, depth) = (child, depth + 1),
                None => return (branch, depth),
            }
        }
    }
}

/// Returns the index of a CPU's kind in [`Machine::core_kinds`]; the number of kinds if its kind is
/// unknown.
pub(super) fn kind(machine: &Machine, cpu: CpuId) -> usize {
    let known = machine.core_kinds.iter().position(|kind| kind.cpus.contains(cpu));
    known.unwrap_or(machine.core_kinds.len())
}

fn layers(machine: &Machine) -> Vec<Layer> {
    let nodes = (0..machine.nodes.len()).filter(|&at| !machine.nodes[at].memory_only);
    let last: Vec<&Cache> = machine.last_level_caches().collect();
    let is_last = |cache: &Cache| last.iter().any(|one| std::ptr::eq(*one, cache));
    let mut caches: BTreeMap<Rank, Vec<Part>> = BTreeMap::new();
    for (at, cache) in machine.caches.iter().enumerate() {
        let rank = if is_last(cache) { Rank::Llc } else { Rank::Cache(Reverse(cache.level)) };
        if cache.kind != CacheKind::Instruction && (rank == Rank::Llc || cache.level <= MAX_CACHE_LEVEL) {
            caches.entry(rank).or_default().push(Part::Cache(at));
        }
    }
    let mut layers = vec![
        Layer { rank: Rank::Package, parts: (0..machine.packages.len()).map(Part::Package).collect() },
        Layer { rank: Rank::Die, parts: (0..machine.dies.len()).map(Part::Die).collect() },
        Layer { rank: Rank::Node, parts: nodes.map(Part::Node).collect() },
        Layer { rank: Rank::Cluster, parts: (0..machine.clusters.len()).map(Part::Cluster).collect() },
    ];
    layers.extend(caches.into_iter().map(|(rank, parts)| Layer { rank, parts }));
    layers.retain(|layer| !layer.parts.is_empty());
    layers.push(Layer { rank: Rank::Core, parts: (0..machine.cores.len()).map(Part::Core).collect() });
    layers.sort_by_key(|layer| {
        let largest = layer.parts.iter().map(|part| part.cpus(machine).len()).max();
        (Reverse(largest.unwrap_or(0)), layer.rank)
    });
    layers
}

/// Returns the indices of a set's CPUs in an ascending list of ids. Costs nothing for ids that are not in
/// the list, of which a damaged file may name billions.
pub(super) fn indices_of(cpus: &CpuSet, ids: &[CpuId]) -> impl Iterator<Item = usize> {
    cpus.ranges().flat_map(|(first, last)| {
        ids.partition_point(|&id| id < first)..ids.partition_point(|&id| id <= last)
    })
}

/// Returns the group of each CPU in one layer.
fn membership(machine: &Machine, layer: &Layer, ids: &[CpuId], nested: &mut bool) -> Vec<usize> {
    let mut map = vec![NO_GROUP; ids.len()];
    for (group, part) in layer.parts.iter().enumerate() {
        for at in indices_of(part.cpus(machine), ids) {
            *nested &= map[at] == NO_GROUP;
            map[at] = group;
        }
    }
    if layer.rank == Rank::Core {
        // A CPU whose core is unknown counts as its own core.
        let own = layer.parts.len()..;
        map.iter_mut()
            .zip(own)
            .filter(|(group, _)| **group == NO_GROUP)
            .for_each(|(group, own)| *group = own);
    }
    map
}

fn count(map: &[usize]) -> HashMap<usize, usize> {
    let mut sizes = HashMap::new();
    for &group in map {
        *sizes.entry(group).or_default() += 1;
    }
    sizes
}

fn siblings(layers: &[Layer], maps: &[Vec<usize>], cpus: usize) -> Vec<usize> {
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let cores = layers.iter().zip(maps).find(|(layer, _)| layer.rank == Rank::Core);
    let Some((_, cores)) = cores else { return vec![0; cpus] };
    let earlier = |core: &usize| {
        let seen = seen.entry(*core).or_default();
        *seen += 1;
        *seen - 1
    };
    cores.iter().map(earlier).collect()
}

struct TreeBuilder<'a> {
    layers: &'a [Layer],
    maps: &'a [Vec<usize>],
    /// CPUs of each group of each layer.
    sizes: Vec<HashMap<usize, usize>>,
    order: Vec<usize>,
    nested: bool,
}

impl TreeBuilder<'_> {
    /// Builds the branch of these CPUs (ascending), split by the layers from `from` on.
    fn build(&mut self, cpus: &[usize], from: usize) -> Branch {
        let start = self.order.len();
        let mut branch = Branch { leaves: start..start + cpus.len(), ..Branch::default() };
        for at in from..self.maps.len() {
            let mut pieces = self.split(cpus, at);
            if pieces.len() > 1 {
                branch.children = pieces.drain(..).map(|(_, piece)| self.build(&piece, at)).collect();
                return branch;
            }
            let Some(&(group, _)) = pieces.first() else { continue };
            if let Some(&part) = self.layers[at].parts.get(group) {
                branch.parts.push(part);
                self.nested &= self.sizes[at].get(&group) == Some(&cpus.len());
            }
        }
        self.order.extend(cpus);
        if cpus.len() > 1 {
            let leaf = |at| Branch { leaves: at..at + 1, ..Branch::default() };
            branch.children = branch.leaves.clone().map(leaf).collect();
        }
        branch
    }

    /// Returns the groups of one layer among these CPUs, ordered by lowest CPU.
    fn split(&self, cpus: &[usize], layer: usize) -> Vec<(usize, Vec<usize>)> {
        let mut pieces: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut index = HashMap::new();
        for &cpu in cpus {
            let group = self.maps[layer][cpu];
            let at = *index.entry(group).or_insert(pieces.len());
            match pieces.get_mut(at) {
                Some(piece) => piece.1.push(cpu),
                None => pieces.push((group, vec![cpu])),
            }
        }
        pieces
    }
}

//! Recognizes equivalent plans on a machine.
//!
//! The machine is a tree. Exchanging equal branches, together with the work on them, changes nothing
//! measurable. So a plan is written as this tree with its workers, each branch after its children in sorted
//! order (the canonical form of Aho, Hopcroft and Ullman for rooted trees).

mod nodes;

use crate::{
    PlacementPlan,
    cpu_tree::{Branch, CpuTree},
    near_memory::NearMemory,
};
use manycore_topology::{CpuSet, Machine, topology_tree::Part};
use nodes::NodeSymmetries;
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt,
};

/// The canonical form of a plan on one machine. Plans of equal form differ only in that equivalent parts
/// of the machine are exchanged: parts that are equal in size, in caches, kinds of cores, memory and
/// distances, and in which of their CPUs are allowed and isolated. The order of workers does not matter,
/// nor do devices.
///
/// Plans of equal form are always equivalent. The reverse holds for all plans that policies make, except
/// on machines whose groups overlap or whose nodes can be exchanged in more than 64 ways that do not follow
/// from the tree; there, equivalent plans may have different forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CanonicalPlan(String);

impl fmt::Display for CanonicalPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn canonical_form(plan: &PlacementPlan, machine: &Machine) -> CanonicalPlan {
    // A damaged machine description may name billions of CPUs; no tree is built for it.
    let online = if machine.online.len() > crate::MAX_CPUS { &CpuSet::new() } else { &machine.online };
    let tree = CpuTree::new(machine, online);
    let nodes = NodeSymmetries::new(&tree);
    let mut form = CanonicalForm::new(&tree, plan);
    form.keep_numbers = !tree.nested || !by_policy(plan, machine);
    let shapes = nodes.numberings.iter().map(|numbers| form.branch(&tree.root, &nodes, numbers));
    let offline_sets: Vec<String> =
        form.offline_sets.iter().map(|(cpus, n)| format!("?{n} on {cpus}")).collect();
    CanonicalPlan(shapes.min().unwrap_or_default() + &offline_sets.concat())
}

/// Returns whether all workers have the memory that a policy gives them.
fn by_policy(plan: &PlacementPlan, machine: &Machine) -> bool {
    let memory = NearMemory::new(machine);
    let mut last: Option<(&CpuSet, Vec<u32>)> = None;
    plan.workers.iter().all(|worker| {
        let near = match last.take() {
            Some((cpus, near)) if *cpus == worker.cpus => near,
            _ => memory.nodes_near(&worker.cpus),
        };
        let same = near == worker.memory_nodes;
        last = Some((&worker.cpus, near));
        same
    })
}

/// Writes the tree with its workers.
struct CanonicalForm<'a> {
    tree: &'a CpuTree<'a>,
    /// The CPUs that may be used.
    usable: CpuSet,
    /// For each leaf, the sets of CPUs that contain it: depth of the set's branch, and number of the set
    /// there.
    member: Vec<Vec<(usize, usize)>>,
    /// Number of workers of each set, by the range of leaves of the set's branch.
    sets: HashMap<(usize, usize), Vec<usize>>,
    /// Sets with CPUs that are not online, and their number of workers.
    offline_sets: Vec<(CpuSet, usize)>,
    /// Whether CPUs are written with their numbers, because the tree does not describe everything.
    keep_numbers: bool,
}

impl<'a> CanonicalForm<'a> {
    fn new(tree: &'a CpuTree, plan: &PlacementPlan) -> Self {
        let mut form = Self {
            tree,
            usable: tree.machine.usable(),
            member: vec![Vec::new(); tree.leaves.len()],
            sets: HashMap::new(),
            offline_sets: Vec::new(),
            keep_numbers: false,
        };
        let mut classes: Vec<(&CpuSet, usize)> = plan.classes().into_iter().collect();
        classes.sort_by_key(|&(cpus, workers)| (Reverse(cpus.len()), workers, cpus.first()));
        for (cpus, workers) in classes {
            form.add(cpus, workers);
        }
        form
    }

    fn add(&mut self, cpus: &CpuSet, workers: usize) {
        let known = cpus.len() <= self.tree.leaves.len();
        let leaves: Option<Vec<usize>> =
            known.then(|| cpus.iter().map(|cpu| self.tree.index_of(cpu)).collect()).flatten();
        let bounds = leaves.as_ref().and_then(|leaves| Some((*leaves.iter().min()?, *leaves.iter().max()?)));
        let (Some(leaves), Some((first, last))) = (leaves, bounds) else {
            self.offline_sets.push((cpus.clone(), workers));
            return;
        };
        let (branch, depth) = self.tree.root.smallest_containing(first, last);
        let sets = self.sets.entry((branch.leaves.start, branch.leaves.end)).or_default();
        sets.push(workers);
        for leaf in leaves {
            self.member[leaf].push((depth, sets.len()));
        }
    }

    fn branch(&self, branch: &Branch, nodes: &NodeSymmetries, numbers: &[usize]) -> String {
        let range = (branch.leaves.start, branch.leaves.end);
        let mut text = String::new();
        for &part in &branch.parts {
            text.push_str(&self.part(part, nodes, numbers));
        }
        if let Some(distance) = nodes.distance(range) {
            text.push_str(&format!("~{distance}"));
        }
        if let Some(sets) = self.sets.get(&range) {
            text.push_str(&format!("!{sets:?}"));
        }
        if branch.children.is_empty() {
            branch.leaves.clone().for_each(|leaf| text.push_str(&self.leaf(leaf)));
            return text;
        }
        let mut children: BTreeMap<String, usize> = BTreeMap::new();
        for child in &branch.children {
            *children.entry(self.branch(child, nodes, numbers)).or_default() += 1;
        }
        let children: Vec<String> =
            children.into_iter().map(|(child, count)| format!("{count}*{child}")).collect();
        format!("{text}({})", children.join("+"))
    }

    fn part(&self, part: Part, nodes: &NodeSymmetries, numbers: &[usize]) -> String {
        let machine = self.tree.machine;
        match part {
            Part::Node(at) => nodes.part(at, numbers),
            Part::Cache(at) => format!("{}={:?};", part.kind(machine), machine.caches[at].size_bytes),
            _ => format!("{};", part.kind(machine)),
        }
    }

    /// Writes a CPU: its kind, whether it is disallowed or isolated, and the sets of workers that contain
    /// it.
    fn leaf(&self, leaf: usize) -> String {
        let (machine, cpu) = (self.tree.machine, self.tree.leaves[leaf].cpu);
        let mut text = format!("k{}", self.tree.leaves[leaf].kind);
        if !self.usable.contains(cpu) {
            text.push('x');
        }
        if machine.isolated.contains(cpu) {
            text.push('i');
        }
        if self.keep_numbers {
            text.push_str(&format!("#{cpu}"));
        }
        for (depth, set) in &self.member[leaf] {
            text.push_str(&format!("@{depth}.{set}"));
        }
        text
    }
}

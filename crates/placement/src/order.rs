//! The order in which workers get CPUs, and the number of workers of each group.

use crate::cpu_tree::{Branch, CpuTree};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// Returns indices into [`CpuTree::leaves`] of the CPUs for `count` workers, at most all: those of the smallest unit that holds
/// all of them, and of equally large units the one with the fewest CPUs left, then the first. If no unit holds all, those with
/// the most CPUs are filled, and what is left is placed in the same way. All CPUs of fast cores come before those of slower ones.
pub(super) fn close_order(tree: &CpuTree, count: usize) -> Vec<usize> {
    let kinds: BTreeSet<usize> = tree.leaves.iter().map(|leaf| leaf.kind).collect();
    let mut order = Vec::new();
    for kind in kinds {
        let left = count.min(tree.leaves.len()) - order.len();
        BestFit::new(tree, kind).fit(&[&tree.root], left, &mut order);
    }
    order
}

/// Chooses units with enough CPUs of one kind.
struct BestFit<'a> {
    tree: &'a CpuTree<'a>,
    kind: usize,
    /// Number of CPUs of the kind before each leaf, and in all.
    before: Vec<usize>,
}

impl<'a> BestFit<'a> {
    fn new(tree: &'a CpuTree, kind: usize) -> Self {
        let mut before = vec![0];
        for leaf in &tree.leaves {
            before.push(before[before.len() - 1] + usize::from(leaf.kind == kind));
        }
        Self { tree, kind, before }
    }

    /// Returns the number of CPUs of the kind in a branch.
    fn count(&self, branch: &Branch) -> usize {
        self.before[branch.leaves.end] - self.before[branch.leaves.start]
    }

    /// Appends `left` CPUs of these branches, or all that they have.
    fn fit(&self, branches: &[&Branch], mut left: usize, order: &mut Vec<usize>) {
        let mut branches = branches.to_vec();
        branches.sort_by_key(|branch| Reverse(self.count(branch)));
        let mut branches = branches.into_iter().peekable();
        while let Some(branch) = branches.next_if(|branch| self.count(branch) < left) {
            self.take(branch, order);
            left -= self.count(branch);
        }
        if left == 0 {
            return;
        }
        let units = branches.flat_map(|branch| self.holding(branch, left));
        let Some(unit) = units.min_by_key(|unit| (self.size(unit), self.count(unit), unit.leaves.start))
        else {
            return;
        };
        if self.count(unit) == left {
            self.take(unit, order);
        } else {
            self.fit(&unit.children.iter().collect::<Vec<_>>(), left, order);
        }
    }

    /// Returns the branches of a branch, and itself, that have as many CPUs of the kind.
    fn holding<'b>(&self, branch: &'b Branch, least: usize) -> Vec<&'b Branch> {
        if self.count(branch) < least {
            return Vec::new();
        }
        let inner = branch.children.iter().flat_map(|child| self.holding(child, least));
        inner.chain([branch]).collect()
    }

    /// Returns the number of all CPUs of the unit of a branch, also of those that are not free.
    fn size(&self, branch: &Branch) -> usize {
        let units = branch.parts.iter().map(|part| part.cpus(self.tree.machine).len());
        units.min().unwrap_or(branch.leaves.len())
    }

    fn take(&self, branch: &Branch, order: &mut Vec<usize>) {
        order.extend(branch.leaves.clone().filter(|&leaf| self.tree.leaves[leaf].kind == self.kind));
    }
}

/// A tier of CPUs, which is used up before the next tier: the number of CPUs of the same core that come
/// before it, and the kind of the core.
type Tier = (usize, usize);

/// Returns indices into [`CpuTree::leaves`], each as far from the earlier ones as possible.
pub(super) fn spread_order(tree: &CpuTree) -> Vec<usize> {
    let tiers: BTreeSet<Tier> = (0..tree.leaves.len()).map(|leaf| tier_of(tree, leaf)).collect();
    tiers.into_iter().flat_map(|tier| merge(tree, &tree.root, tier)).collect()
}

fn tier_of(tree: &CpuTree, leaf: usize) -> Tier {
    (tree.leaves[leaf].sibling, tree.leaves[leaf].kind)
}

/// Returns the order of a branch for one tier. The order within a child does not depend on its siblings, so
/// the orders of the children are merged: the next CPU is always from the child with the smallest share of
/// its cores (then of its CPUs) in use.
fn merge(tree: &CpuTree, branch: &Branch, tier: Tier) -> Vec<usize> {
    if branch.children.is_empty() {
        return branch.leaves.clone().filter(|&leaf| tier_of(tree, leaf) == tier).collect();
    }
    let mut lists = Vec::with_capacity(branch.children.len());
    let mut heap = BinaryHeap::with_capacity(branch.children.len());
    for (at, child) in branch.children.iter().enumerate() {
        let list = merge(tree, child, tier);
        let used = child.leaves.clone().filter(|&leaf| tier_of(tree, leaf) < tier).count();
        let capacity = child.leaves.clone().filter(|&leaf| tree.leaves[leaf].sibling <= tier.0).count();
        if let Some(&first) = list.first() {
            heap.push(Reverse((share(used, capacity), tree.leaves[first].cpu, at)));
        }
        lists.push((list.into_iter(), used, capacity));
    }
    let mut order = Vec::new();
    while let Some(Reverse((_, cpu, at))) = heap.pop() {
        let (list, used, capacity) = &mut lists[at];
        order.extend(list.next());
        *used += 1;
        if !list.as_slice().is_empty() {
            heap.push(Reverse((share(*used, *capacity), cpu, at)));
        }
    }
    order
}

/// Returns a fraction as a number that compares exactly for groups of up to 65,536 CPUs.
fn share(used: usize, capacity: usize) -> u64 {
    ((used as u64) << 32) / capacity.max(1) as u64
}

/// Distributes workers over groups in proportion to the groups' sizes, by largest remainder; among equal
/// remainders the earlier group wins. Each count differs from its exact share by less than 1.
pub(super) fn apportion(workers: usize, sizes: &[usize]) -> Vec<usize> {
    let total = sizes.iter().sum::<usize>().max(1);
    let mut counts: Vec<usize> = sizes.iter().map(|size| workers * size / total).collect();
    let mut groups: Vec<usize> = (0..sizes.len()).collect();
    groups.sort_by_key(|&at| Reverse(workers * sizes[at] % total));
    let left = workers - counts.iter().sum::<usize>().min(workers);
    groups.into_iter().take(left).for_each(|at| counts[at] += 1);
    counts
}

//! The order in which workers get CPUs, and the number of workers of each group.

use crate::cpu_tree::{Branch, CpuTree};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// Returns indices into [`CpuTree::leaves`]: adjacent CPUs follow each other, and all CPUs of fast cores come
/// before those of slower ones.
pub(super) fn close_order(tree: &CpuTree) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tree.leaves.len()).collect();
    order.sort_by_key(|&leaf| tree.leaves[leaf].kind);
    order
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

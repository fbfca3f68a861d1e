//! The order in which workers take CPUs, and how many of them a group gets.

use super::tree::{Branch, Tree};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// Neighbours first, all CPUs of fast cores before those of slower ones; places in [`Tree::leaves`].
pub(super) fn close(tree: &Tree) -> Vec<usize> {
    let mut order: Vec<usize> = (0..tree.leaves.len()).collect();
    order.sort_by_key(|&leaf| tree.leaves[leaf].kind);
    order
}

/// CPUs that are filled before the next ones are touched: how many CPUs of the core come before, and the
/// kind of the core.
type Tier = (usize, usize);

/// As far apart as possible; places in [`Tree::leaves`].
pub(super) fn spread(tree: &Tree) -> Vec<usize> {
    let tiers: BTreeSet<Tier> = (0..tree.leaves.len()).map(|leaf| tier_of(tree, leaf)).collect();
    tiers.into_iter().flat_map(|tier| merge(tree, &tree.root, tier)).collect()
}

fn tier_of(tree: &Tree, leaf: usize) -> Tier {
    (tree.leaves[leaf].sibling, tree.leaves[leaf].kind)
}

/// What is chosen within a group does not depend on its neighbours, so the order of a group is that of its
/// children, merged: always the one of which the smallest share of cores (then of CPUs) is used.
fn merge(tree: &Tree, branch: &Branch, tier: Tier) -> Vec<usize> {
    if branch.children.is_empty() {
        return branch.leaves.clone().filter(|&leaf| tier_of(tree, leaf) == tier).collect();
    }
    let mut lists = Vec::with_capacity(branch.children.len());
    let mut heap = BinaryHeap::with_capacity(branch.children.len());
    for (at, child) in branch.children.iter().enumerate() {
        let list = merge(tree, child, tier);
        let used = child.leaves.clone().filter(|&leaf| tier_of(tree, leaf) < tier).count();
        let room = child.leaves.clone().filter(|&leaf| tree.leaves[leaf].sibling <= tier.0).count();
        if let Some(&first) = list.first() {
            heap.push(Reverse((share(used, room), tree.leaves[first].cpu, at)));
        }
        lists.push((list.into_iter(), used, room));
    }
    let mut order = Vec::new();
    while let Some(Reverse((_, cpu, at))) = heap.pop() {
        let (list, used, room) = &mut lists[at];
        order.extend(list.next());
        *used += 1;
        if !list.as_slice().is_empty() {
            heap.push(Reverse((share(*used, *room), cpu, at)));
        }
    }
    order
}

/// A fraction as a number that compares exactly for groups of up to 65,536 CPUs.
fn share(used: usize, room: usize) -> u64 {
    ((used as u64) << 32) / room.max(1) as u64
}

/// Workers for each group in proportion to its size, by largest remainder; among equal remainders the
/// earlier group. Each count is less than 1 off its exact share.
pub(super) fn apportion(workers: usize, sizes: &[usize]) -> Vec<usize> {
    let total = sizes.iter().sum::<usize>().max(1);
    let mut counts: Vec<usize> = sizes.iter().map(|size| workers * size / total).collect();
    let mut groups: Vec<usize> = (0..sizes.len()).collect();
    groups.sort_by_key(|&at| Reverse(workers * sizes[at] % total));
    let left = workers - counts.iter().sum::<usize>().min(workers);
    groups.into_iter().take(left).for_each(|at| counts[at] += 1);
    counts
}

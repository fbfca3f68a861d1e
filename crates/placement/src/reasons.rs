//! The sentences that explain why a worker got its CPUs.

use crate::{
    cpu_tree::{CpuTree, Rank},
    planner::PlacementStep,
    pool::LevelGroup,
};
use manycore_topology::{CpuSet, Machine, topology_tree::Part};
use std::collections::BTreeMap;

/// Names of the groups of a topology tree.
pub(super) struct Reasons<'a> {
    tree: &'a CpuTree<'a>,
    /// Last-level caches and their labels. A long list of CPUs is formatted once, not for each worker.
    caches: BTreeMap<Part, String>,
    /// Kind of the outermost groups of the machine: `package`, `node`, `L3`.
    outermost: Option<String>,
}

impl<'a> Reasons<'a> {
    pub fn new(tree: &'a CpuTree) -> Self {
        let machine = tree.machine;
        let caches =
            tree.layers.iter().filter(|layer| layer.rank == Rank::Llc).flat_map(|layer| &layer.parts);
        let named =
            caches.map(|&part| (part, format!("{} {}", part.kind(machine), part.cpus(machine).brief())));
        let outermost = tree.root.children.iter().find_map(|child| child.parts.first());
        Self { tree, caches: named.collect(), outermost: outermost.map(|part| part.kind(machine)) }
    }

    /// Returns the CPU with its core and last-level cache: `CPU 4: core 2 of L3 0-7`.
    fn place(&self, leaf: usize) -> String {
        let core = self.tree.part_at(leaf, Rank::Core);
        let cache = self.tree.part_at(leaf, Rank::Llc).and_then(|part| self.caches.get(&part));
        let core = core.and_then(|core| core_label(core, self.tree.machine));
        let names: Vec<&str> = core.iter().chain(cache).map(String::as_str).collect();
        let cpu = self.tree.leaves[leaf].cpu;
        match names.as_slice() {
            [] => format!("CPU {cpu}"),
            names => format!("CPU {cpu}: {}", names.join(" of ")),
        }
    }

    pub fn close(&self, step: &PlacementStep) -> String {
        let (leaf, place) = (step.leaf(), self.place(step.leaf()));
        if let Some(earlier) = step.earlier() {
            return format!("{place}, shared with worker {earlier}");
        }
        let Some(previous) = step.worker.checked_sub(1) else { return format!("{place}, the first") };
        let (here, before) = (&self.tree.leaves[leaf], step.order[previous]);
        if here.kind != self.tree.leaves[before].kind {
            let kind =
                self.tree.machine.core_kinds.get(here.kind).map_or("slower", |kind| kind.name.as_str());
            return format!("{place}, the first {kind} core");
        }
        match self.tree.innermost_common(leaf, before) {
            Some(Part::Core(_)) => format!("{place}, SMT sibling of worker {previous}"),
            Some(part) => {
                format!("{place}, the next in the {} of worker {previous}", part.kind(self.tree.machine))
            }
            None => format!("{place}, the next after worker {previous}"),
        }
    }

    pub fn spread(&self, step: &PlacementStep) -> String {
        let (leaf, place) = (step.leaf(), self.place(step.leaf()));
        if let Some(earlier) = step.earlier() {
            return format!("{place}, shared with worker {earlier}");
        }
        if self.tree.leaves[leaf].sibling > 0 {
            return format!("{place}, an SMT sibling, as every core has a worker");
        }
        match self.outermost.as_deref() {
            None | Some("core") => format!("{place}, the first free core"),
            Some(outermost) => format!("{place}, the first free core of the least used {outermost}"),
        }
    }

    pub fn listed_reason(&self, step: &PlacementStep) -> String {
        let place = self.place(step.leaf());
        let at = step.worker % step.order.len() + 1;
        match step.earlier() {
            Some(earlier) => format!("{place}, shared with worker {earlier}: the list begins again"),
            None => format!("{place}, number {at} of the list"),
        }
    }
}

impl PlacementStep<'_> {
    fn leaf(&self) -> usize {
        self.order[self.worker % self.order.len()]
    }

    /// Returns the worker that got the same CPU in the previous round.
    fn earlier(&self) -> Option<usize> {
        self.worker.checked_sub(self.order.len())
    }
}

/// Returns `core 2`, or `None` if the kernel gives the core no number.
pub(super) fn core_label(core: Part, machine: &Machine) -> Option<String> {
    let Part::Core(at) = core else { return None };
    machine.cores[at].id.map(|id| format!("core {id}"))
}

pub(super) fn free_reason(cpus: &CpuSet, nosmt: bool) -> String {
    let which = if nosmt { "one of each core that may be used" } else { "all that may be used" };
    format!("CPUs {}: {which}; the scheduler chooses", cpus.brief())
}

pub(super) fn grouped(group: &LevelGroup, count: usize, workers: usize, total: usize) -> String {
    let (label, cpus) = (&group.label, &group.cpus);
    format!("CPUs {}: {label}, {count} of {workers} workers for {} of {total} CPUs", cpus.brief(), cpus.len())
}

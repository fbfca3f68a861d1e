//! Placement of the virtual CPUs: their host CPUs, their order, and the guest nodes for them.

use super::{Refused, Task, boot, cells};
use crate::domain::guest::Cell;
use manycore_placement::{PlacementError, PlannedWorker, PolicyKind, UnusedCpus};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Group};
use std::collections::HashMap;

/// Placement of all threads of a domain.
pub(super) struct Seats {
    /// Host CPUs of each virtual CPU.
    pub pins: Vec<CpuSet>,
    /// Host CPUs of the emulator and of I/O threads.
    pub others: CpuSet,
    /// Guest nodes with virtual CPUs; empty if the guest's nodes are left unchanged.
    pub cells: Vec<HostedCell>,
    /// Memory-only nodes of the guest, which are left unchanged.
    pub memory_only: CpuSet,
    /// Location of each virtual CPU on the machine.
    pub places: Vec<Place>,
}

/// A guest node and its host node.
pub(super) struct HostedCell {
    pub cell: Cell,
    pub host: u32,
}

/// A location: the groups of the machine that contain all CPUs of a virtual CPU, each as an index into the
/// machine's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub package: Option<usize>,
    pub node: Option<usize>,
    pub die: Option<usize>,
    pub cache: Option<usize>,
    pub cluster: Option<usize>,
    pub core: Option<usize>,
}

impl Seats {
    /// Returns whether the plan removes this guest node. Elements must then not refer to it.
    pub fn is_gone(&self, node: u64) -> bool {
        !self.cells.is_empty() && u32::try_from(node).is_ok_and(|node| !self.node_ids().contains(node))
    }

    /// Returns the ids of all guest nodes of the plan, with and without CPUs.
    pub fn node_ids(&self) -> CpuSet {
        let with_cpus: CpuSet = self.cells.iter().map(|hosted| hosted.cell.id).collect();
        with_cpus.union(&self.memory_only)
    }
}

pub(super) fn seats(task: &Task, notes: &mut Vec<String>) -> Result<Seats, Refused> {
    let Task { machine, wish, .. } = *task;
    let count = task.before.pins.len();
    // The emulator will run on the reserve.
    wish.reserve.check_online(machine).map_err(Refused::Place)?;
    let plan = wish.policy.plan(machine, count, &wish.reserve).map_err(Refused::Place)?;
    if !wish.overcommit {
        plan.check_exclusive().map_err(|unmet| match unmet {
            PlacementError::NotExclusive { workers, cpus } => {
                Refused::TooFewCpus { vcpus: workers, cpus: cpus.len() }
            }
            other => Refused::Place(other),
        })?;
    }
    let atlas = Atlas::new(machine);
    let mut workers: Vec<(Place, PlannedWorker)> =
        plan.workers.into_iter().map(|worker| (atlas.place(&worker.cpus), worker)).collect();
    // The guest numbers threads, then cores, then clusters: neighbours on the host get adjacent numbers. An
    // explicit list of CPUs keeps its order.
    if !matches!(wish.policy.kind, PolicyKind::Cpus(_)) {
        workers.sort_by_key(|(place, worker)| (*place, worker.cpus.first()));
    }
    if matches!(wish.policy.kind, PolicyKind::Spread | PolicyKind::SpreadAt(_) | PolicyKind::Near(_)) {
        workers = boot::evenly(task, workers, notes)?;
    }
    let (places, workers): (Vec<Place>, Vec<PlannedWorker>) = workers.into_iter().unzip();
    let cells = cells::cells(task, &places, &workers, notes)?;
    let memory_only = cells::memory_only(task);
    let pins: Vec<CpuSet> = workers.into_iter().map(|worker| worker.cpus).collect();
    Ok(Seats { others: others(task, &pins, &cells), pins, cells, memory_only, places })
}

/// Returns the CPUs of the reserve, or else those of the nodes that the domain runs on.
fn others(task: &Task, pins: &[CpuSet], cells: &[HostedCell]) -> CpuSet {
    let Task { machine, wish, .. } = *task;
    let all = CpuSet::union_of(pins);
    let usable = machine.online.intersection(&machine.usable()).difference(&machine.isolated);
    let kept = UnusedCpus::of(&wish.policy, machine, &wish.reserve).reserved.difference(&all);
    if !kept.is_empty() {
        return kept;
    }
    let own = machine.nodes.iter().filter(|node| cells.iter().any(|cell| cell.host == node.id));
    let near = CpuSet::union_of(own.map(|node| &node.cpus)).intersection(&usable);
    if near.is_empty() { all } else { near }
}

/// The groups that each CPU belongs to.
struct Atlas {
    places: HashMap<CpuId, Place>,
}

impl Atlas {
    fn new(machine: &Machine) -> Self {
        let mut places: HashMap<CpuId, Place> = HashMap::new();
        let mut enter = |cpus: &CpuSet, set: &dyn Fn(&mut Place)| {
            cpus.intersection(&machine.online).iter().for_each(|cpu| set(places.entry(cpu).or_default()));
        };
        let groups =
            |groups: &[Group]| -> Vec<CpuSet> { groups.iter().map(|group| group.cpus.clone()).collect() };
        for (at, cpus) in groups(&machine.packages).iter().enumerate() {
            enter(cpus, &|place| place.package = Some(at));
        }
        for (at, cpus) in groups(&machine.dies).iter().enumerate() {
            enter(cpus, &|place| place.die = Some(at));
        }
        for (at, cpus) in groups(&machine.clusters).iter().enumerate() {
            enter(cpus, &|place| place.cluster = Some(at));
        }
        for (at, cpus) in groups(&machine.cores).iter().enumerate() {
            enter(cpus, &|place| place.core = Some(at));
        }
        for (at, cache) in machine.last_level_caches().enumerate() {
            enter(&cache.cpus, &|place| place.cache = Some(at));
        }
        for (at, node) in machine.nodes.iter().enumerate().filter(|(_, node)| !node.memory_only) {
            enter(&node.cpus, &|place| place.node = place.node.or(Some(at)));
        }
        Self { places }
    }

    /// Returns the groups that contain all of the CPUs.
    fn place(&self, cpus: &CpuSet) -> Place {
        let mut all = cpus.iter().map(|cpu| self.places.get(&cpu).copied().unwrap_or_default());
        let first = all.next().unwrap_or_default();
        all.fold(first, |one, other| Place {
            package: one.package.filter(|_| one.package == other.package),
            node: one.node.filter(|_| one.node == other.node),
            die: one.die.filter(|_| one.die == other.die),
            cache: one.cache.filter(|_| one.cache == other.cache),
            cluster: one.cluster.filter(|_| one.cluster == other.cluster),
            core: one.core.filter(|_| one.core == other.core),
        })
    }
}

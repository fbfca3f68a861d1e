//! Placement of the virtual CPUs: their host CPUs, their order, and the guest nodes for them.

use super::{PlanInput, cells, initial_vcpus, other_threads::OtherThreads};
use crate::{domain::guest::Cell, error::PlanError, remedy::Notes};
use manycore_placement::{PlacementError, PlannedWorker, PolicyKind};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Group};
use std::collections::HashMap;

/// Placement of all threads of a domain.
pub(super) struct DomainPlacement {
    /// Host CPUs of each virtual CPU.
    pub pins: Vec<CpuSet>,
    /// Host CPUs of the other threads.
    pub others: OtherThreads,
    /// Guest nodes with virtual CPUs; empty if the guest's nodes are left unchanged.
    pub cells: Vec<CellOnHost>,
    /// Memory-only nodes of the guest, which are left unchanged.
    pub memory_only: CpuSet,
    /// Location of each virtual CPU on the machine.
    pub locations: Vec<TopologyLocation>,
}

/// A guest node and its host node.
pub(super) struct CellOnHost {
    pub cell: Cell,
    pub host_node: u32,
}

/// A location: the groups of the machine that contain all CPUs of a virtual CPU, each as an index into the
/// machine's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TopologyLocation {
    pub package: Option<usize>,
    pub node: Option<usize>,
    pub die: Option<usize>,
    pub cache: Option<usize>,
    pub cluster: Option<usize>,
    pub core: Option<usize>,
}

impl DomainPlacement {
    /// Returns whether the plan removes this guest node. Elements must then not refer to it.
    pub fn is_removed(&self, node: u64) -> bool {
        !self.cells.is_empty() && u32::try_from(node).is_ok_and(|node| !self.node_ids().contains(node))
    }

    /// Returns the ids of all guest nodes of the plan, with and without CPUs.
    pub fn node_ids(&self) -> CpuSet {
        let with_cpus: CpuSet = self.cells.iter().map(|hosted| hosted.cell.id).collect();
        with_cpus.union(&self.memory_only)
    }
}

/// Places all threads of a domain.
pub(super) fn place_domain(input: &PlanInput, notes: &mut Notes) -> Result<DomainPlacement, PlanError> {
    let PlanInput { machine, request, .. } = *input;
    let count = input.before.pins.len();
    // The emulator will run on the reserve.
    request.reserve.check_online(machine).map_err(PlanError::Placement)?;
    let plan = request.policy.plan(machine, count, &request.reserve).map_err(PlanError::Placement)?;
    if !request.overcommit {
        plan.check_exclusive().map_err(|unmet| match unmet {
            PlacementError::NotExclusive { workers, cpus } => {
                PlanError::TooFewCpus { vcpus: workers, cpus: cpus.len() }
            }
            other => PlanError::Placement(other),
        })?;
    }
    let index = LocationIndex::new(machine);
    let mut workers: Vec<(TopologyLocation, PlannedWorker)> =
        plan.workers.into_iter().map(|worker| (index.locate(&worker.cpus), worker)).collect();
    // The guest numbers threads, then cores, then clusters: neighbours on the host get adjacent numbers. An
    // explicit list of CPUs keeps its order.
    if !matches!(request.policy.kind, PolicyKind::Cpus(_)) {
        workers.sort_by_key(|(place, worker)| (*place, worker.cpus.first()));
    }
    if matches!(request.policy.kind, PolicyKind::Spread | PolicyKind::SpreadAt(_) | PolicyKind::Near(_)) {
        workers = initial_vcpus::spread_initial_vcpus(input, workers, notes)?;
    }
    let (locations, workers): (Vec<TopologyLocation>, Vec<PlannedWorker>) = workers.into_iter().unzip();
    let cells = cells::cells(input, &locations, &workers, notes)?;
    let memory_only = cells::memory_only(input);
    let pins: Vec<CpuSet> = workers.into_iter().map(|worker| worker.cpus).collect();
    Ok(DomainPlacement {
        others: OtherThreads::place(input, &pins, &index, notes)?,
        pins,
        cells,
        memory_only,
        locations,
    })
}

/// The groups that each CPU belongs to.
pub(super) struct LocationIndex {
    locations: HashMap<CpuId, TopologyLocation>,
}

impl LocationIndex {
    fn new(machine: &Machine) -> Self {
        let mut locations: HashMap<CpuId, TopologyLocation> = HashMap::new();
        let mut record = |cpus: &CpuSet, set: &dyn Fn(&mut TopologyLocation)| {
            cpus.intersection(&machine.online).iter().for_each(|cpu| set(locations.entry(cpu).or_default()));
        };
        let groups =
            |groups: &[Group]| -> Vec<CpuSet> { groups.iter().map(|group| group.cpus.clone()).collect() };
        for (at, cpus) in groups(&machine.packages).iter().enumerate() {
            record(cpus, &|place| place.package = Some(at));
        }
        for (at, cpus) in groups(&machine.dies).iter().enumerate() {
            record(cpus, &|place| place.die = Some(at));
        }
        for (at, cpus) in groups(&machine.clusters).iter().enumerate() {
            record(cpus, &|place| place.cluster = Some(at));
        }
        for (at, cpus) in groups(&machine.cores).iter().enumerate() {
            record(cpus, &|place| place.core = Some(at));
        }
        for (at, cache) in machine.last_level_caches().enumerate() {
            record(&cache.cpus, &|place| place.cache = Some(at));
        }
        for (at, node) in machine.nodes.iter().enumerate().filter(|(_, node)| !node.memory_only) {
            record(&node.cpus, &|place| place.node = place.node.or(Some(at)));
        }
        Self { locations }
    }

    /// Returns the groups that contain all of the CPUs.
    pub fn locate(&self, cpus: &CpuSet) -> TopologyLocation {
        let mut all = cpus.iter().map(|cpu| self.locations.get(&cpu).copied().unwrap_or_default());
        let first = all.next().unwrap_or_default();
        all.fold(first, |one, other| TopologyLocation {
            package: one.package.filter(|_| one.package == other.package),
            node: one.node.filter(|_| one.node == other.node),
            die: one.die.filter(|_| one.die == other.die),
            cache: one.cache.filter(|_| one.cache == other.cache),
            cluster: one.cluster.filter(|_| one.cluster == other.cluster),
            core: one.core.filter(|_| one.core == other.core),
        })
    }
}

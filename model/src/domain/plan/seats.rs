//! Which host CPUs each virtual CPU gets, in which order, and which nodes the guest has for it.

use super::{Refused, Task};
use crate::{
    CpuId, CpuSet, Machine,
    domain::guest::{self, Cell},
    machine::{Group, Node},
    placement::{LeftOut, PlannedWorker, PolicyKind, Unmet},
};
use std::collections::{BTreeMap, HashMap};

/// The places of all threads of a domain.
pub(super) struct Seats {
    /// Host CPUs of each virtual CPU.
    pub pins: Vec<CpuSet>,
    /// Host CPUs of the emulator and of I/O threads.
    pub others: CpuSet,
    /// Nodes of the guest; empty where its nodes are left alone.
    pub cells: Vec<HostedCell>,
    /// Where on the machine each virtual CPU is.
    pub places: Vec<Place>,
}

/// A node of the guest and its node on the host.
pub(super) struct HostedCell {
    pub cell: Cell,
    pub host: u32,
}

/// The groups of the machine that hold all CPUs of a virtual CPU, each by its place in the machine's list.
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
    /// Whether the plan takes this node from the guest: anything that names it must not.
    pub fn is_gone(&self, node: u64) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(|hosted| u64::from(hosted.cell.id) != node)
    }
}

pub(super) fn seats(task: &Task, notes: &mut Vec<String>) -> Result<Seats, Refused> {
    let Task { machine, wish, .. } = *task;
    let count = task.before.pins.len();
    // The emulator is to run there.
    wish.reserve.check_online(machine).map_err(Refused::Place)?;
    let plan = wish.policy.plan(machine, count, &wish.reserve).map_err(Refused::Place)?;
    if !wish.overcommit {
        plan.check_exclusive().map_err(|unmet| match unmet {
            Unmet::NotExclusive { workers, cpus } => Refused::TooFewCpus { vcpus: workers, cpus: cpus.len() },
            other => Refused::Place(other),
        })?;
    }
    let atlas = Atlas::new(machine);
    let mut workers: Vec<(Place, PlannedWorker)> =
        plan.workers.into_iter().map(|worker| (atlas.place(&worker.cpus), worker)).collect();
    // The guest counts threads, then cores, then clusters: neighbours on the host get neighbouring numbers. A list of
    // the user's own has its order.
    if !matches!(wish.policy.kind, PolicyKind::Cpus(_)) {
        workers.sort_by_key(|(place, worker)| (*place, worker.cpus.first()));
    }
    let (places, workers): (Vec<Place>, Vec<PlannedWorker>) = workers.into_iter().unzip();
    let cells = cells(task, &places, &workers, notes)?;
    let pins: Vec<CpuSet> = workers.into_iter().map(|worker| worker.cpus).collect();
    Ok(Seats { others: others(task, &pins, &cells), pins, cells, places })
}

/// CPUs that are kept back; or else those of the nodes that the domain is on.
fn others(task: &Task, pins: &[CpuSet], cells: &[HostedCell]) -> CpuSet {
    let Task { machine, wish, .. } = *task;
    let all = CpuSet::union_of(pins);
    let usable = machine.online.intersection(&machine.usable()).difference(&machine.isolated);
    let kept = LeftOut::of(&wish.policy, machine, &wish.reserve).reserved.difference(&all);
    if !kept.is_empty() {
        return kept;
    }
    let own = machine.nodes.iter().filter(|node| cells.iter().any(|cell| cell.host == node.id));
    let near = CpuSet::union_of(own.map(|node| &node.cpus)).intersection(&usable);
    if near.is_empty() { all } else { near }
}

/// A node of the guest for each of the host's that virtual CPUs are on.
fn cells(
    task: &Task,
    places: &[Place],
    workers: &[PlannedWorker],
    notes: &mut Vec<String>,
) -> Result<Vec<HostedCell>, Refused> {
    let machine = task.machine;
    let with_cpus = machine.nodes.iter().filter(|node| !node.memory_only && !node.cpus.is_empty());
    if with_cpus.count() < 2 {
        notes.push(
            "the machine shows one NUMA node: the guest's nodes and memory are as they were".to_owned(),
        );
        return Ok(Vec::new());
    }
    let mut members: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (vcpu, place) in places.iter().enumerate() {
        let Some(node) = place.node else {
            notes.push(format!(
                "{} lets virtual CPUs use several nodes: the guest's nodes and memory are as they were",
                task.wish.policy
            ));
            return Ok(Vec::new());
        };
        members.entry(node).or_default().push(vcpu as u32);
    }
    let mut by_id: Vec<(&Node, Vec<u32>)> =
        members.into_iter().map(|(at, vcpus)| (&machine.nodes[at], vcpus)).collect();
    by_id.sort_by_key(|(node, _)| node.id);
    let members: Vec<CpuSet> = by_id.iter().map(|(_, vcpus)| vcpus.iter().copied().collect()).collect();
    let memory = memory(task, &members, notes)?;
    let distances = distances(machine, &by_id, notes);
    let mut cells = Vec::new();
    for (at, (node, vcpus)) in by_id.iter().enumerate() {
        let host_nodes = workers[vcpus[0] as usize].memory_nodes.iter().copied().collect();
        let cell = Cell {
            id: at as u32,
            vcpus: members[at].clone(),
            memory_kib: memory[at],
            distances: distances.get(at).cloned().unwrap_or_default(),
            host_nodes,
            ..Cell::default()
        };
        check_room(machine, &cell)?;
        cells.push(HostedCell { cell, host: node.id });
    }
    Ok(cells)
}

/// The memory must be there: a guest that is bound to less is killed when it uses it.
fn check_room(machine: &Machine, cell: &Cell) -> Result<(), Refused> {
    let own = machine.nodes.iter().filter(|node| cell.host_nodes.contains(node.id));
    let Some(there) = own.map(|node| node.memory_bytes).sum::<Option<u64>>() else { return Ok(()) };
    if cell.memory_kib <= there >> 10 {
        return Ok(());
    }
    let [asked, there] = [cell.memory_kib << 10, there].map(crate::units::bytes);
    Err(Refused::Demand(format!(
        "{} of the guest's memory belong to node {} of the host, which has {there}: give the guest less, or spread \
         its CPUs over more nodes (--policy spread)",
        asked, cell.host_nodes
    )))
}

/// KiB of each cell, by its virtual CPUs. Where the guest has as many as before, those whose virtual CPUs stay keep
/// theirs, and the others share the rest.
fn memory(task: &Task, members: &[CpuSet], notes: &mut Vec<String>) -> Result<Vec<u64>, Refused> {
    let before = &task.before.cells;
    if before.iter().any(|cell| cell.vcpus.is_empty()) {
        return Err(Refused::Demand(
            "the domain has NUMA cells without CPUs, which cannot be planned: take them out of <numa>, or plan \
             without nodes (--policy free)"
                .to_owned(),
        ));
    }
    let as_many = before.len() == members.len();
    let keeps = |at: usize| as_many && before[at].vcpus == members[at];
    let counts = members.iter().enumerate().filter(|(at, _)| !keeps(*at)).map(|(_, vcpus)| vcpus.len());
    let kept: u64 =
        before.iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, cell)| cell.memory_kib).sum();
    let mut dealt =
        deal(task, initial_kib(task)?.saturating_sub(kept), &counts.collect::<Vec<_>>())?.into_iter();
    let all = 0..members.len();
    let memory: Vec<u64> =
        all.filter_map(|at| if keeps(at) { Some(before[at].memory_kib) } else { dealt.next() }).collect();
    let was: Vec<u64> = before.iter().map(|cell| cell.memory_kib).collect();
    if as_many && was != memory {
        let said = |kib: &[u64]| -> String {
            kib.iter().map(|kib| crate::units::bytes(kib << 10)).collect::<Vec<_>>().join(" + ")
        };
        notes.push(format!(
            "the memory of the guest's nodes is dealt anew by their virtual CPUs, which are others now: {}; it was {}",
            said(&memory),
            said(&was)
        ));
    }
    Ok(memory)
}

/// Deals memory by numbers of virtual CPUs, in whole huge pages.
fn deal(task: &Task, total: u64, counts: &[usize]) -> Result<Vec<u64>, Refused> {
    let unit = page_kib(task)?;
    let share = if total / unit >= counts.len() as u64 { unit } else { 4 };
    let pages = total / share;
    if pages < counts.len() as u64 {
        return Err(Refused::Demand(format!(
            "the domain has {total} KiB of memory, too little for {} nodes",
            counts.len()
        )));
    }
    let all: usize = counts.iter().sum();
    let (mut cpus, mut given) = (0, 0);
    let mut memory = Vec::new();
    for count in counts {
        cpus += count;
        let upto = pages * cpus as u64 / all as u64;
        memory.push((upto - given) * share);
        given = upto;
    }
    if let Some(last) = memory.last_mut() {
        *last += total % share;
    }
    Ok(memory)
}

/// KiB that the guest starts with.
fn initial_kib(task: &Task) -> Result<u64, Refused> {
    if !task.before.cells.is_empty() {
        return Ok(task.before.cells.iter().map(|cell| cell.memory_kib).sum());
    }
    let initial = guest::initial_bytes(task.xml)?;
    initial
        .map(|bytes| bytes >> 10)
        .ok_or_else(|| Refused::Demand("the domain has no <memory>, which every domain needs".to_owned()))
}

/// KiB of the largest pages that back the memory; 2 MiB where none are named, as transparent ones are.
fn page_kib(task: &Task) -> Result<u64, Refused> {
    let mut largest = 2048;
    if let Some(pages) = task.xml.at(&["memoryBacking", "hugepages"]) {
        for page in pages.children().filter(|node| node.tag_name().name() == "page") {
            largest = largest.max(guest::sized(page, page.attribute("size").unwrap_or_default())? >> 10);
        }
    }
    Ok(largest)
}

/// Distances between the nodes in use. None for one node, and none where the machine tells none that QEMU takes.
fn distances(machine: &Machine, used: &[(&Node, Vec<u32>)], notes: &mut Vec<String>) -> Vec<Vec<u32>> {
    if used.len() < 2 {
        return Vec::new();
    }
    let column = |id: u32| machine.nodes.iter().position(|node| node.id == id);
    let columns: Option<Vec<usize>> = used.iter().map(|(node, _)| column(node.id)).collect();
    let row = |node: &Node| -> Option<Vec<u32>> {
        columns.as_ref()?.iter().map(|&at| node.distances.get(at).copied()).collect()
    };
    let rows: Option<Vec<Vec<u32>>> = used.iter().map(|(node, _)| row(node)).collect();
    let sound = |rows: &Vec<Vec<u32>>| {
        rows.iter().enumerate().all(|(at, row)| {
            row.iter()
                .enumerate()
                .all(|(to, far)| if at == to { *far == 10 } else { (11..255).contains(far) })
        })
    };
    match rows.filter(sound) {
        Some(rows) => rows,
        None => {
            notes.push(
                "the machine tells no distances between its nodes that QEMU takes (10 to itself, 11 to 254 to \
                 others): the guest gets none"
                    .to_owned(),
            );
            Vec::new()
        }
    }
}

/// For each CPU the groups that it is in.
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

    /// The groups that hold all of the CPUs.
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

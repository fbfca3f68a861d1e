//! The guest's NUMA nodes: their virtual CPUs, memory and distances.

use super::{
    PlanInput, huge_pages,
    vcpu_placement::{CellOnHost, TopologyLocation},
};
use crate::{
    domain::guest::{self, Cell},
    error::PlanError,
    remedy::{Notes, Remedy},
};
use manycore_placement::PlannedWorker;
use manycore_text::units;
use manycore_topology::{CpuSet, Machine, machine::Node};
use std::collections::BTreeMap;

/// Returns the guest nodes without CPUs, such as HMAT and CXL memory. The plan leaves them unchanged.
pub(super) fn memory_only(input: &PlanInput) -> CpuSet {
    let cells = input.before.cells.iter();
    cells.filter(|cell| cell.vcpus.is_empty()).map(|cell| cell.id).collect()
}

/// Returns a guest node for each host node that virtual CPUs run on; several for one host node if the guest
/// must keep more.
pub(super) fn cells(
    input: &PlanInput,
    locations: &[TopologyLocation],
    workers: &[PlannedWorker],
    notes: &mut Notes,
) -> Result<Vec<CellOnHost>, PlanError> {
    let machine = input.machine;
    let by_id = match vcpus_by_host_node(input, locations) {
        Ok(by_id) => split_host_nodes(input, by_id, notes),
        Err(why) => {
            notes.push(why);
            return Ok(Vec::new());
        }
    };
    let members: Vec<CpuSet> = by_id.iter().map(|(_, vcpus)| vcpus.iter().copied().collect()).collect();
    let ids = ids(input, members.len(), notes);
    let memory = memory(input, &members, notes)?;
    let distances = distances(machine, &by_id, notes);
    let mut cells = Vec::new();
    for (at, (node, vcpus)) in by_id.iter().enumerate() {
        let host_nodes = workers[vcpus[0] as usize].memory_nodes.iter().copied().collect();
        let cell = Cell {
            id: ids[at],
            vcpus: members[at].clone(),
            memory_kib: memory[at],
            distances: distances.get(at).cloned().unwrap_or_default(),
            host_nodes,
            ..Cell::default()
        };
        check_memory(machine, &cell)?;
        cells.push(CellOnHost { cell, host_node: node.id });
    }
    Ok(cells)
}

/// Returns the virtual CPUs on each host node, by ascending id of the node, or why the guest's nodes are left
/// unchanged.
fn vcpus_by_host_node<'t>(
    input: &PlanInput<'t, '_>,
    locations: &[TopologyLocation],
) -> Result<Vec<(&'t Node, Vec<u32>)>, String> {
    let nodes = &input.machine.nodes;
    if !input.machine_type.has_nodes {
        return Err(format!(
            "machine type {} cannot show NUMA nodes or a topology to its guest: threads are pinned, and the guest's \
             memory is unchanged",
            input.machine_type.name
        ));
    }
    if nodes.iter().filter(|node| !node.memory_only && !node.cpus.is_empty()).count() < 2 {
        return Err(
            "the machine has only one NUMA node with CPUs: the guest's nodes and memory are unchanged"
                .to_owned(),
        );
    }
    let mut members: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (vcpu, location) in locations.iter().enumerate() {
        let node = location.node.ok_or_else(|| {
            format!(
                "{} lets virtual CPUs use several nodes: the guest's nodes and memory are unchanged",
                input.request.policy
            )
        })?;
        members.entry(node).or_default().push(vcpu as u32);
    }
    let mut by_id: Vec<(&Node, Vec<u32>)> =
        members.into_iter().map(|(at, vcpus)| (&nodes[at], vcpus)).collect();
    by_id.sort_by_key(|(node, _)| node.id);
    Ok(by_id)
}

/// Checks that the host nodes have enough memory. A guest that is bound to less is killed when it uses its
/// memory.
fn check_memory(machine: &Machine, cell: &Cell) -> Result<(), PlanError> {
    let own = machine.nodes.iter().filter(|node| cell.host_nodes.contains(node.id));
    let Some(there) = own.map(|node| node.memory_bytes).sum::<Option<u64>>() else { return Ok(()) };
    if cell.memory_kib <= there >> 10 {
        return Ok(());
    }
    let [requested, there] = [cell.memory_kib << 10, there].map(units::bytes);
    Err(PlanError::resolved_by(
        Remedy::Policy,
        format!(
            "the plan takes {requested} of the guest's memory from node {} of the host, which has {there}: give \
             the guest less, or spread its CPUs over more nodes (policy spread)",
            cell.host_nodes
        ),
    ))
}

/// Returns the virtual CPUs of each guest node with its host node, from the virtual CPUs of each host node.
///
/// If the guest has memory-only nodes, it keeps the number of its nodes with CPUs, since other elements refer
/// to both. If the plan uses fewer host nodes, some of them hold several guest nodes. Guest nodes keep their
/// virtual CPUs if each lies within one host node; otherwise the virtual CPUs are redistributed.
fn split_host_nodes<'m>(
    input: &PlanInput,
    on_host: Vec<(&'m Node, Vec<u32>)>,
    notes: &mut Notes,
) -> Vec<(&'m Node, Vec<u32>)> {
    let before: Vec<&Cell> = with_cpus(input).collect();
    if memory_only(input).is_empty() || before.len() <= on_host.len() {
        return on_host;
    }
    notes.push(format!(
        "the guest keeps its {} nodes with CPUs beside the memory-only ones, on {} of the host",
        before.len(),
        units::counted(on_host.len(), "node")
    ));
    let whole = |cell: &&Cell| {
        let is_on = |vcpus: &[u32]| cell.vcpus.iter().all(|vcpu| vcpus.contains(&vcpu));
        let (node, _) = on_host.iter().find(|(_, vcpus)| is_on(vcpus))?;
        Some((*node, cell.vcpus.iter().collect()))
    };
    let kept: Option<Vec<(&Node, Vec<u32>)>> = before.iter().map(whole).collect();
    let all: usize = on_host.iter().map(|(_, vcpus)| vcpus.len()).sum();
    if let Some(kept) = kept
        && kept.iter().map(|(_, vcpus)| vcpus.len()).sum::<usize>() == all
    {
        return kept;
    }
    // Each host node gets one part. Each further part goes to the node that would then have the most virtual
    // CPUs per part.
    let mut parts = vec![1; on_host.len()];
    for _ in on_host.len()..before.len() {
        let share = |at: &usize| on_host[*at].1.len() as f64 / (parts[*at] + 1) as f64;
        let most = (0..parts.len()).rev().max_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or(0);
        parts[most] += 1;
    }
    let distributed = on_host.iter().zip(&parts).flat_map(|((node, vcpus), parts)| {
        let end = move |part: usize| part * vcpus.len() / parts;
        (0..*parts).map(move |part| (*node, vcpus[end(part)..end(part + 1)].to_vec()))
    });
    distributed.collect()
}

/// Returns the ids of `count` nodes with CPUs. If there are memory-only nodes, nodes with CPUs keep their ids
/// and new ones come last.
fn ids(input: &PlanInput, count: usize, notes: &mut Notes) -> Vec<u32> {
    let memory_only = memory_only(input);
    if memory_only.is_empty() {
        return (0..count as u32).collect();
    }
    let of_memory = units::counted(memory_only.len(), "NUMA node");
    notes.push(format!("unchanged: {of_memory} without CPUs ({memory_only} in the guest)"));
    let behind = input.before.cells.iter().map(|cell| cell.id + 1).max().unwrap_or(0);
    with_cpus(input).map(|cell| cell.id).chain(behind..).take(count).collect()
}

/// Returns the memory of each cell in KiB, in proportion to its virtual CPUs. If the number of cells is
/// unchanged, cells with unchanged virtual CPUs keep their memory and the others share the rest.
fn memory(input: &PlanInput, members: &[CpuSet], notes: &mut Notes) -> Result<Vec<u64>, PlanError> {
    let before: Vec<&Cell> = with_cpus(input).collect();
    let as_many = before.len() == members.len();
    let keeps = |at: usize| as_many && before[at].vcpus == members[at];
    let counts = members.iter().enumerate().filter(|(at, _)| !keeps(*at)).map(|(_, vcpus)| vcpus.len());
    let kept: u64 =
        before.iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, cell)| cell.memory_kib).sum();
    let mut distributed =
        distribute_memory(input, initial_kib(input)?.saturating_sub(kept), &counts.collect::<Vec<_>>())?
            .into_iter();
    let all = 0..members.len();
    let memory: Vec<u64> = all
        .filter_map(|at| if keeps(at) { Some(before[at].memory_kib) } else { distributed.next() })
        .collect();
    let was: Vec<u64> = before.iter().map(|cell| cell.memory_kib).collect();
    if as_many && was != memory {
        let sizes = |kib: &[u64]| -> String {
            kib.iter().map(|kib| units::bytes(kib << 10)).collect::<Vec<_>>().join(" + ")
        };
        notes.push(format!(
            "the guest's nodes have other virtual CPUs now, so their memory is distributed anew: {}; before: {}",
            sizes(&memory),
            sizes(&was)
        ));
    }
    Ok(memory)
}

/// Returns the guest nodes in the XML that have CPUs.
fn with_cpus<'t>(input: &'t PlanInput) -> impl Iterator<Item = &'t Cell> {
    input.before.cells.iter().filter(|cell| !cell.vcpus.is_empty())
}

/// Distributes memory by the numbers of virtual CPUs, in whole huge pages.
fn distribute_memory(input: &PlanInput, total: u64, counts: &[usize]) -> Result<Vec<u64>, PlanError> {
    let unit = huge_pages::largest_page_kib(input)?;
    let share = if total / unit >= counts.len() as u64 { unit } else { 4 };
    let pages = total / share;
    if pages < counts.len() as u64 {
        return Err(PlanError::unsupported(format!(
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

/// Returns the memory that the guest starts with, in KiB.
fn initial_kib(input: &PlanInput) -> Result<u64, PlanError> {
    if !input.before.cells.is_empty() {
        return Ok(with_cpus(input).map(|cell| cell.memory_kib).sum());
    }
    let initial = guest::initial_bytes(input.xml)?;
    initial
        .map(|bytes| bytes >> 10)
        .ok_or_else(|| PlanError::unsupported("the domain has no <memory> element, which is required"))
}

/// Distance between two guest nodes on the same host node: the smallest that QEMU accepts between nodes.
const MIN_DISTANCE: u32 = 11;

/// Returns the distances between the nodes in use; empty for one node, or if QEMU would not accept those of
/// the machine.
fn distances(machine: &Machine, used: &[(&Node, Vec<u32>)], notes: &mut Notes) -> Vec<Vec<u32>> {
    if used.len() < 2 {
        return Vec::new();
    }
    let column = |id: u32| machine.nodes.iter().position(|node| node.id == id);
    let columns: Option<Vec<usize>> = used.iter().map(|(node, _)| column(node.id)).collect();
    let rows: Option<Vec<Vec<u32>>> = columns.and_then(|columns| {
        let far = |at: usize, to: usize| {
            let is_beside = at != to && columns[at] == columns[to];
            if is_beside { Some(MIN_DISTANCE) } else { used[at].0.distances.get(columns[to]).copied() }
        };
        let all = 0..used.len();
        all.clone().map(|at| all.clone().map(|to| far(at, to)).collect()).collect()
    });
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
                "the machine reports no distances between its nodes that QEMU accepts (10 to the node itself, 11 to 254 \
                 to others): the guest gets none",
            );
            Vec::new()
        }
    }
}

//! Reads NUMA nodes (`/sys/devices/system/node`, `Documentation/ABI/stable/sysfs-devices-node`) and memory
//! tiers (`Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers`).

use crate::{
    CpuSet, Error,
    machine::Node,
    read::{cpus::Cpus, system},
    sys_tree::{SysTree, kilobytes},
};

const NODE: &str = "sys/devices/system/node";
const TIERS: &str = "sys/devices/virtual/memory_tiering";
const NVIDIA: &str = "proc/driver/nvidia/gpus";

/// Reads all nodes, ordered by number. A kernel without NUMA is one node with all CPUs and all memory.
///
/// # Errors
/// A CPU or node list is malformed.
pub fn read(tree: &SysTree, cpus: &Cpus) -> Result<Vec<Node>, Error> {
    let present = tree.numbered_entries(NODE, "node");
    let listed = match tree.cpu_list(&format!("{NODE}/online"))? {
        Some(listed) => listed.intersection(&present),
        None => present,
    };
    let mut nodes = Vec::new();
    let mut taken = CpuSet::new();
    for id in listed.iter() {
        let Some(all) = node_cpus(tree, id)? else { continue };
        // Broken firmware may assign a CPU to two nodes; as in hwloc, the first node keeps it.
        if all.intersects(&taken) {
            continue;
        }
        taken = taken.union(&all);
        nodes.push(Node {
            id,
            cpus: all.intersection(&cpus.online),
            memory_only: all.is_empty(),
            memory_bytes: memory(tree, id),
            distances: distances(tree, id),
            tier: None,
        });
    }
    if nodes.is_empty() {
        nodes.push(Node { cpus: cpus.online.clone(), memory_bytes: system::memory(tree), ..Node::default() });
    }
    drop_accelerator_memory(tree, &mut nodes, &listed);
    keep_square_distances(&mut nodes, &listed);
    locate_nodes(tree, &mut nodes);
    tiers(tree, &mut nodes)?;
    Ok(nodes)
}

fn node_cpus(tree: &SysTree, id: u32) -> Result<Option<CpuSet>, Error> {
    match tree.cpu_mask(&format!("{NODE}/node{id}/cpumap"))? {
        Some(cpus) => Ok(Some(cpus)),
        None => tree.cpu_list(&format!("{NODE}/node{id}/cpulist")),
    }
}

fn memory(tree: &SysTree, id: u32) -> Option<u64> {
    let text = tree.read_part(&format!("{NODE}/node{id}/meminfo"), 4096, |text| {
        text.lines().find(|line| line.contains("MemTotal:")).unwrap_or_default().to_owned()
    })?;
    kilobytes(text.split_once("MemTotal:")?.1)
}

fn distances(tree: &SysTree, id: u32) -> Vec<u32> {
    let text = tree.read(&format!("{NODE}/node{id}/distance")).unwrap_or_default();
    let numbers: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
    numbers.unwrap_or_default()
}

/// Removes the memory of accelerators. NVIDIA's driver for POWER9 makes the memory of each GPU a node. It
/// belongs to the GPU, and processes are not placed by it. hwloc leaves it out as well (`numa_status` is a
/// file of the driver).
fn drop_accelerator_memory(tree: &SysTree, nodes: &mut Vec<Node>, listed: &CpuSet) {
    let memory: CpuSet = tree
        .list(NVIDIA)
        .iter()
        .filter_map(|gpu| {
            let status = tree.read(&format!("{NVIDIA}/{gpu}/numa_status"))?;
            status.lines().find_map(|line| line.trim().strip_prefix("Node:")?.trim().parse::<u32>().ok())
        })
        .filter(|&node| listed.contains(node))
        .collect();
    nodes.retain(|node| !memory.contains(node.id));
}

/// Removes the distances to nodes that were left out. The kernel reports a distance to every online node,
/// in ascending order; a matrix that is not square is dropped.
fn keep_square_distances(nodes: &mut [Node], listed: &CpuSet) {
    let kept: CpuSet = nodes.iter().map(|node| node.id).collect();
    let whole = nodes.iter().all(|node| node.distances.len() == listed.len());
    for node in nodes {
        let row = std::mem::take(&mut node.distances);
        if whole {
            node.distances = listed
                .iter()
                .zip(row)
                .filter(|(id, _)| kept.contains(*id))
                .map(|(_, distance)| distance)
                .collect();
        }
    }
}

/// Adds the CPUs with the fastest access to a node's memory. Nodes without CPUs get their position from
/// these, or from the distances if the firmware reports nothing else.
fn locate_nodes(tree: &SysTree, nodes: &mut [Node]) {
    let (with, without): (Vec<usize>, Vec<usize>) =
        (0..nodes.len()).partition(|&at| !nodes[at].cpus.is_empty());
    for at in with {
        nodes[at].cpus = initiators(tree, nodes, at).unwrap_or_default().union(&nodes[at].cpus);
    }
    for at in without {
        nodes[at].cpus = match initiators(tree, nodes, at) {
            Some(cpus) if !cpus.is_empty() => cpus,
            _ => nearest(nodes, at),
        };
    }
}

/// Returns the CPUs of the nodes that access this node's memory at the best rate
/// (`Documentation/admin-guide/mm/numaperf.rst`). `access1` considers CPUs only, `access0` also devices.
fn initiators(tree: &SysTree, nodes: &[Node], at: usize) -> Option<CpuSet> {
    let id = nodes[at].id;
    let folder = ["access1", "access0"]
        .map(|class| format!("{NODE}/node{id}/{class}/initiators"))
        .into_iter()
        .find(|folder| tree.is_folder(folder))?;
    let ids = tree.numbered_entries(&folder, "node");
    let others = nodes.iter().filter(|node| node.id != id && ids.contains(node.id));
    Some(others.fold(CpuSet::new(), |cpus, node| cpus.union(&node.cpus)))
}

/// Returns the CPUs of the nodes at the smallest distance. Returns none if the distances carry no
/// information: if all other nodes are equally far, or nearer than the node is to itself.
fn nearest(nodes: &[Node], at: usize) -> CpuSet {
    let row = &nodes[at].distances;
    let others = || (0..nodes.len()).filter(|&other| other != at);
    let Some(least) = others().filter_map(|other| row.get(other)).min() else { return CpuSet::new() };
    let near: Vec<usize> = others().filter(|&other| row.get(other) == Some(least)).collect();
    if *least <= row[at] || near.len() + 1 == nodes.len() {
        return CpuSet::new();
    }
    near.iter().fold(CpuSet::new(), |cpus, &other| cpus.union(&nodes[other].cpus))
}

fn tiers(tree: &SysTree, nodes: &mut [Node]) -> Result<(), Error> {
    for tier in tree.numbered_entries(TIERS, "memory_tier").iter() {
        let listed = tree.cpu_list(&format!("{TIERS}/memory_tier{tier}/nodelist"))?.unwrap_or_default();
        nodes.iter_mut().filter(|node| listed.contains(node.id)).for_each(|node| node.tier = Some(tier));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, cpus: &str, distances: &[u32]) -> Node {
        Node { id, cpus: cpus.parse().unwrap(), distances: distances.to_vec(), ..Node::default() }
    }

    #[test]
    fn a_node_without_cpus_is_located_at_the_nearest_cpus() {
        let nodes =
            [node(0, "0-1", &[10, 20, 14]), node(1, "2-3", &[20, 10, 24]), node(2, "", &[14, 24, 10])];
        assert_eq!(nearest(&nodes, 2).to_string(), "0-1");
        let equal =
            [node(0, "0-1", &[10, 20, 20]), node(1, "2-3", &[20, 10, 20]), node(2, "", &[20, 20, 10])];
        assert!(nearest(&equal, 2).is_empty());
        assert!(nearest(&[node(0, "", &[])], 0).is_empty());
    }

    #[test]
    fn distances_follow_the_nodes_that_stay() {
        let mut nodes = [node(0, "0", &[10, 40, 80]), node(8, "1", &[40, 10, 80])];
        keep_square_distances(&mut nodes, &"0,8,255".parse().unwrap());
        assert_eq!(
            (nodes[0].distances.as_slice(), nodes[1].distances.as_slice()),
            (&[10, 40][..], &[40, 10][..])
        );
        nodes[0].distances = vec![10];
        keep_square_distances(&mut nodes, &"0,8".parse().unwrap());
        assert!(nodes[1].distances.is_empty());
    }
}

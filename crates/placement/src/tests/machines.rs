//! Invented machines.

use manycore_topology::{
    CpuSet, Machine,
    machine::{Allowed, Cache, CacheKind, CoreKind, Device, Group, Node},
};

pub(super) fn cpus(text: &str) -> CpuSet {
    text.parse().unwrap()
}

/// A regular machine: the number of each unit within the next larger one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub packages: u32,
    pub nodes: u32,
    pub caches: u32,
    pub clusters: u32,
    pub cores: u32,
    pub siblings: u32,
}

impl Form {
    pub const ONE: Self = Self { packages: 1, nodes: 1, caches: 1, clusters: 1, cores: 1, siblings: 1 };

    /// Builds the machine. CPUs are numbered in the order of the tree, siblings next to each other.
    pub fn machine(self) -> Machine {
        let core = self.siblings;
        let cluster = core * self.cores;
        let cache = cluster * self.clusters;
        let node = cache * self.caches;
        let package = node * self.nodes;
        let all = package * self.packages;
        let nodes = (all / node) as usize;
        let distance = |a: usize, b: usize| match (a == b, a / self.nodes as usize == b / self.nodes as usize)
        {
            (true, _) => 10,
            (_, true) => 12,
            _ => 20,
        };
        Machine {
            online: groups(all, all)[0].cpus.clone(),
            packages: groups(all, package),
            dies: groups(all, package),
            clusters: if self.clusters > 1 { groups(all, cluster) } else { Vec::new() },
            cores: groups(all, core),
            caches: groups(all, cache).into_iter().map(|group| l3(group.cpus)).collect(),
            nodes: (0..nodes)
                .map(|id| Node {
                    id: id as u32,
                    cpus: groups(all, node)[id].cpus.clone(),
                    memory_bytes: Some((16 << 30) - if id == 0 { 200 << 20 } else { 0 }),
                    distances: (0..nodes).map(|other| distance(id, other)).collect(),
                    ..Node::default()
                })
                .collect(),
            ..Machine::default()
        }
    }
}

fn groups(all: u32, size: u32) -> Vec<Group> {
    let group = |at: u32| Group { id: Some(at.into()), cpus: (at * size..(at + 1) * size).collect() };
    (0..all / size).map(group).collect()
}

pub(super) fn named(lists: &[&str]) -> Vec<Group> {
    lists.iter().zip(0..).map(|(list, id)| Group { id: Some(id), cpus: cpus(list) }).collect()
}

pub(super) fn l3(cpus: CpuSet) -> Cache {
    Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes: Some(32 << 20),
        line_bytes: None,
        ways: None,
        id: None,
        cpus,
    }
}

/// Two CPUs under one L3.
pub(super) fn two() -> Machine {
    Form { cores: 2, ..Form::ONE }.machine()
}

/// Two packages of eight cores.
pub(super) fn two_packages() -> Machine {
    Form { packages: 2, cores: 8, ..Form::ONE }.machine()
}

/// Four clusters of four cores on two nodes.
pub(super) fn clustered() -> Machine {
    Form { nodes: 2, clusters: 2, cores: 4, ..Form::ONE }.machine()
}

/// Four cores of two CPUs, numbered 0,4 1,5 2,6 3,7.
pub(super) fn smt() -> Machine {
    Machine {
        online: cpus("0-7"),
        packages: named(&["0-7"]),
        cores: named(&["0,4", "1,5", "2,6", "3,7"]),
        caches: vec![l3(cpus("0-1,4-5")), l3(cpus("2-3,6-7"))],
        ..Machine::default()
    }
}

/// A machine with gaps in its CPU numbers; some CPUs are offline and some are not allowed.
pub(super) fn sparse() -> Machine {
    Machine {
        online: cpus("0,2,8,10,100,102"),
        offline: cpus("1,3"),
        packages: named(&["0,2,8,10", "100,102"]),
        cores: named(&["0", "2", "8", "10", "100", "102"]),
        allowed: Allowed {
            cpus: cpus("2-200"),
            effective_limit: "cpuset.cpus of /job".to_owned(),
            ..Allowed::default()
        },
        ..Machine::default()
    }
}

/// A cluster of three cores and one of five.
pub(super) fn uneven() -> Machine {
    Machine {
        online: cpus("0-7"),
        clusters: named(&["0-2", "3-7"]),
        cores: named(&["0", "1", "2", "3", "4", "5", "6", "7"]),
        ..Machine::default()
    }
}

/// Two fast cores of two CPUs, numbered after two modules of two slow cores.
pub(super) fn hybrid() -> Machine {
    let kind = |name: &str, list| CoreKind { name: name.to_owned(), cpus: cpus(list), ..CoreKind::default() };
    let l2 = |list| Cache { level: 2, ..l3(cpus(list)) };
    Machine {
        online: cpus("0-7"),
        cores: named(&["0", "1", "2", "3", "4-5", "6-7"]),
        caches: vec![l3(cpus("0-7")), l2("0-1"), l2("2-3"), l2("4-5"), l2("6-7")],
        core_kinds: vec![kind("performance", "4-7"), kind("efficiency", "0-3")],
        ..Machine::default()
    }
}

/// Two nodes with CPUs, the second one without memory, and two memory-only nodes.
pub(super) fn expanded() -> Machine {
    let node = |id, list, memory, distances: &[u32]| Node {
        id,
        cpus: cpus(list),
        memory_bytes: Some(memory),
        distances: distances.to_vec(),
        ..Node::default()
    };
    let mut nodes = vec![
        node(0, "0-1", 1 << 30, &[10, 20, 30, 30]),
        node(1, "2-3", 0, &[20, 10, 14, 14]),
        node(2, "", 1 << 30, &[30, 14, 10, 16]),
        node(3, "", 1 << 30, &[30, 14, 16, 10]),
    ];
    for (node, tier) in nodes[2..].iter_mut().zip([5, 4]) {
        (node.memory_only, node.tier) = (true, Some(tier));
    }
    Machine { online: cpus("0-3"), cores: named(&["0", "1", "2", "3"]), nodes, ..Machine::default() }
}

/// [`clustered`] with network cards on its second node, a disk without a node, and a card that is near all
/// CPUs.
pub(super) fn with_devices() -> Machine {
    let device = |address: &str, node, list, name: &str| Device {
        address: address.to_owned(),
        node,
        cpus: cpus(list),
        names: vec![name.to_owned()],
        ..Device::default()
    };
    let devices = vec![
        device("0000:3b:00.0", Some(1), "8-15", "eth0"),
        device("0001:01:00.0", None, "0-15", "nvme0n1"),
        device("0000:02:00.0", Some(0), "0-15", "eth1"),
        device("0000:04:00.0", Some(1), "", "ib0"),
    ];
    Machine { devices, ..clustered() }
}

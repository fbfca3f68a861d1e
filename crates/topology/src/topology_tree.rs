//! The machine as a tree of nested CPU sets, for text and pictures.
//!
//! Parts with the same CPUs share one [`TopologyUnit`]: a package with one node and one L3 is one box with three
//! names. Parts that overlap without nesting do not fit into a tree; they are in [`TopologyTree::overlapping`].

use crate::{
    CpuId, CpuSet, Machine,
    machine::{CacheKind, Group, Node},
};
use manycore_text::units;
use std::{cmp::Reverse, collections::HashMap};

/// A part of the machine, as an index into the vector of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Index in [`Machine::packages`].
    Package(usize),
    /// Index in [`Machine::nodes`].
    Node(usize),
    /// Index in [`Machine::dies`].
    Die(usize),
    /// Index in [`Machine::caches`].
    Cache(usize),
    /// Index in [`Machine::clusters`].
    Cluster(usize),
    /// Index in [`Machine::cores`].
    Core(usize),
}

/// A CPU set, the parts that consist of it, and the units within it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopologyUnit {
    /// All parts that have exactly these CPUs, outermost first. Empty for the whole machine.
    pub parts: Vec<Part>,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// Nodes without CPUs that are nearest to the unit, as indices in [`Machine::nodes`].
    pub memory: Vec<usize>,
    /// PCI devices that are nearest to the unit, as indices in [`Machine::devices`].
    pub devices: Vec<usize>,
    /// The units within it, ordered by first CPU.
    pub children: Vec<TopologyUnit>,
    /// A signature that is equal for units that differ only in numbers.
    pub signature: String,
}

/// The tree of the whole machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyTree {
    /// The unit of all online CPUs.
    pub root: TopologyUnit,
    /// Parts that overlap others without nesting.
    pub overlapping: Vec<Part>,
}

/// Returns the kernel's id of a group if the ids of all groups are small, so that they are useful as
/// numbers.
fn number(groups: &[Group], at: usize) -> Option<i64> {
    let most = i64::try_from(groups.len()).unwrap_or(i64::MAX).max(8);
    let counts = groups.iter().all(|group| group.id.is_some_and(|id| (0..most).contains(&id)));
    groups[at].id.filter(|_| counts)
}

impl Part {
    /// Returns the CPUs of the part.
    pub fn cpus(self, machine: &Machine) -> &CpuSet {
        match self {
            Self::Package(at) => &machine.packages[at].cpus,
            Self::Node(at) => &machine.nodes[at].cpus,
            Self::Die(at) => &machine.dies[at].cpus,
            Self::Cache(at) => &machine.caches[at].cpus,
            Self::Cluster(at) => &machine.clusters[at].cpus,
            Self::Core(at) => &machine.cores[at].cpus,
        }
    }

    /// Returns the number that users know the part by: the kernel's number. For packages whose ids are
    /// offsets into a firmware table, as on Arm (36 and 3180 on a Kunpeng 920 with two packages), it is the
    /// index.
    pub fn id(self, machine: &Machine) -> Option<i64> {
        match self {
            Self::Package(at) => number(&machine.packages, at).or_else(|| i64::try_from(at).ok()),
            Self::Node(at) => Some(i64::from(machine.nodes[at].id)),
            Self::Die(at) => number(&machine.dies, at),
            Self::Cluster(at) => number(&machine.clusters, at),
            Self::Cache(_) | Self::Core(_) => None,
        }
    }

    /// Returns the kind of the part: `package`, `node`, `die`, `L3`, `L1d`, `cluster`, `core`.
    pub fn kind(self, machine: &Machine) -> String {
        match self {
            Self::Package(_) => "package".to_owned(),
            Self::Node(_) => "node".to_owned(),
            Self::Die(_) => "die".to_owned(),
            Self::Cluster(_) => "cluster".to_owned(),
            Self::Core(_) => "core".to_owned(),
            Self::Cache(at) => {
                let cache = &machine.caches[at];
                let kind = match cache.kind {
                    CacheKind::Data => "d",
                    CacheKind::Instruction => "i",
                    CacheKind::Unified => "",
                };
                format!("L{}{kind}", cache.level)
            }
        }
    }

    /// Returns the size of a cache or of a node's memory in bytes.
    pub fn size(self, machine: &Machine) -> Option<u64> {
        match self {
            Self::Cache(at) => machine.caches[at].size_bytes,
            Self::Node(at) => machine.nodes[at].memory_bytes,
            _ => None,
        }
    }

    /// Returns kind and size, which all units of one shape have in common.
    pub fn kind_and_size(self, machine: &Machine) -> String {
        let size = self.size(machine).map(|size| format!(" {}", units::bytes(size))).unwrap_or_default();
        self.kind(machine) + &size
    }

    /// Returns kind, number and size: `node 0 16 GiB`, `L3 32 MiB`, `package 1`.
    pub fn label(self, machine: &Machine) -> String {
        let id = self.id(machine).map(|id| format!(" {id}")).unwrap_or_default();
        let size = self.size(machine).map(|size| format!(" {}", units::bytes(size))).unwrap_or_default();
        self.kind(machine) + &id + &size
    }
}

impl TopologyUnit {
    /// Returns whether one of its parts is a core.
    pub fn is_core(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Core(_)))
    }

    /// Returns the CPUs that are in none of its children.
    pub fn cpus_without_child(&self) -> CpuSet {
        let held: CpuSet = self.children.iter().flat_map(|child| child.cpus.iter()).collect();
        self.cpus.difference(&held)
    }

    /// Returns its children in runs of equal shape.
    pub fn runs(&self) -> impl Iterator<Item = &[Self]> {
        self.children.chunk_by(|a, b| a.signature == b.signature)
    }
}

impl TopologyTree {
    /// Builds the tree of the machine's parts.
    pub fn new(machine: &Machine) -> Self {
        let mut builder = Builder::new(&machine.online);
        let mut parts = all_parts(machine);
        parts.sort_by_key(|part| {
            let cpus = part.cpus(machine);
            (Reverse(cpus.len()), cpus.first(), rank(*part, machine))
        });
        parts.retain(|part| !part.cpus(machine).is_empty());
        for part in parts {
            builder.insert(part, part.cpus(machine));
        }
        let overlapping = std::mem::take(&mut builder.overlapping);
        let mut root = builder.take(0);
        for (at, node) in machine.nodes.iter().enumerate().filter(|(_, node)| node.memory_only) {
            smallest_unit(&mut root, &node.cpus).memory.push(at);
        }
        for (at, device) in machine.devices.iter().enumerate() {
            let near = device.node.and_then(|id| machine.nodes.iter().find(|node| node.id == id));
            smallest_unit(&mut root, near.map_or(&device.cpus, |node: &Node| &node.cpus)).devices.push(at);
        }
        set_shapes(&mut root, machine);
        Self { root, overlapping }
    }
}

fn all_parts(machine: &Machine) -> Vec<Part> {
    let nodes = (0..machine.nodes.len()).filter(|&at| !machine.nodes[at].memory_only).map(Part::Node);
    // Dies that are equal to the packages would only repeat them.
    let dies = if machine.dies == machine.packages { 0 } else { machine.dies.len() };
    (0..machine.packages.len())
        .map(Part::Package)
        .chain(nodes)
        .chain((0..dies).map(Part::Die))
        .chain((0..machine.caches.len()).map(Part::Cache))
        .chain((0..machine.clusters.len()).map(Part::Cluster))
        .chain((0..machine.cores.len()).map(Part::Core))
        .collect()
}

/// Returns the sort key by which one of two parts with the same CPUs is drawn around the other.
fn rank(part: Part, machine: &Machine) -> (u32, u32, usize) {
    match part {
        Part::Package(at) => (0, 0, at),
        Part::Node(at) => (1, 0, at),
        Part::Die(at) => (2, 0, at),
        Part::Cache(at) if machine.caches[at].level > 2 => (3, 100 - machine.caches[at].level.min(100), at),
        Part::Cluster(at) => (4, 0, at),
        Part::Core(at) => (5, 0, at),
        Part::Cache(at) => (6, 100 - machine.caches[at].level.min(100), at),
    }
}

/// Maximum depth. Machines have about ten levels; a damaged file must not exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Builds the tree from the largest CPU set to the smallest, so that the deepest unit that contains a CPU
/// is always the one to add the next part to.
struct Builder {
    units: Vec<TopologyUnit>,
    children: Vec<Vec<usize>>,
    depth: Vec<usize>,
    deepest: HashMap<CpuId, usize>,
    overlapping: Vec<Part>,
}

impl Builder {
    fn new(online: &CpuSet) -> Self {
        Self {
            units: vec![TopologyUnit { cpus: online.clone(), ..TopologyUnit::default() }],
            children: vec![Vec::new()],
            depth: vec![0],
            deepest: online.iter().map(|cpu| (cpu, 0)).collect(),
            overlapping: Vec::new(),
        }
    }

    fn insert(&mut self, part: Part, cpus: &CpuSet) {
        let holder = |cpu: CpuId| self.deepest.get(&cpu).copied();
        let Some(outer) = cpus.first().and_then(holder) else { return };
        if outer > 0 && self.units[outer].cpus == *cpus {
            self.units[outer].parts.push(part);
        } else if self.depth[outer] < MAX_DEPTH && cpus.iter().all(|cpu| holder(cpu) == Some(outer)) {
            let new = self.units.len();
            self.units.push(TopologyUnit {
                parts: vec![part],
                cpus: cpus.clone(),
                ..TopologyUnit::default()
            });
            self.children.push(Vec::new());
            self.depth.push(self.depth[outer] + 1);
            self.children[outer].push(new);
            self.deepest.extend(cpus.iter().map(|cpu| (cpu, new)));
        } else {
            self.overlapping.push(part);
        }
    }

    fn take(&mut self, at: usize) -> TopologyUnit {
        let mut unit = std::mem::take(&mut self.units[at]);
        let children = std::mem::take(&mut self.children[at]);
        unit.children = children.into_iter().map(|child| self.take(child)).collect();
        unit.children.sort_by_key(|child| child.cpus.first());
        unit
    }
}

/// Returns the smallest unit that contains these CPUs; the whole machine for an empty set.
fn smallest_unit<'a>(unit: &'a mut TopologyUnit, cpus: &CpuSet) -> &'a mut TopologyUnit {
    let inner = unit.children.iter().position(|child| !cpus.is_empty() && cpus.is_subset(&child.cpus));
    match inner {
        Some(at) => smallest_unit(&mut unit.children[at], cpus),
        None => unit,
    }
}

/// Sets the shapes. Kinds of cores, memory and devices are part of a shape: a unit with a device differs
/// from the others.
fn set_shapes(unit: &mut TopologyUnit, machine: &Machine) {
    unit.children.iter_mut().for_each(|child| set_shapes(child, machine));
    let mut shape: Vec<String> = unit.parts.iter().map(|part| part.kind_and_size(machine)).collect();
    shape.push(format!("{} CPUs", unit.cpus.len()));
    if machine.core_kinds.len() > 1 && unit.is_core() {
        shape.extend(kind_of(machine, &unit.cpus).map(str::to_owned));
    }
    shape
        .extend(unit.memory.iter().chain(&unit.devices).map(|at| format!("at {:?} {at}", unit.cpus.first())));
    for run in unit.children.chunk_by(|a, b| a.signature == b.signature) {
        shape.push(format!("{}x({})", run.len(), run[0].signature));
    }
    unit.signature = shape.join(",");
}

/// Returns the name of these CPUs' kind of core if the machine has several kinds.
pub fn kind_of<'a>(machine: &'a Machine, cpus: &CpuSet) -> Option<&'a str> {
    let first = cpus.first().filter(|_| machine.core_kinds.len() > 1)?;
    machine.core_kinds.iter().find(|kind| kind.cpus.contains(first)).map(|kind| kind.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Cache, Device, Group};

    fn groups(sets: &[&str]) -> Vec<Group> {
        sets.iter().map(|set| Group { id: None, cpus: set.parse().unwrap() }).collect()
    }

    fn cache(level: u32, cpus: &str) -> Cache {
        let kind = CacheKind::Unified;
        Cache {
            level,
            kind,
            size_bytes: Some(1 << 20),
            line_bytes: None,
            ways: None,
            id: None,
            cpus: cpus.parse().unwrap(),
        }
    }

    fn machine() -> Machine {
        Machine {
            online: "0-7".parse().unwrap(),
            packages: groups(&["0-3", "4-7"]),
            cores: groups(&["0-1", "2-3", "4-5", "6-7"]),
            caches: vec![cache(3, "0-3"), cache(3, "4-7"), cache(2, "0-1"), cache(2, "2-3")],
            ..Machine::default()
        }
    }

    #[test]
    fn equal_sets_share_a_unit() {
        let TopologyTree { root, overlapping } = TopologyTree::new(&machine());
        assert!(overlapping.is_empty() && root.parts.is_empty());
        assert_eq!(root.children[0].parts, [Part::Package(0), Part::Cache(0)]);
        assert_eq!(root.children[0].children[0].parts, [Part::Core(0), Part::Cache(2)]);
        assert_eq!(root.children[0].runs().count(), 1);
        assert_eq!(root.runs().count(), 2, "only one package has an L2");
    }

    #[test]
    fn overlapping_parts_are_reported() {
        let mut crossed = machine();
        crossed.caches.push(cache(4, "2-5"));
        assert_eq!(TopologyTree::new(&crossed).overlapping, [Part::Cache(4)]);
    }

    #[test]
    fn devices_and_memory_are_attached_to_their_node() {
        let mut with = machine();
        with.nodes = vec![
            Node { id: 0, cpus: "0-3".parse().unwrap(), ..Node::default() },
            Node { id: 9, cpus: "4-7".parse().unwrap(), memory_only: true, ..Node::default() },
        ];
        with.devices = vec![
            Device { node: Some(0), ..Device::default() },
            Device { cpus: "6".parse().unwrap(), ..Device::default() },
            Device::default(),
        ];
        let TopologyTree { root, .. } = TopologyTree::new(&with);
        assert_eq!(
            (root.children[0].devices.as_slice(), root.children[1].memory.as_slice()),
            (&[0][..], &[1][..])
        );
        assert_eq!(root.children[1].children[1].devices, [1]);
        assert_eq!(root.devices, [2]);
    }

    #[test]
    fn cpus_without_cores_are_in_no_child() {
        let mut coreless = machine();
        coreless.cores.clear();
        assert_eq!(TopologyTree::new(&coreless).root.children[0].cpus_without_child().to_string(), "");
        coreless.caches.clear();
        assert_eq!(TopologyTree::new(&coreless).root.children[0].cpus_without_child().to_string(), "0-3");
    }
}

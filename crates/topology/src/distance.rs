//! Topological distance of two CPUs: the innermost unit that they share.

use crate::{
    cpuset::{CpuId, CpuSet},
    level::Level,
    machine::{CacheKind, Group, Machine},
};
use serde::{Deserialize, Serialize};

/// The innermost unit that two different CPUs share, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TopologyDistance {
    /// A core: the CPUs are SMT siblings.
    Core,
    /// A cluster, or a cache between the core's own and the last level.
    Cluster,
    /// The last-level cache.
    Llc,
    /// A NUMA node.
    Node,
    /// None of these: the CPUs are on different nodes.
    Remote,
}

impl TopologyDistance {
    /// All distances, nearest first.
    pub const ALL: [Self; 5] = [Self::Core, Self::Cluster, Self::Llc, Self::Node, Self::Remote];

    /// Returns the name in records: `core`, `cluster`, `llc`, `node`, `remote`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cluster => "cluster",
            Self::Llc => "llc",
            Self::Node => "node",
            Self::Remote => "remote",
        }
    }

    /// Returns the description of such a pair of CPUs.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Core => "SMT siblings",
            Self::Cluster => "same cluster",
            Self::Llc => "same last-level cache",
            Self::Node => "same node",
            Self::Remote => "other node",
        }
    }

    /// Returns the distance of two different CPUs. A machine without known nodes counts as one node.
    pub fn between(machine: &Machine, a: CpuId, b: CpuId) -> Self {
        let both = |cpus: &CpuSet| cpus.contains(a) && cpus.contains(b);
        let in_one = |groups: &[Group]| groups.iter().any(|group| both(&group.cpus));
        let caches = || machine.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        let last = caches().filter(|cache| cache.cpus.contains(a)).map(|cache| cache.level).max();
        let shared = caches().filter(|cache| both(&cache.cpus)).map(|cache| cache.level).min();
        if in_one(&machine.cores) {
            Self::Core
        } else if in_one(&machine.clusters) || shared.is_some() && shared < last {
            Self::Cluster
        } else if shared.is_some() {
            Self::Llc
        } else if machine.nodes.is_empty() || machine.nodes.iter().any(|node| both(&node.cpus)) {
            Self::Node
        } else {
            Self::Remote
        }
    }

    /// Returns the groups of `cpus` that share a unit of at most this distance, ordered by first CPU. A CPU
    /// that shares no such unit is a group of its own.
    pub fn groups(self, machine: &Machine, cpus: &CpuSet) -> Vec<CpuSet> {
        let last: Vec<&CpuSet> = machine.last_level_caches().map(|cache| &cache.cpus).collect();
        let below = machine.caches.iter().map(|cache| &cache.cpus).filter(|cpus| !last.contains(cpus));
        let mut units: Vec<&CpuSet> = match self {
            Self::Core => machine.units(Level::Core),
            Self::Cluster => {
                [machine.units(Level::Core), machine.units(Level::Cluster), below.collect()].concat()
            }
            Self::Llc => machine.units(Level::Llc),
            Self::Node => machine.units(Level::Node),
            Self::Remote => vec![cpus],
        };
        if self == Self::Node && units.is_empty() {
            units.push(cpus);
        }
        // The largest first: the L1 of a core is inside the L2 of its cluster.
        units.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let mut groups = cpus.divide(units);
        groups.sort_by_key(CpuSet::first);
        groups
    }

    /// Returns the first pair among `cpus` at each distance that occurs, nearest first.
    pub fn examples(machine: &Machine, cpus: &CpuSet) -> Vec<(Self, [CpuId; 2])> {
        let mut found: Vec<(Self, [CpuId; 2])> = Vec::new();
        for a in cpus.iter() {
            for b in cpus.iter().filter(|b| *b > a) {
                let distance = Self::between(machine, a, b);
                if !found.iter().any(|(known, _)| *known == distance) {
                    found.push((distance, [a, b]));
                }
            }
            if found.len() == Self::ALL.len() {
                break;
            }
        }
        found.sort_unstable();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Cache, CacheKind, Node};

    fn groups(width: u32) -> Vec<Group> {
        (0u32..16)
            .step_by(width as usize)
            .map(|first| Group { id: None, cpus: (first..first + width).collect() })
            .collect()
    }

    #[test]
    fn distances_of_a_machine_with_all_levels_are_distinguished() {
        let cache = |level, cpus| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: None,
            line_bytes: Some(64),
            ways: None,
            id: None,
            cpus,
        };
        let machine = Machine {
            online: (0..16).collect(),
            cores: groups(2),
            clusters: groups(4),
            caches: groups(8)
                .into_iter()
                .map(|group| cache(3, group.cpus))
                .chain([cache(2, (12..16).collect())])
                .collect(),
            nodes: vec![
                Node { id: 0, cpus: (0..12).collect(), ..Node::default() },
                Node { id: 1, cpus: (12..16).collect(), ..Node::default() },
            ],
            ..Machine::default()
        };
        let groups = |distance: TopologyDistance| {
            let groups = distance.groups(&machine, &machine.online);
            groups.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(groups(TopologyDistance::Core), "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15");
        assert_eq!(groups(TopologyDistance::Cluster), "0-3 4-7 8-11 12-15");
        assert_eq!(groups(TopologyDistance::Llc), "0-7 8-15");
        assert_eq!(groups(TopologyDistance::Node), "0-11 12-15");
        assert_eq!(groups(TopologyDistance::Remote), "0-15");
        assert_eq!(
            TopologyDistance::examples(&machine, &machine.online),
            [
                (TopologyDistance::Core, [0, 1]),
                (TopologyDistance::Cluster, [0, 2]),
                (TopologyDistance::Llc, [0, 4]),
                (TopologyDistance::Node, [0, 8]),
                (TopologyDistance::Remote, [0, 12]),
            ]
        );
    }

    #[test]
    fn machine_without_nodes_is_one_node() {
        assert_eq!(TopologyDistance::between(&Machine::default(), 0, 1), TopologyDistance::Node);
        let cpus = "0,3".parse().unwrap();
        assert_eq!(TopologyDistance::Node.groups(&Machine::default(), &cpus), [cpus]);
        assert_eq!(TopologyDistance::Llc.groups(&Machine::default(), &"0,3".parse().unwrap()).len(), 2);
    }
}

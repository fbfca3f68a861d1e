//! The levels of a machine at which CPUs share a resource, and the units of each level.

use crate::{CpuSet, Machine, machine::Group};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A level at which CPUs share a resource, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Cores, with their SMT siblings.
    Core,
    /// CPUs that share a mid-level resource, such as an L2, if the kernel reports them.
    Cluster,
    /// CPUs that share a last-level cache. A core without a cache is a unit of its own.
    Llc,
    /// NUMA nodes that have CPUs.
    Node,
    /// Packages (sockets).
    Package,
}

impl Level {
    /// All levels, innermost first.
    pub const ALL: [Self; 5] = [Self::Core, Self::Cluster, Self::Llc, Self::Node, Self::Package];

    /// Returns the name on the command line, in metrics and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Cluster => "cluster",
            Self::Llc => "llc",
            Self::Node => "node",
            Self::Package => "package",
        }
    }
}

/// Writes the name in a sentence.
impl fmt::Display for Level {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Core => "core",
            Self::Cluster => "cluster",
            Self::Llc => "last-level cache",
            Self::Node => "NUMA node",
            Self::Package => "package",
        })
    }
}

impl Machine {
    /// Returns the units that the machine lists at a level: sets of online CPUs.
    pub fn units(&self, level: Level) -> Vec<&CpuSet> {
        match level {
            Level::Core => cpus_of(&self.cores),
            Level::Cluster => cpus_of(&self.clusters),
            Level::Llc => {
                let mut units: Vec<&CpuSet> = self.last_level_caches().map(|cache| &cache.cpus).collect();
                if !units.is_empty() {
                    let cached = CpuSet::union_of(units.iter().copied());
                    units.extend(cpus_of(&self.cores).into_iter().filter(|core| !core.intersects(&cached)));
                }
                units
            }
            Level::Node => {
                self.nodes.iter().filter(|node| !node.memory_only).map(|node| &node.cpus).collect()
            }
            Level::Package => cpus_of(&self.packages),
        }
    }

    /// Returns whether these CPUs belong to more than one core.
    pub fn are_several_cores(&self, cpus: &CpuSet) -> bool {
        if self.cores.is_empty() {
            return cpus.len() > 1;
        }
        self.cores.iter().filter(|core| core.cpus.intersects(cpus)).count() > 1
    }
}

fn cpus_of(groups: &[Group]) -> Vec<&CpuSet> {
    groups.iter().map(|group| &group.cpus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        SysTree, TopologyDistance,
        machine::{Cache, CacheKind},
        read,
        synthetic::MachineSpec,
    };

    #[test]
    fn each_cpu_has_a_last_level_of_its_own() {
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
        let cache = |level, list: &str| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: None,
            line_bytes: None,
            ways: None,
            id: None,
            cpus: cpus(list),
        };
        let cores = (0..7).map(|cpu| Group { id: None, cpus: CpuSet::single(cpu) });
        let caches = vec![cache(2, "0-1"), cache(2, "2-3"), cache(2, "4-5"), cache(3, "0-3")];
        let mut machine = Machine { cores: cores.collect(), caches, ..Machine::default() };
        let units = |machine: &Machine| {
            machine.units(Level::Llc).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(units(&machine), "0-3 4-5 6");
        let pair = |a, b| TopologyDistance::between(&machine, a, b);
        assert_eq!(
            [pair(0, 1), pair(0, 2), pair(4, 5), pair(3, 4)],
            [TopologyDistance::Cluster, TopologyDistance::Llc, TopologyDistance::Llc, TopologyDistance::Node]
        );
        let groups = TopologyDistance::Cluster.groups(&machine, &cpus("0-6"));
        assert_eq!(groups, ["0-1", "2-3", "4", "5", "6"].map(cpus));
        machine.caches.clear();
        assert_eq!(units(&machine), "");
    }

    #[test]
    fn each_level_has_its_units() {
        let spec = MachineSpec { packages: 2, clusters: 2, cores: 4, threads: 2, ..MachineSpec::default() };
        let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
        assert_eq!(Level::ALL.map(|level| machine.units(level).len()), [16, 4, 2, 2, 2]);
        assert_eq!(machine.units(Level::Cluster)[1].to_string(), "8-15");
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
        assert!(machine.are_several_cores(&cpus("0-2")) && !machine.are_several_cores(&cpus("0-1")));
    }
}

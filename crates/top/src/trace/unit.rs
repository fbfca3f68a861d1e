//! The units of a machine by which CPUs are grouped in a trace.

use crate::{
    picture::{Migration, migration},
    units::LevelUnits,
};
use manycore_topology::{CpuId, Level, Machine};

/// The innermost level of which the machine has units of several CPUs: clusters, last-level caches or nodes.
pub(super) struct TraceUnits {
    units: LevelUnits,
    names: Vec<String>,
    /// Clusters, last-level caches and nodes.
    levels: [LevelUnits; 3],
}

impl TraceUnits {
    pub fn new(machine: &Machine) -> Self {
        let of = |level| LevelUnits::new(machine, level);
        let [clusters, llcs, nodes] = [of(Level::Cluster), of(Level::Llc), of(Level::Node)];
        let has_groups = |units: &LevelUnits| units.cpus.iter().any(|cpus| cpus.len() > 1);
        let units = [&clusters, &llcs].into_iter().find(|units| has_groups(units)).unwrap_or(&nodes).clone();
        let name = |first: CpuId| {
            let part = |level: &LevelUnits, word: &str| {
                level.of(first).map(|unit| format!("{word} {unit}")).unwrap_or_default()
            };
            let mut parts = vec![part(&nodes, "node")];
            if units.level != Level::Node {
                parts.push(part(&llcs, "LLC"));
            }
            if units.level == Level::Cluster {
                parts.push(part(&clusters, "cluster"));
            }
            parts.join(", ")
        };
        let names = units
            .cpus
            .iter()
            .map(|cpus| format!("{}: CPUs {cpus}", name(cpus.first().unwrap_or_default())))
            .collect();
        Self { units, names, levels: [clusters, llcs, nodes] }
    }

    /// Names of the units, such as `node 0, LLC 1, cluster 3: CPUs 12-15`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the distance of two CPUs; `None` if they are the same.
    pub fn distance(&self, from: CpuId, to: CpuId) -> Option<Migration> {
        migration(&self.levels, from, to)
    }

    /// Returns the unit of a CPU; `None` if the machine does not have it online.
    pub fn of(&self, cpu: CpuId) -> Option<usize> {
        self.units.of(cpu)
    }
}

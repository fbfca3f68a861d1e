//! The units of a machine by which CPUs are grouped in a trace.

use crate::{
    picture::{Migration, migration},
    units::{Distances, LevelUnits},
};
use manycore_topology::{CpuId, Level, Machine};

/// The innermost level of which the machine has units of several CPUs: clusters, last-level caches or nodes.
pub(super) struct TraceUnits {
    units: LevelUnits,
    names: Vec<String>,
    /// Clusters, last-level caches and nodes.
    levels: [LevelUnits; 3],
    distances: Distances,
}

impl TraceUnits {
    pub fn new(machine: &Machine) -> Self {
        let of = |level| LevelUnits::new(machine, level);
        let [clusters, llcs, nodes] = [of(Level::Cluster), of(Level::Llc), of(Level::Node)];
        let has_groups = |units: &LevelUnits| units.cpus.iter().any(|cpus| cpus.len() > 1);
        let units = [&clusters, &llcs].into_iter().find(|units| has_groups(units)).unwrap_or(&nodes).clone();
        let name = |first: CpuId| {
            let part = |level: &LevelUnits, word: &str| {
                level.of(first).map(|unit| format!("{word} {}", level.numbers[unit])).unwrap_or_default()
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
        let levels = [clusters, llcs, nodes];
        let distances = Distances::new(levels.each_ref().map(|level| level.cpus.iter().collect()));
        Self { units, names, levels, distances }
    }

    /// Names of the units, such as `node 0, LLC 1, cluster 3: CPUs 12-15`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the distances of migrations that the machine has.
    pub fn distances(&self) -> Distances {
        self.distances
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_numbers_of_the_kernel() {
        let units = TraceUnits::new(&crate::units::tests::machine_with_gaps());
        assert_eq!(units.names()[3], "node 2, LLC 1, cluster 3: CPUs 6-7");
    }
}

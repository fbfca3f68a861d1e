//! The levels of a machine that the map shows, outermost first.

use manycore_topology::{CpuId, CpuSet, Level, Machine};
use std::cmp::Reverse;

/// One level that divides the machine in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapLevel {
    /// The level; absent for single CPUs.
    pub level: Option<Level>,
    /// Its units in the order of the map.
    pub units: Vec<CpuSet>,
    /// The number of each unit that users know: that of the node, otherwise its index.
    numbers: Vec<u32>,
}

impl MapLevel {
    /// Returns the name of the level in one word.
    pub fn name(&self) -> &'static str {
        match self.level {
            Some(Level::Llc) => "LLC",
            Some(level) => level.name(),
            None => "CPU",
        }
    }

    /// Returns the name of a unit: `node 1`.
    pub fn unit_name(&self, unit: usize) -> String {
        format!("{} {}", self.name(), self.numbers.get(unit).copied().unwrap_or(unit as u32))
    }

    /// Returns the number of the unit of a CPU, and the name of the level.
    pub fn number_of(&self, cpu: CpuId) -> Option<u32> {
        let unit = self.units.iter().position(|unit| unit.contains(cpu))?;
        self.numbers.get(unit).copied()
    }
}

/// Levels and their units. The last level is that of the CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapLevels {
    /// Outermost first.
    pub levels: Vec<MapLevel>,
}

/// Which of two levels with the same units gives them its name: the earlier one.
const NAMED_FIRST: [Level; 5] = [Level::Node, Level::Package, Level::Core, Level::Llc, Level::Cluster];

impl MapLevels {
    /// Returns the levels of a machine: without those that have the units of another one, that are the whole machine,
    /// or that divide units of another one.
    pub fn new(machine: &Machine) -> Self {
        let mut candidates: Vec<MapLevel> = NAMED_FIRST.map(|level| level_of(machine, level)).into();
        let singles: Vec<CpuSet> = machine.online.iter().map(CpuSet::single).collect();
        let numbers = machine.online.iter().collect();
        candidates.push(MapLevel { level: None, units: singles, numbers });
        // Stable: of levels with equally many units, that which gives the name is first.
        candidates.sort_by_key(|level| (level.units.len(), Reverse(level.level.is_none())));
        let mut levels: Vec<MapLevel> = Vec::new();
        for candidate in candidates {
            let divides = levels.last().is_none_or(|outer| is_refined(&outer.units, &candidate.units));
            let is_new = levels.last().is_none_or(|outer| outer.units.len() < candidate.units.len());
            if candidate.level.is_none() || candidate.units.len() > 1 && divides && is_new {
                levels.push(candidate);
            }
        }
        // Cores of one CPU each would repeat the CPUs.
        let count = levels.last().map_or(0, |last| last.units.len());
        levels.retain(|level| level.level.is_none() || level.units.len() < count);
        let mut ordered = Self { levels };
        ordered.sort();
        ordered
    }

    /// Sorts units so that those of one outer unit are together.
    fn sort(&mut self) {
        for at in 1..self.levels.len() {
            let (outer, inner) = self.levels.split_at_mut(at);
            let (Some(outer), Some(level)) = (outer.last(), inner.first_mut()) else { return };
            let of = outer_index(&outer.units);
            let mut pairs: Vec<(CpuSet, u32)> = level.units.drain(..).zip(level.numbers.drain(..)).collect();
            pairs.sort_by_key(|(unit, _)| {
                let first = unit.first().unwrap_or(0);
                (of.get(first as usize).copied().unwrap_or(usize::MAX), first)
            });
            (level.units, level.numbers) = pairs.into_iter().unzip();
        }
    }

    /// Returns for each unit of level `at` the index of the unit of `outer` that it is in.
    pub fn outer_units(&self, at: usize, outer: usize) -> Vec<usize> {
        let of = outer_index(&self.levels[outer].units);
        let first = |unit: &CpuSet| unit.first().and_then(|first| of.get(first as usize)).copied();
        self.levels[at].units.iter().map(|unit| first(unit).unwrap_or(usize::MAX)).collect()
    }

    /// Returns the innermost level above cores whose units are neither CPUs nor the whole machine: where tasks share a
    /// cache.
    pub fn shared(&self) -> Option<&MapLevel> {
        self.levels.iter().rev().find(|level| level.level.is_some_and(|level| level != Level::Core))
    }
}

fn level_of(machine: &Machine, level: Level) -> MapLevel {
    let mut units = machine.online.divide(machine.units(level));
    units.sort_by_key(CpuSet::first);
    let number = |(at, unit): (usize, &CpuSet)| {
        let node = machine.nodes.iter().find(|node| level == Level::Node && node.cpus == *unit);
        node.map_or(at as u32, |node| node.id)
    };
    let numbers = units.iter().enumerate().map(number).collect();
    MapLevel { level: Some(level), units, numbers }
}

/// Returns the index of the unit of each CPU, by its number.
fn outer_index(units: &[CpuSet]) -> Vec<usize> {
    let last = units.iter().filter_map(CpuSet::last).max().map_or(0, |last| last as usize + 1);
    let mut of = vec![usize::MAX; last];
    for (at, unit) in units.iter().enumerate() {
        unit.iter().for_each(|cpu| of[cpu as usize] = at);
    }
    of
}

/// Returns whether each of the inner units is in one of the outer ones.
fn is_refined(outer: &[CpuSet], inner: &[CpuSet]) -> bool {
    let of = outer_index(outer);
    inner.iter().all(|unit| {
        let mut units = unit.iter().map(|cpu| of.get(cpu as usize));
        let first = units.next();
        units.all(|other| Some(other) == first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::{SysTree, read, synthetic::MachineSpec};

    fn names(spec: &MachineSpec) -> String {
        let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
        let levels = MapLevels::new(&machine);
        let text = levels.levels.iter().map(|level| format!("{} {}", level.units.len(), level.name()));
        text.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn levels_are_not_repeated() {
        let spec = MachineSpec::default;
        assert_eq!(names(&MachineSpec { cores: 4, ..spec() }), "4 CPU");
        assert_eq!(
            names(&MachineSpec { packages: 2, cores: 4, threads: 2, ..spec() }),
            "2 node, 8 core, 16 CPU"
        );
        assert_eq!(
            names(&MachineSpec {
                packages: 2,
                nodes: 2,
                caches: 2,
                clusters: 2,
                cores: 4,
                threads: 2,
                ..spec()
            }),
            "2 package, 4 node, 8 LLC, 16 cluster, 64 core, 128 CPU"
        );
        assert_eq!(names(&MachineSpec { cores: 1, ..spec() }), "1 CPU");
    }

    #[test]
    fn units_of_one_outer_unit_are_together() {
        let numbering = manycore_topology::synthetic::Numbering::Halves;
        let spec = MachineSpec { packages: 2, cores: 2, threads: 2, numbering, ..MachineSpec::default() };
        let levels = MapLevels::new(&read(&SysTree::from_capture(spec.capture())).unwrap());
        let cpus = &levels.levels.last().unwrap().units;
        let text: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        assert_eq!(text.join(" "), "0 4 1 5 2 6 3 7");
        assert_eq!(levels.levels[1].unit_name(2), "core 2");
    }
}

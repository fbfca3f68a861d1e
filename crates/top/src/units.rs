//! Which unit of each level a CPU belongs to.

use crate::picture::{Migration, Picture};
use manycore_topology::{CpuId, CpuSet, Level, Machine};
use std::ops::AddAssign;

/// The levels of which a picture has sums, innermost first.
pub(crate) const LEVELS: [Level; 3] = [Level::Cluster, Level::Llc, Level::Node];

/// The units of one level. Every online CPU is in exactly one of them.
#[derive(Clone, Debug)]
pub(crate) struct LevelUnits {
    pub level: Level,
    pub cpus: Vec<CpuSet>,
    /// The number of each unit that users know: that of a node, otherwise its index.
    pub numbers: Vec<u32>,
    of_cpu: Vec<Option<usize>>,
}

impl LevelUnits {
    /// Returns the units of a level. A CPU that is in none is a unit of its own.
    pub(crate) fn new(machine: &Machine, level: Level) -> Self {
        let mut cpus = machine.online.divide(machine.units(level));
        cpus.sort_by_key(CpuSet::first);
        let mut of_cpu = vec![None; machine.online.last().map_or(0, |last| last as usize + 1)];
        for (unit, set) in cpus.iter().enumerate() {
            set.iter().for_each(|cpu| of_cpu[cpu as usize] = Some(unit));
        }
        let nodes = || machine.nodes.iter().filter(|_| level == Level::Node);
        // CPUs of no node have numbers that no node has.
        let free = nodes().map(|node| node.id + 1).max().unwrap_or(0);
        let number = |(at, set): (usize, &CpuSet)| {
            let mut with_cpus = nodes().filter(|node| !node.memory_only);
            with_cpus.find(|node| node.cpus.intersects(set)).map_or(free + at as u32, |node| node.id)
        };
        Self { level, numbers: cpus.iter().enumerate().map(number).collect(), cpus, of_cpu }
    }

    /// Returns the index of the unit of a CPU; `None` if the machine does not have it online.
    pub(crate) fn of(&self, cpu: CpuId) -> Option<usize> {
        self.of_cpu.get(cpu as usize).copied().flatten()
    }

    /// Returns whether two CPUs are in different units, both of them known.
    pub(crate) fn are_apart(&self, a: CpuId, b: CpuId) -> bool {
        self.of(a).zip(self.of(b)).is_some_and(|(a, b)| a != b)
    }
}

const _: () = assert!(Migration::AcrossNode as usize == 3, "migrations are in the order of their type");

/// The distances of migrations that a machine has. A level of which each unit is a single CPU, or has the units of the next
/// larger level, is none: what is within it, or across it, belongs to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distances {
    is_level: [bool; 3],
    /// Whether the level has several units.
    has_several: [bool; 3],
}

impl Distances {
    /// Returns those of the machine of a picture.
    pub(crate) fn of(picture: &Picture) -> Self {
        Self::new(LEVELS.map(|level| picture.units_of(level).map(|unit| &unit.cpus).collect()))
    }

    /// Returns those of a machine with these units of [`LEVELS`].
    pub(crate) fn new(units: [Vec<&CpuSet>; 3]) -> Self {
        let is_level = std::array::from_fn(|at| {
            let is_shared = units[at].iter().any(|cpus| cpus.len() > 1);
            is_shared && units.get(at + 1) != Some(&units[at])
        });
        Self { is_level, has_several: units.map(|units| units.len() > 1) }
    }

    /// Adds up migrations by [`Migration`](crate::Migration) that are of one distance on this machine.
    pub(crate) fn merge<T: Default + AddAssign>(self, mut all: [T; 4]) -> [T; 4] {
        for at in (0..LEVELS.len()).filter(|&at| !self.is_level[at]) {
            let inner = std::mem::take(&mut all[at]);
            all[at + 1] += inner;
        }
        all
    }

    /// Returns the distances: the place in merged migrations, and the level within which, otherwise across which they are.
    pub(crate) fn all(self) -> impl Iterator<Item = (usize, bool, Level)> {
        let there: Vec<usize> = (0..LEVELS.len()).filter(|&at| self.is_level[at]).collect();
        let within = there.first().map(|&at| (at, true, LEVELS[at]));
        let has_several = self.has_several;
        let across = (0..there.len()).filter_map(move |number| {
            let (at, next) = (there[number], there.get(number + 1).copied().unwrap_or(LEVELS.len()));
            has_several[at].then_some((next, false, LEVELS[at]))
        });
        within.into_iter().chain(across)
    }

    /// Returns migrations by [`Migration`](crate::Migration) in words, such as `3 within clusters, 2 across clusters`; only the
    /// number where all CPUs share nothing.
    pub(crate) fn text(self, counts: [u64; 4]) -> String {
        let counts = self.merge(counts);
        let named: Vec<String> = self
            .all()
            .map(|(at, is_within, level)| format!("{} {}", counts[at], name(is_within, level)))
            .collect();
        if named.is_empty() { counts[3].to_string() } else { named.join(", ") }
    }

    /// Returns what one migration is called, such as `across clusters`; `None` where all CPUs share nothing.
    pub(crate) fn name(self, migration: Migration) -> Option<String> {
        let mut one = [0; 4];
        one[migration as usize] = 1;
        let merged = self.merge(one);
        self.all().find(|(at, ..)| merged[*at] > 0).map(|(_, is_within, level)| name(is_within, level))
    }
}

fn name(is_within: bool, level: Level) -> String {
    let units = match level {
        Level::Cluster => "clusters",
        Level::Llc => "last-level caches",
        _ => "nodes",
    };
    format!("{} {units}", if is_within { "within" } else { "across" })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use manycore_topology::{SysTree, read};
    use std::path::Path;

    /// A machine whose nodes are 0 and 2.
    pub(crate) fn machine_with_gaps() -> Machine {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/node-gaps-8cpu.machine");
        read(&SysTree::open(Path::new(path)).unwrap()).unwrap()
    }

    #[test]
    fn nodes_have_the_numbers_of_the_kernel() {
        let machine = machine_with_gaps();
        let numbers = LEVELS.map(|level| LevelUnits::new(&machine, level).numbers);
        assert_eq!(numbers, [vec![0, 1, 2, 3], vec![0, 1], vec![0, 2]]);
        // CPUs of no node are not mistaken for a node.
        let mut machine = machine;
        machine.nodes.retain(|node| node.id != 0);
        let numbers = LevelUnits::new(&machine, Level::Node).numbers;
        assert_eq!(numbers, [3, 4, 5, 6, 2]);
    }
}

//! Which CPUs are a row of the map, and which units have a course.

use crate::units::{LEVELS, LevelUnits};
use manycore_topology::{CpuSet, Level, Machine};

/// Most rows of the map.
const MOST_ROWS: usize = 96;
/// Most units with a course each.
const MOST_UNITS: usize = 8;

/// CPUs that share a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub name: String,
    pub cpus: CpuSet,
    /// Whether a unit of the next larger level begins with it.
    pub begins: bool,
}

/// A unit of a level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub level: Level,
    pub cpus: CpuSet,
}

/// Returns the rows: the CPUs in the order of their units, or the smallest units of which there are not too many.
pub(super) fn rows(machine: &Machine) -> Vec<Group> {
    let single: Vec<CpuSet> = machine.online.iter().map(CpuSet::single).collect();
    let levels = LEVELS.map(|level| LevelUnits::new(machine, level).cpus);
    let [clusters, llcs, nodes] = &levels;
    let finest = [&single, clusters, llcs].into_iter().find(|sets| sets.len() <= MOST_ROWS).unwrap_or(nodes);
    // The smallest unit that is larger than a row separates rows.
    let larger = levels.iter().find(|sets| sets.len() < finest.len() && sets.len() > 1);
    let unit = |set: &CpuSet| larger.and_then(|units| units.iter().position(|unit| unit.intersects(set)));
    let mut sets: Vec<(Option<usize>, &CpuSet)> = finest.iter().map(|set| (unit(set), set)).collect();
    sets.sort_by_key(|(unit, set)| (*unit, set.first()));
    let mut before = sets.first().and_then(|first| first.0);
    let group = |(unit, set): (Option<usize>, &CpuSet)| {
        let begins = unit != before;
        before = unit;
        Group { name: set.within(9), cpus: set.clone(), begins }
    };
    sets.into_iter().map(group).collect()
}

/// Returns the units of the smallest level that has several, but not too many. Levels whose units are single CPUs are skipped:
/// those are rows of the map.
pub(super) fn units(machine: &Machine) -> Vec<Unit> {
    let of = |level: Level| (level, LevelUnits::new(machine, level).cpus);
    let is_shown =
        |sets: &[CpuSet]| (2..=MOST_UNITS).contains(&sets.len()) && sets.iter().any(|cpus| cpus.len() > 1);
    let found = LEVELS.map(of).into_iter().find(|(_, sets)| is_shown(sets));
    found.map_or_else(Vec::new, |(level, sets)| sets.into_iter().map(|cpus| Unit { level, cpus }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::{SysTree, read, synthetic::MachineSpec};

    fn machine(clusters: u32, cores: u32) -> Machine {
        let spec = MachineSpec { packages: 2, nodes: 2, clusters, cores, ..MachineSpec::default() };
        read(&SysTree::from_capture(spec.capture())).unwrap()
    }

    #[test]
    fn few_cpus_have_a_row_each_and_many_one_for_each_cluster() {
        let few = rows(&machine(4, 4));
        assert_eq!((few.len(), few[5].name.as_str()), (64, "5"));
        assert_eq!(few.iter().filter(|row| row.begins).count(), 15);
        let many = rows(&machine(20, 4));
        assert_eq!((many.len(), many[1].name.as_str()), (80, "4-7"));
        assert_eq!(many.iter().filter(|row| row.begins).count(), 3);
        // A cluster for each CPU is no level.
        assert_eq!(units(&machine(4, 1)).first().unwrap().level, Level::Llc);
        assert_eq!((units(&machine(2, 4)).len(), units(&machine(2, 4))[0].level), (8, Level::Cluster));
        assert_eq!((units(&machine(20, 4)).len(), units(&machine(20, 4))[0].level), (4, Level::Llc));
    }
}

//! The parts of a machine that running tasks share, by level.

use manycore_topology::{CpuId, CpuSet, Level, Machine};

/// The levels at which running tasks can share a resource, the innermost first.
pub const LEVELS: [Level; 3] = [Level::Core, Level::Cluster, Level::Llc];

/// The units of one level: every online CPU is in exactly one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    level: Level,
    cpus: Vec<CpuSet>,
    /// The unit of each CPU, by its number; `None` for a CPU that is offline.
    of_cpu: Vec<Option<usize>>,
    /// Whether a task may run in each unit.
    is_allowed: Vec<bool>,
}

impl Units {
    fn new(level: Level, units: Vec<CpuSet>, allowed: &CpuSet) -> Self {
        let last = units.iter().filter_map(CpuSet::last).max().map_or(0, |last| last as usize + 1);
        let mut of_cpu = vec![None; last];
        for (unit, cpus) in units.iter().enumerate() {
            cpus.iter().for_each(|cpu| of_cpu[cpu as usize] = Some(unit));
        }
        let is_allowed = units.iter().map(|cpus| cpus.intersects(allowed)).collect();
        Self { level, cpus: units, of_cpu, is_allowed }
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the number of units in which a task may run.
    pub fn allowed(&self) -> usize {
        self.is_allowed.iter().filter(|&&is| is).count()
    }

    /// Returns the online CPUs of each unit.
    pub fn cpus(&self) -> &[CpuSet] {
        &self.cpus
    }

    /// Returns the index of the unit of a CPU; `None` if it is not online.
    pub fn of(&self, cpu: CpuId) -> Option<usize> {
        self.of_cpu.get(cpu as usize).copied().flatten()
    }

    /// Returns whether a task may run in the unit of this index.
    pub fn is_allowed(&self, unit: usize) -> bool {
        self.is_allowed[unit]
    }
}

/// Returns the levels of `machine` at which tasks that may run on the CPUs `allowed` can be together or apart, the
/// innermost first: there are at least two units with such CPUs, and one of them has at least two such CPUs.
///
/// A CPU that is in no unit of a level is a unit of its own. Of levels with equal units only one is returned: cores
/// before last-level caches before clusters.
pub fn levels(machine: &Machine, allowed: &CpuSet) -> Vec<Units> {
    let mut levels: Vec<Units> = Vec::new();
    for level in [Level::Core, Level::Llc, Level::Cluster] {
        let mut units = machine.online.divide(machine.units(level));
        units.sort_by_key(CpuSet::first);
        if can_be_shared(&units, allowed) && levels.iter().all(|other| other.cpus != units) {
            levels.push(Units::new(level, units, allowed));
        }
    }
    levels.sort_by_key(Units::level);
    levels
}

/// Returns the level at which the spread of tasks is in question: clusters, otherwise last-level caches, otherwise
/// cores. `None` if there are no `levels`.
pub fn main_level(levels: &[Units]) -> Option<Level> {
    let has = |level: &Level| levels.iter().any(|units| units.level == *level);
    [Level::Cluster, Level::Llc, Level::Core].into_iter().find(has)
}

fn can_be_shared(units: &[CpuSet], allowed: &CpuSet) -> bool {
    let mut sizes = units.iter().map(|cpus| cpus.intersection(allowed).len()).filter(|&size| size > 0);
    sizes.clone().count() > 1 && sizes.any(|size| size > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::{SysTree, machine::Group, read, synthetic::MachineSpec};

    fn machine(spec: &MachineSpec) -> Machine {
        read(&SysTree::from_capture(spec.capture())).unwrap()
    }

    fn names(machine: &Machine, allowed: &str) -> Vec<(&'static str, usize)> {
        let levels = levels(machine, &allowed.parse().unwrap());
        levels.iter().map(|units| (units.level().name(), units.allowed())).collect()
    }

    #[test]
    fn levels_without_a_choice_are_left_out() {
        let laboratory = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
        let plain = machine(&laboratory);
        assert_eq!(names(&plain, "0-15"), [("cluster", 4), ("llc", 2)]);
        assert_eq!(names(&plain, "0-7"), [("cluster", 2)]);
        assert_eq!(names(&plain, "0-3"), []);
        // One CPU of each cluster: its tasks cannot share a cluster.
        assert_eq!(names(&plain, "0,4,8,12"), [("llc", 2)]);
        let smt = machine(&MachineSpec { threads: 2, ..laboratory });
        assert_eq!(names(&smt, "0-31"), [("core", 16), ("cluster", 4), ("llc", 2)]);
        assert_eq!(names(&machine(&MachineSpec { cores: 2, ..MachineSpec::default() }), "0-1"), []);
    }

    #[test]
    fn equal_levels_are_one() {
        let mut equal = machine(&MachineSpec { packages: 2, cores: 4, ..MachineSpec::default() });
        equal.clusters =
            equal.last_level_caches().map(|cache| Group { id: None, cpus: cache.cpus.clone() }).collect();
        assert_eq!(names(&equal, "0-7"), [("llc", 2)]);
        assert_eq!(main_level(&levels(&equal, &equal.online)), Some(Level::Llc));
    }

    #[test]
    fn a_cpu_outside_of_all_clusters_is_a_unit_of_its_own() {
        let mut hybrid = machine(&MachineSpec { cores: 6, ..MachineSpec::default() });
        hybrid.clusters = vec![Group { id: None, cpus: "2-5".parse().unwrap() }];
        let found = levels(&hybrid, &hybrid.online);
        let units: Vec<String> = found[0].cpus().iter().map(ToString::to_string).collect();
        assert_eq!((found[0].level(), units), (Level::Cluster, vec!["0".into(), "1".into(), "2-5".into()]));
        assert_eq!([0, 4, 9].map(|cpu| found[0].of(cpu)), [Some(0), Some(2), None]);
    }
}

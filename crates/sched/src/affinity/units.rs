//! The units of CPUs over which threads are spread, or in which they are packed: clusters, last-level caches or cores.

use manycore_topology::{CpuId, CpuSet, Level, Machine};

/// The levels over whose units threads can be spread, from that which is chosen first.
pub const LEVELS: [Level; 3] = [Level::Cluster, Level::Llc, Level::Core];

/// Returns the level at which threads of this machine compete for a cache: clusters where they hold several cores,
/// otherwise last-level caches. A cluster of one core (an L2 of its own) is balanced by every kernel.
pub fn default_level(machine: &Machine) -> Level {
    let clusters = machine.units(Level::Cluster);
    if clusters.into_iter().any(|cpus| machine.are_several_cores(cpus)) { Level::Cluster } else { Level::Llc }
}

/// One unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its online CPUs that are not isolated; not empty.
    pub cpus: CpuSet,
    /// Number of its cores.
    pub cores: usize,
    /// Which last-level cache it is below: an index among those of the machine.
    pub llc: usize,
    /// Which NUMA node its CPUs belong to: an index among those of the machine.
    pub node: usize,
    /// The kind of its cores; 0 is the fastest one. Of several kinds, that of most of its CPUs.
    pub kind: usize,
}

/// All units of a machine at one level, in ascending order of their CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// What they are.
    pub level: Level,
    /// The units.
    pub all: Vec<Unit>,
}

impl Units {
    /// Returns the units of `machine`. CPUs that are isolated from load balancing belong to none: work gets there only
    /// by its own choice. CPUs for which the machine lists no unit of this level form units of their cores.
    pub fn of(machine: &Machine, level: Level) -> Self {
        let usable = machine.online.difference(&machine.isolated);
        let (llcs, cores) = (machine.units(Level::Llc), machine.units(Level::Core));
        let nodes = machine.units(Level::Node);
        let listed = machine.units(level);
        // Without any unit of this level, the machine is one.
        let rest = if listed.is_empty() && level != Level::Core { vec![&usable] } else { cores.clone() };
        let mut all: Vec<Unit> = usable
            .divide(listed.into_iter().chain(rest))
            .into_iter()
            .map(|cpus| Unit {
                cores: cores.iter().filter(|core| core.intersects(&cpus)).count().max(1),
                llc: index_of(&llcs, &cpus),
                node: index_of(&nodes, &cpus),
                kind: kind_of(machine, &cpus),
                cpus,
            })
            .collect();
        all.sort_by_key(|unit| unit.cpus.first());
        Self { level, all }
    }

    /// Returns the unit of a CPU; `None` for one that is offline or isolated.
    pub fn of_cpu(&self, cpu: CpuId) -> Option<usize> {
        self.all.iter().position(|unit| unit.cpus.contains(cpu))
    }

    /// Returns the unit that has most of these CPUs; `None` if none has any.
    pub fn of_cpus(&self, cpus: &CpuSet) -> Option<usize> {
        let shared = |unit: &Unit| unit.cpus.intersection(cpus).len();
        let best = (0..self.all.len()).max_by_key(|&at| (shared(&self.all[at]), std::cmp::Reverse(at)))?;
        (shared(&self.all[best]) > 0).then_some(best)
    }

    /// Returns the units with a CPU of this set, ascending.
    pub fn within(&self, cpus: &CpuSet) -> Vec<usize> {
        (0..self.all.len()).filter(|&at| self.all[at].cpus.intersects(cpus)).collect()
    }

    /// Returns how far apart two units are: 0 below one last-level cache, 1 in one node, 2 otherwise.
    pub fn distance(&self, one: usize, other: usize) -> usize {
        let (one, other) = (&self.all[one], &self.all[other]);
        if one.node == other.node { usize::from(one.llc != other.llc) } else { 2 }
    }
}

fn index_of(sets: &[&CpuSet], cpus: &CpuSet) -> usize {
    sets.iter().position(|set| set.intersects(cpus)).unwrap_or(sets.len())
}

fn kind_of(machine: &Machine, cpus: &CpuSet) -> usize {
    let shared = |kind: usize| machine.core_kinds[kind].cpus.intersection(cpus).len();
    (0..machine.core_kinds.len()).max_by_key(|&kind| (shared(kind), std::cmp::Reverse(kind))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::tests::machine;
    use manycore_topology::synthetic::MachineSpec;

    fn cpus(units: &Units) -> Vec<String> {
        units.all.iter().map(|unit| unit.cpus.to_string()).collect()
    }

    #[test]
    fn units_of_each_level_have_their_cache_and_node() {
        let two_by_two = machine(&MachineSpec {
            packages: 2,
            clusters: 2,
            cores: 4,
            threads: 2,
            ..MachineSpec::default()
        });
        assert_eq!(default_level(&two_by_two), Level::Cluster);
        let clusters = Units::of(&two_by_two, Level::Cluster);
        assert_eq!(cpus(&clusters), ["0-7", "8-15", "16-23", "24-31"]);
        let place = |unit: &Unit| (unit.cores, unit.llc, unit.node, unit.kind);
        let places: Vec<_> = clusters.all.iter().map(place).collect();
        assert_eq!(places, [(4, 0, 0, 0), (4, 0, 0, 0), (4, 1, 1, 0), (4, 1, 1, 0)]);
        assert_eq!([clusters.distance(0, 1), clusters.distance(0, 2)], [0, 2]);
        assert_eq!(Units::of(&two_by_two, Level::Llc).all.len(), 2);
        assert_eq!(Units::of(&two_by_two, Level::Core).all.len(), 16);
    }

    #[test]
    fn without_clusters_last_level_caches_are_the_units() {
        let plain = machine(&MachineSpec { packages: 2, cores: 4, ..MachineSpec::default() });
        assert_eq!(default_level(&plain), Level::Llc);
        assert_eq!(cpus(&Units::of(&plain, Level::Llc)), ["0-3", "4-7"]);
        assert_eq!(Units::of(&plain, Level::Cluster).all.len(), 1);
    }

    #[test]
    fn isolated_cpus_are_in_no_unit_and_slow_cores_are_another_kind() {
        let mut hybrid =
            machine(&MachineSpec { clusters: 2, cores: 4, efficiency_cores: 4, ..MachineSpec::default() });
        hybrid.isolated = "0-1".parse().unwrap();
        let units = Units::of(&hybrid, Level::Cluster);
        assert_eq!(units.all[0].cpus.to_string(), "2-3");
        assert_eq!(units.of_cpu(0), None);
        assert_eq!(units.of_cpus(&"3-7".parse().unwrap()), Some(1));
        let kinds: Vec<usize> = units.all.iter().map(|unit| unit.kind).collect();
        assert_eq!((kinds[0], kinds.last().copied()), (0, Some(1)), "{units:?}");
    }
}

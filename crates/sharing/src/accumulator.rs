//! From snapshots to the shares of time in which running tasks shared a unit while another one was idle.

use crate::{
    level::{Units, main_level},
    share::{Share, StateTime},
    snapshot::{CpuUse, RunningTask, Snapshot},
};
use manycore_topology::{CpuId, Level};
use serde::{Deserialize, Serialize};

/// The shares of one level. Each is of the time in which at least two watched tasks were running, and none is the sum
/// of the others: both kinds of pairs may occur at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LevelSharing {
    /// The level.
    pub level: Level,
    /// Number of units in which the tasks may run.
    pub units: usize,
    /// Any two running tasks shared a unit while another unit was idle.
    pub any: Share,
    /// Two running tasks of the same process did.
    pub same_process: Share,
    /// Two running tasks of different processes did.
    pub different_processes: Share,
}

/// Sums the time of snapshots by what running tasks share.
#[derive(Debug)]
pub struct Accumulator {
    levels: Vec<LevelTime>,
    snapshots: u64,
    /// Snapshots with at least two running watched tasks.
    with_two: u64,
    ns: u64,
    ns_with_two: u64,
    /// The running watched tasks of the snapshot at hand.
    running: Vec<(RunningTask, CpuId)>,
}

#[derive(Debug)]
struct LevelTime {
    units: Units,
    any: StateTime,
    same_process: StateTime,
    different_processes: StateTime,
    /// Units with a running task, for the snapshot at hand.
    is_busy: Vec<bool>,
    /// Units and processes of the running tasks, for the snapshot at hand.
    seats: Vec<(usize, u32)>,
}

/// Which pairs of running tasks share a unit while another one is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pairs {
    same_process: bool,
    different_processes: bool,
}

impl Accumulator {
    /// Begins at zero for these levels, as [`levels()`](crate::level::levels) returns them.
    pub fn new(levels: Vec<Units>) -> Self {
        let level = |units: Units| LevelTime {
            is_busy: vec![false; units.cpus().len()],
            units,
            any: StateTime::default(),
            same_process: StateTime::default(),
            different_processes: StateTime::default(),
            seats: Vec::new(),
        };
        let levels = levels.into_iter().map(level).collect();
        Self { levels, snapshots: 0, with_two: 0, ns: 0, ns_with_two: 0, running: Vec::new() }
    }

    /// Adds a snapshot that stands for `ns` nanoseconds.
    pub fn add(&mut self, snapshot: &Snapshot, ns: u64) {
        self.snapshots += 1;
        self.ns += ns;
        self.running.clear();
        self.running.extend(snapshot.busy().filter_map(|(cpu, what)| match what {
            CpuUse::Watched(task) => Some((task, cpu)),
            _ => None,
        }));
        // A task that moved while the snapshot was taken may be on two CPUs.
        self.running.sort_unstable();
        self.running.dedup_by_key(|(task, _)| *task);
        if self.running.len() < 2 {
            return;
        }
        self.with_two += 1;
        self.ns_with_two += ns;
        for level in &mut self.levels {
            let pairs = level.pairs(&self.running, snapshot);
            level.any.add(pairs.same_process || pairs.different_processes, ns);
            level.same_process.add(pairs.same_process, ns);
            level.different_processes.add(pairs.different_processes, ns);
        }
    }

    /// Returns the number of snapshots, and of those with at least two running watched tasks.
    pub fn snapshots(&self) -> (u64, u64) {
        (self.snapshots, self.with_two)
    }

    /// Returns the time of the snapshots, and of those with at least two running watched tasks, in nanoseconds.
    pub fn ns(&self) -> (u64, u64) {
        (self.ns, self.ns_with_two)
    }

    /// Returns the level at which the spread of tasks is in question.
    pub fn main_level(&self) -> Option<Level> {
        let units: Vec<Units> = self.levels.iter().map(|level| level.units.clone()).collect();
        main_level(&units)
    }

    /// Returns the shares of all levels; none if two tasks were never running.
    pub fn shares(&self) -> Vec<LevelSharing> {
        let share = |level: &LevelTime| {
            Some(LevelSharing {
                level: level.units.level(),
                units: level.units.allowed(),
                any: level.any.share()?,
                same_process: level.same_process.share()?,
                different_processes: level.different_processes.share()?,
            })
        };
        self.levels.iter().filter_map(share).collect()
    }
}

impl LevelTime {
    /// Finds the pairs of `running` tasks in one unit, if another unit is idle and a task may run there.
    fn pairs(&mut self, running: &[(RunningTask, CpuId)], snapshot: &Snapshot) -> Pairs {
        self.is_busy.fill(false);
        for (cpu, _) in snapshot.busy() {
            if let Some(unit) = self.units.of(cpu) {
                self.is_busy[unit] = true;
            }
        }
        let is_idle = |(unit, busy): (usize, &bool)| !busy && self.units.is_allowed(unit);
        if !self.is_busy.iter().enumerate().any(is_idle) {
            return Pairs::default();
        }
        self.seats.clear();
        let seats = running.iter().filter_map(|(task, cpu)| Some((self.units.of(*cpu)?, task.pid)));
        self.seats.extend(seats);
        // Tasks of a unit are neighbours now, and of these those of a process.
        self.seats.sort_unstable();
        let neighbours = || self.seats.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        Pairs {
            same_process: neighbours().any(|pair| pair[0].1 == pair[1].1),
            different_processes: neighbours().any(|pair| pair[0].1 != pair[1].1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::levels;
    use manycore_topology::{CpuSet, Machine, SysTree, read, synthetic::MachineSpec};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Two packages with one last-level cache each, of two clusters of four CPUs.
    fn laboratory() -> Machine {
        let spec = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
        read(&SysTree::from_capture(spec.capture())).unwrap()
    }

    /// A snapshot with one task for each CPU: its process. Thread ids are unique.
    fn tasks(cpus: &[(CpuId, u32)], other: &[CpuId]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for &(cpu, pid) in cpus {
            snapshot.set(cpu, CpuUse::Watched(RunningTask { pid, tid: 100 + cpu }));
        }
        for &cpu in other {
            snapshot.set(cpu, CpuUse::Other);
        }
        snapshot
    }

    /// Returns the shares of a level (any, same process, different processes) after these snapshots of equal time.
    fn shares(snapshots: &[Snapshot], level: Level, allowed: &str) -> Option<[f64; 3]> {
        let allowed: CpuSet = allowed.parse().unwrap();
        let mut accumulator = Accumulator::new(levels(&laboratory(), &allowed));
        for snapshot in snapshots {
            accumulator.add(snapshot, 10);
        }
        let found = accumulator.shares().into_iter().find(|one| one.level == level)?;
        Some([found.any, found.same_process, found.different_processes].map(|one| one.share))
    }

    #[test]
    fn known_placements_have_known_shares() {
        let packed = tasks(&[(0, 1), (1, 1), (2, 1), (3, 1)], &[]);
        let apart = tasks(&[(0, 1), (4, 1), (8, 1), (12, 1)], &[]);
        let of = |snapshot: &Snapshot, level| shares(std::slice::from_ref(snapshot), level, "0-15").unwrap();
        assert_eq!(of(&packed, Level::Cluster), [1.0, 1.0, 0.0]);
        assert_eq!(of(&packed, Level::Llc), [1.0, 1.0, 0.0]);
        assert_eq!(of(&apart, Level::Cluster), [0.0; 3]);
        // Two in each last-level cache, and none is idle.
        assert_eq!(of(&apart, Level::Llc), [0.0; 3]);
        let half = shares(&[packed.clone(), apart.clone()], Level::Cluster, "0-15");
        assert_eq!(half, Some([0.5, 0.5, 0.0]));
        let mixed = tasks(&[(0, 1), (1, 2), (2, 1)], &[]);
        assert_eq!(of(&mixed, Level::Cluster), [1.0; 3]);
        assert_eq!(of(&tasks(&[(0, 1), (1, 2)], &[]), Level::Cluster), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn a_unit_is_idle_only_if_nothing_runs_there_and_a_task_may() {
        let packed = [(0, 1), (1, 1)];
        let of = |other: &[CpuId], allowed| shares(&[tasks(&packed, other)], Level::Cluster, allowed);
        assert_eq!(of(&[4, 8], "0-15"), Some([1.0, 1.0, 0.0]));
        assert_eq!(of(&[4, 8, 12], "0-15"), Some([0.0; 3]));
        // Clusters 2 and 3 are idle, but no task may run there.
        assert_eq!(of(&[4], "0-7"), Some([0.0; 3]));
        assert_eq!(of(&[], "0-7"), Some([1.0, 1.0, 0.0]));
        // Another program on a CPU of the second cluster that is not allowed keeps that cluster busy.
        assert_eq!(of(&[7], "0-5"), Some([0.0; 3]));
    }

    #[test]
    fn only_time_with_two_running_tasks_counts() {
        let alone = tasks(&[(0, 1)], &[1]);
        assert_eq!(shares(std::slice::from_ref(&alone), Level::Cluster, "0-15"), None);
        let both = tasks(&[(0, 1), (1, 1)], &[]);
        assert_eq!(shares(&[alone, both], Level::Cluster, "0-15"), Some([1.0, 1.0, 0.0]));
    }

    #[test]
    fn a_task_that_appears_twice_is_one() {
        let mut moving = Snapshot::default();
        for cpu in [0, 1] {
            moving.set(cpu, CpuUse::Watched(RunningTask { pid: 1, tid: 1 }));
        }
        assert_eq!(shares(std::slice::from_ref(&moving), Level::Cluster, "0-15"), None);
        moving.set(9, CpuUse::Watched(RunningTask { pid: 1, tid: 2 }));
        assert_eq!(shares(&[moving], Level::Cluster, "0-15"), Some([0.0; 3]));
    }

    fn any_use() -> impl Strategy<Value = CpuUse> {
        prop_oneof![
            Just(CpuUse::Idle),
            Just(CpuUse::Other),
            (1u32..4, 0u32..6)
                .prop_map(|(pid, tid)| CpuUse::Watched(RunningTask { pid, tid: pid * 10 + tid })),
        ]
    }

    proptest! {
        /// The definition in words, for every pair, without any of the shortcuts.
        #[test]
        fn shares_follow_the_definition(uses in prop::collection::vec(any_use(), 16), allowed in 1u32..1 << 16) {
            let allowed: CpuSet = (0..16).filter(|cpu| allowed >> cpu & 1 == 1).collect();
            let mut snapshot = Snapshot::default();
            uses.iter().enumerate().for_each(|(cpu, what)| snapshot.set(cpu as u32, *what));
            let mut seen = BTreeSet::new();
            let running: Vec<(u32, RunningTask)> = snapshot.busy().filter_map(|(cpu, what)| match what {
                CpuUse::Watched(task) if seen.insert(task) => Some((cpu, task)),
                _ => None,
            }).collect();
            let units = levels(&laboratory(), &allowed);
            let mut accumulator = Accumulator::new(units.clone());
            accumulator.add(&snapshot, 10);
            let found = accumulator.shares();
            prop_assert_eq!(found.is_empty(), running.len() < 2 || units.is_empty());
            for (level, found) in units.iter().zip(found) {
                let is_idle = |cpus: &CpuSet| cpus.iter().all(|cpu| snapshot.get(cpu) == CpuUse::Idle);
                let idle = level.cpus().iter().any(|cpus| is_idle(cpus) && cpus.intersects(&allowed));
                let share = |is_meant: &dyn Fn(u32, u32) -> bool| {
                    let together = |a: &(u32, RunningTask), b: &(u32, RunningTask)| {
                        a.1 != b.1 && level.of(a.0) == level.of(b.0) && is_meant(a.1.pid, b.1.pid)
                    };
                    f64::from(u8::from(idle && running.iter().any(|a| running.iter().any(|b| together(a, b)))))
                };
                prop_assert_eq!(found.same_process.share, share(&|a, b| a == b));
                prop_assert_eq!(found.different_processes.share, share(&|a, b| a != b));
                prop_assert_eq!(found.any.share, share(&|_, _| true));
            }
        }
    }
}

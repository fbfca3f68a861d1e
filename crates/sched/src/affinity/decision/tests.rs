//! Laws of decisions, on invented machines with a kernel that moves free threads about.

use super::*;
use crate::affinity::tests::machine;
use manycore_topology::{Level, synthetic::MachineSpec};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeSet;

/// Intervals after which nothing may change any more.
const SETTLED: usize = 400;

/// A thread of an invented machine.
#[derive(Clone, Debug)]
struct TestThread {
    original: CpuSet,
    confined: Option<CpuSet>,
    cpu: CpuId,
    demand: f64,
    group: usize,
    is_fixed: bool,
}

/// An invented machine with threads.
struct World {
    units: Units,
    isolated: CpuSet,
    threads: Vec<TestThread>,
    foreign: Vec<f64>,
    policies: Vec<FixedPolicy>,
    state: DecisionState,
    limits: Limits,
    /// Seed of the kernel's choices.
    seed: u64,
}

impl World {
    fn new(spec: &MachineSpec, level: Level, isolated: &str, policy: FixedPolicy) -> Self {
        let mut machine = machine(spec);
        machine.isolated = isolated.parse().unwrap();
        let units = Units::of(&machine, level);
        Self {
            foreign: vec![0.0; units.all.len()],
            isolated: machine.isolated,
            units,
            threads: Vec::new(),
            policies: vec![policy; 3],
            state: DecisionState::default(),
            limits: Limits::default(),
            seed: 1,
        }
    }

    /// Adds busy threads with all CPUs that run on this one.
    fn with(mut self, count: usize, cpu: CpuId) -> Self {
        let original = CpuSet::union_of(self.units.all.iter().map(|unit| &unit.cpus));
        let thread = TestThread { original, confined: None, cpu, demand: 1.0, group: 0, is_fixed: false };
        self.threads.extend(vec![thread; count]);
        self
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below
    }

    /// One interval: decides and applies it. Checks what holds for every decision.
    fn step(&mut self) -> Decision {
        let readings: Vec<ThreadReading> = self
            .threads
            .iter()
            .enumerate()
            .map(|(tid, thread)| ThreadReading {
                tid: tid as u32,
                group: thread.group,
                cpu: thread.cpu,
                demand: thread.demand,
                original: thread.original.clone(),
                confined: thread.confined.clone(),
                is_fixed: thread.is_fixed,
            })
            .collect();
        let decision =
            decide(&self.units, &readings, &self.foreign, &self.policies, &self.limits, &mut self.state);
        let moves = decision.steps.iter().filter(|step| step.action == Action::Move).count();
        assert!(moves <= self.limits.max_moves, "{decision:?}");
        let mut seen = BTreeSet::new();
        for step in &decision.steps {
            assert!(seen.insert(step.tid), "two changes of one thread: {decision:?}");
            let thread = &mut self.threads[step.tid as usize];
            assert!(!thread.is_fixed, "{step:?}");
            assert!(!step.cpus.is_empty() && step.cpus.is_subset(&thread.original), "{step:?}");
            if step.action == Action::Release {
                thread.confined = None;
                continue;
            }
            assert!(!step.cpus.intersects(&self.isolated), "{step:?}");
            let unit = self.units.of_cpus(&step.cpus).unwrap();
            assert!(step.cpus == self.units.all[unit].cpus.intersection(&thread.original), "{step:?}");
            if !step.cpus.contains(thread.cpu) {
                thread.cpu = step.cpus.first().unwrap();
            }
            thread.confined = Some(step.cpus.clone());
        }
        decision
    }

    /// One interval; returns the number of moves.
    fn moves_of_step(&mut self) -> usize {
        self.step().steps.iter().filter(|step| step.action == Action::Move).count()
    }

    /// Lets the kernel move each thread that is neither confined nor fixed to any of its CPUs. It moves none to isolated
    /// CPUs.
    fn scatter(&mut self) {
        for at in (0..self.threads.len()).filter(|at| !self.threads[*at].is_fixed).collect::<Vec<_>>() {
            let thread = &self.threads[at];
            let allowed = thread.confined.as_ref().unwrap_or(&thread.original);
            let cpus: Vec<CpuId> = allowed.difference(&self.isolated).iter().collect();
            if cpus.is_empty() {
                continue;
            }
            let chosen = self.random(cpus.len());
            self.threads[at].cpu = cpus[chosen];
        }
    }

    /// Runs until nothing has changed for twenty intervals; returns the number of moves. `scatters`: the kernel moves
    /// free threads in each interval, so it runs until they are confined.
    fn settle(&mut self, scatters: bool) -> usize {
        let (mut moves, mut quiet) = (0, 0);
        for _ in 0..SETTLED {
            if scatters {
                self.scatter();
            }
            let count = self.moves_of_step();
            moves += count;
            quiet = if count == 0 { quiet + 1 } else { 0 };
            if quiet >= 20 && (!scatters || self.threads.iter().all(|thread| thread.confined.is_some())) {
                return moves;
            }
        }
        assert!(quiet >= 20, "it does not settle: {:?}", self.counts());
        moves
    }

    /// The number of busy threads in each unit.
    fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.units.all.len()];
        for thread in self.threads.iter().filter(|thread| thread.demand >= self.limits.busy) {
            if let Some(unit) = self.units.of_cpu(thread.cpu) {
                counts[unit] += 1;
            }
        }
        counts
    }
}

fn lab() -> MachineSpec {
    MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() }
}

#[test]
fn four_threads_in_one_cluster_are_spread_over_four() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Spread).with(4, 0);
    let first = world.step();
    assert_eq!((first.steps.len(), first.misplaced, first.used_units), (0, 4, 1), "not at the first sight");
    let second = world.step();
    let actions: Vec<Action> = second.steps.iter().map(|step| step.action).collect();
    assert_eq!(actions, [Action::Move, Action::Move, Action::Move, Action::Hold]);
    assert_eq!(second.steps[0].cpus.to_string(), "4-7", "the cluster in the same node comes first");
    assert_eq!(world.counts(), [1, 1, 1, 1]);
    assert_eq!(world.settle(true), 0);
}

#[test]
fn threads_that_the_kernel_has_spread_are_left_free() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Spread);
    for cpu in [0, 4, 8, 12] {
        world = world.with(1, cpu);
    }
    assert_eq!(world.settle(false), 0);
    assert!(world.threads.iter().all(|thread| thread.confined.is_none()));
}

#[test]
fn once_threads_were_brought_together_all_of_their_group_are_held() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Spread).with(2, 0).with(2, 8);
    world.threads[2].cpu = 12;
    world.threads[3].group = 1;
    world.settle(false);
    assert_eq!(world.counts(), [1, 1, 1, 1]);
    let confined: Vec<bool> = world.threads.iter().map(|thread| thread.confined.is_some()).collect();
    assert_eq!(confined, [true, true, true, false], "the last one is of another group");
}

#[test]
fn scattered_threads_are_packed_into_the_cluster_where_most_are() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Pack);
    for cpu in [1, 4, 8, 9] {
        world = world.with(1, cpu);
    }
    assert_eq!(world.settle(false), 2);
    assert_eq!(world.counts(), [0, 0, 4, 0]);
    // One more than the cluster has CPUs goes to the other cluster of the node.
    world = world.with(1, 0);
    world.settle(false);
    assert_eq!(world.counts(), [0, 0, 4, 1]);
}

#[test]
fn groups_are_packed_apart() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Pack).with(3, 0).with(3, 1);
    for thread in &mut world.threads[3..] {
        thread.group = 1;
    }
    world.scatter();
    world.settle(true);
    let unit = |at: usize| world.units.of_cpu(world.threads[at].cpu);
    assert!((1..3).all(|at| unit(at) == unit(0)) && (4..6).all(|at| unit(at) == unit(3)));
    assert_ne!(unit(0), unit(3));
}

#[test]
fn fast_cores_come_before_slow_ones_and_those_before_siblings() {
    // Two clusters of two fast cores with two threads each, and slow cores in clusters of their own.
    let spec =
        MachineSpec { clusters: 2, cores: 4, threads: 2, efficiency_cores: 4, ..MachineSpec::default() };
    let kinds: Vec<usize> =
        Units::of(&machine(&spec), Level::Cluster).all.iter().map(|unit| unit.kind).collect();
    assert!(kinds.contains(&0) && kinds.contains(&1), "{kinds:?}");
    let slow = |world: &World| -> usize {
        let counts = world.counts().into_iter();
        counts.zip(&world.units.all).filter(|(_, unit)| unit.kind > 0).map(|(count, _)| count).sum()
    };
    let fast_cores: usize = {
        let units = Units::of(&machine(&spec), Level::Cluster);
        units.all.iter().filter(|unit| unit.kind == 0).map(|unit| unit.cores).sum()
    };
    let start = Units::of(&machine(&spec), Level::Cluster).all.last().unwrap().cpus.first().unwrap();
    for (threads, expected) in [(fast_cores, 0), (fast_cores + 2, 2)] {
        let mut world = World::new(&spec, Level::Cluster, "", FixedPolicy::Spread).with(threads, start);
        world.settle(false);
        assert_eq!(slow(&world), expected, "{threads} threads: {:?}", world.counts());
        let mut packed = World::new(&spec, Level::Cluster, "", FixedPolicy::Pack).with(2, start);
        packed.settle(false);
        assert_eq!(slow(&packed), 0);
    }
}

#[test]
fn whole_cores_come_before_siblings() {
    // One core in the first cluster is offline: 2 of its CPUs are left, in one core.
    let spec = MachineSpec {
        clusters: 2,
        cores: 2,
        threads: 2,
        offline: "2-3".parse().unwrap(),
        ..MachineSpec::default()
    };
    let mut world = World::new(&spec, Level::Cluster, "", FixedPolicy::Spread).with(3, 0);
    world.settle(false);
    assert_eq!(world.counts(), [1, 2]);
}

#[test]
fn a_thread_moves_again_only_after_a_rest_and_idle_threads_are_released() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Spread).with(2, 0);
    world.step();
    let moved = world.step().steps[0].tid as usize;
    // Work of others comes to where it went, and the rest of the machine is idle.
    let unit = world.units.of_cpu(world.threads[moved].cpu).unwrap();
    world.foreign[unit] = 4.0;
    let rest = world.limits.rest as usize;
    let waited = (1..=2 * rest).find(|_| world.step().steps.iter().any(|step| step.tid as usize == moved));
    assert_eq!(waited, Some(rest), "it stays for {rest} intervals");
    for thread in &mut world.threads {
        thread.demand = 0.0;
    }
    let release = world.limits.release as usize;
    let steps: Vec<usize> = (0..release + 3).map(|_| world.step().steps.len()).collect();
    assert_eq!(steps.iter().position(|count| *count > 0), Some(release - 1), "{steps:?}");
    assert!(world.threads.iter().all(|thread| thread.confined.is_none()));
}

#[test]
fn a_load_at_the_threshold_does_not_flicker() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Spread).with(3, 0);
    world.foreign = vec![0.0, 0.55, 0.45, 0.0];
    let mut moves = 0;
    for turn in 0..200 {
        let noise = if turn % 2 == 0 { 0.1 } else { -0.1 };
        world.foreign[1] = 0.55 + noise;
        world.foreign[2] = 0.45 - noise;
        for (at, thread) in world.threads.iter_mut().enumerate() {
            thread.demand = if at == 0 { 0.25 + noise } else { 0.9 };
        }
        moves += world.step().steps.len();
    }
    assert!(moves <= 4, "{moves} changes");
}

#[test]
fn fixed_threads_count_and_stay() {
    let mut world = World::new(&lab(), Level::Cluster, "", FixedPolicy::Spread).with(2, 0).with(1, 4);
    world.threads[2].is_fixed = true;
    world.settle(false);
    assert_eq!(world.counts().iter().filter(|count| **count == 1).count(), 3, "{:?}", world.counts());
    assert_eq!(world.counts()[1], 1);
}

fn spec() -> impl Strategy<Value = MachineSpec> {
    (1..3_u32, 1..3_u32, 1..4_u32, 1..5_u32, 1..3_u32).prop_map(
        |(packages, caches, clusters, cores, threads)| MachineSpec {
            packages,
            caches,
            clusters,
            cores,
            threads,
            ..MachineSpec::default()
        },
    )
}

/// Threads with random affinities, loads and places, of three groups.
fn threads() -> impl Strategy<Value = Vec<(u64, u8, bool, u8)>> {
    vec((any::<u64>(), 0..10_u8, proptest::bool::weighted(0.1), 0..3_u8), 1..24)
}

fn world(
    spec: &MachineSpec,
    policies: Vec<FixedPolicy>,
    threads: &[(u64, u8, bool, u8)],
    isolated: bool,
) -> World {
    let mut world = World::new(spec, Level::Cluster, if isolated { "0" } else { "" }, FixedPolicy::Spread);
    world.policies = policies;
    let online: Vec<CpuId> = machine(spec).online.iter().collect();
    for &(mask, demand, is_fixed, group) in threads {
        // A third of the threads have all CPUs.
        let all = mask % 3 == 0;
        let original: CpuSet =
            online.iter().copied().filter(|cpu| all || mask >> (cpu % 60 + 3) & 1 == 1).collect();
        let original = if original.is_empty() { CpuSet::single(online[0]) } else { original };
        let cpus: Vec<CpuId> = original.iter().collect();
        world.threads.push(TestThread {
            cpu: cpus[mask as usize % cpus.len()],
            original,
            confined: None,
            demand: f64::from(demand) / 9.0,
            group: group.into(),
            is_fixed,
        });
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// With constant load, moves end: where the kernel leaves free threads where they are, and where it moves them about.
    #[test]
    fn moves_end(
        spec in spec(),
        threads in threads(),
        packed in vec(any::<bool>(), 3),
        foreign in vec(0.0..3.0_f64, 24),
        isolated in any::<bool>(),
        scatters in any::<bool>(),
    ) {
        let policies = packed.into_iter().map(|packed| if packed { FixedPolicy::Pack } else { FixedPolicy::Spread });
        let mut world = world(&spec, policies.collect(), &threads, isolated);
        for (load, value) in world.foreign.iter_mut().zip(foreign) {
            *load = value;
        }
        let threads = world.threads.len();
        let moves = if scatters {
            // A free thread that seldom stays for two intervals may be moved late.
            (0..5 * SETTLED).map(|_| { world.scatter(); world.moves_of_step() }).sum()
        } else {
            world.settle(false)
        };
        prop_assert!(moves <= 6 * threads, "{moves} moves of {threads} threads");
    }

    /// Spread leaves no unit with two busy threads while one that one of them may use has none.
    #[test]
    fn spread_leaves_no_idle_unit(spec in spec(), threads in threads(), isolated in any::<bool>()) {
        let mut world = world(&spec, vec![FixedPolicy::Spread; 3], &threads, isolated);
        world.settle(false);
        let counts = world.counts();
        for thread in world.threads.iter().filter(|thread| thread.demand >= 0.25 && !thread.is_fixed) {
            let Some(own) = world.units.of_cpu(thread.cpu) else { continue };
            if counts[own] > 1 {
                let idle = world.units.within(&thread.original).into_iter().find(|unit| counts[*unit] == 0);
                prop_assert_eq!(idle, None, "{:?}", counts);
            }
        }
    }

    /// The nearest idle unit is chosen: threads that fit below one last-level cache stay there.
    #[test]
    fn spread_stays_near(spec in spec(), count in 1..5_usize) {
        let mut world = World::new(&spec, Level::Cluster, "", FixedPolicy::Spread);
        let near = world.units.all.iter().filter(|unit| unit.llc == 0).count();
        world = world.with(count.min(near), 0);
        world.settle(false);
        let far = world.counts().iter().zip(&world.units.all).any(|(count, unit)| *count > 0 && unit.llc != 0);
        prop_assert!(!far, "{:?}", world.counts());
    }

    /// Pack uses as few units as have CPUs for the threads.
    #[test]
    fn pack_uses_few_units(spec in spec(), count in 1..24_usize, seed in any::<u64>(), scatters in any::<bool>()) {
        let mut world = World::new(&spec, Level::Cluster, "", FixedPolicy::Pack).with(count, 0);
        world.seed = seed;
        world.scatter();
        world.settle(scatters);
        let size = world.units.all[0].cpus.len();
        let used = world.counts().iter().filter(|count| **count > 0).count();
        prop_assert!(used <= count.div_ceil(size).min(world.units.all.len()), "{:?} of {}", world.counts(), size);
    }
}

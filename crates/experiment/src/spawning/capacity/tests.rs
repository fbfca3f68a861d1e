use super::*;
use crate::spawning::{Runtime, Schedulers, Work};
use manycore_topology::CpuSet;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn run(alive: u64, before: u64, held: u64) -> SpawnRun {
    let memory = |pss| Memory { pss_bytes: Some(pss), rss_bytes: pss + MIB, ..Memory::default() };
    SpawnRun {
        requested: alive,
        alive,
        start_seconds: alive as f64 * 1e-6,
        before: memory(before),
        held: memory(held),
        ..SpawnRun::default()
    }
}

/// Returns runs of a runtime that takes `fixed` bytes and `bytes` per light process.
fn straight(fixed: u64, bytes: u64, counts: &[u64]) -> Vec<SpawnRun> {
    counts.iter().map(|&count| run(count, fixed, fixed + bytes * count)).collect()
}

fn spawning(runs: Vec<SpawnRun>, memory_bytes: u64, rooms: &[(&str, u64)]) -> RuntimeRuns {
    let limit = |&(name, max_count): &(&str, u64)| CountLimit {
        name: name.to_owned(),
        max_count,
        source: String::new(),
        raise_command: String::new(),
    };
    RuntimeRuns {
        runtime: Runtime::Beam,
        version: "Erlang/OTP 25 (ERTS 13.1.5)".to_owned(),
        unit: "process".to_owned(),
        work: Work::Idle,
        schedulers: Schedulers { cpus: CpuSet::default(), ..Schedulers::default() },
        limits: rooms.iter().map(limit).collect(),
        memory_bytes,
        memory_source: "available memory less a tenth".to_owned(),
        runs,
    }
}

#[test]
fn one_point_gives_its_growth_and_what_was_before() {
    let line = MemoryLine::of(&[run(1000, 30 * MIB, 30 * MIB + 2_667_000)]).unwrap();
    assert_eq!((line.bytes_each, line.fixed_bytes, line.points), (2667.0, (30 * MIB) as f64, 1));
    assert_eq!(line.bytes_each_range, None, "one point does not show how straight the line is");
    assert_eq!(line.measure, MemoryMeasure::Pss);
}

#[test]
fn what_all_counts_take_at_once_is_fixed_and_not_each_ones() {
    // A table of 8 MiB that the first light process adds, whatever their number.
    let runs = [100_000, 1_000_000].map(|count| run(count, 20 * MIB, 28 * MIB + 2000 * count));
    let line = MemoryLine::of(&runs).unwrap();
    assert!(
        (line.bytes_each - 2000.0).abs() < 1e-6 && (line.fixed_bytes - (28 * MIB) as f64).abs() < 1.0,
        "{line:?}"
    );
    assert_eq!(line.bytes_each_range, None, "two points are always on a line");
}

#[test]
fn three_points_tell_how_straight_they_lie() {
    let runs = [run(1000, 0, 2_000_000), run(2000, 0, 4_000_000), run(3000, 0, 6_500_000)];
    let line = MemoryLine::of(&runs).unwrap();
    assert_eq!(line.bytes_each_range, Some((2000.0, 2500.0)));
    assert_eq!(line.points, 3);
    let (fewest, most) = line.range(1 << 30).unwrap();
    assert!(fewest < line.most(1 << 30) && line.most(1 << 30) < most);
}

#[test]
fn the_charge_of_a_group_counts_where_every_run_has_it() {
    let mut runs = straight(MIB, 3000, &[1000, 2000]);
    for run in &mut runs {
        run.before.cgroup_bytes = Some(2 * MIB);
        run.held.cgroup_bytes = Some(2 * MIB + 9000 * run.alive);
    }
    let line = MemoryLine::of(&runs).unwrap();
    assert_eq!((line.measure, line.bytes_each.round()), (MemoryMeasure::Charge, 9000.0));
    runs[0].held.cgroup_bytes = None;
    let line = MemoryLine::of(&runs).unwrap();
    assert_eq!((line.measure, line.bytes_each.round()), (MemoryMeasure::Pss, 3000.0));
    runs[1].held.pss_bytes = None;
    assert_eq!(MemoryLine::of(&runs).unwrap().measure, MemoryMeasure::Rss);
}

#[test]
fn kernel_stacks_and_page_tables_count() {
    let mut runs = straight(MIB, 8000, &[1000]);
    runs[0].before.kernel_bytes = Some(0);
    runs[0].held.kernel_bytes = Some(16_000_000);
    assert_eq!(MemoryLine::of(&runs).unwrap().bytes_each, 24_000.0);
    assert_eq!(runs[0].bytes_each(|memory| memory.pss_bytes), Some(8000.0));
}

#[test]
fn runs_in_which_nothing_grew_give_no_line() {
    assert_eq!(MemoryLine::of(&[]), None);
    assert_eq!(MemoryLine::of(&[run(0, MIB, 2 * MIB)]), None);
    let mut shrunk = run(1000, 2 * MIB, MIB);
    shrunk.held.rss_bytes = 0;
    assert_eq!(MemoryLine::of(&[shrunk]), None);
}

#[test]
fn the_arithmetic_is_told() {
    let line = MemoryLine {
        bytes_each: 2670.0,
        fixed_bytes: 30e6,
        bytes_each_range: None,
        points: 2,
        measure: MemoryMeasure::Pss,
    };
    let told = line.fits(100_000_000, "process", 21_000_000_000, "available memory less a tenth");
    assert_eq!(
        told.unwrap_err(),
        "1e8 processes x 2,670 bytes + 30.0 MB = 267 GB, but 21.0 GB may be used (available memory less a tenth): at \
         most 7.85e6 fit"
    );
    assert_eq!(line.fits(7_850_000, "process", 21_000_000_000, ""), Ok(()));
}

#[test]
fn the_lowest_limit_is_the_capacity_and_is_named() {
    let runs = straight(0, 1000, &[10_000, 100_000]);
    let by_memory = Capacity::of(&spawning(runs.clone(), 1_000_000_000, &[("+P", 2_000_000)])).unwrap();
    assert_eq!((by_memory.count, &by_memory.lowest_limit), (1_000_000, &LowestLimit::Memory));
    let rooms = [("pids.max", 500_000), ("+P", 262_144)];
    let bounded = Capacity::of(&spawning(runs, 1_000_000_000, &rooms)).unwrap();
    assert_eq!((bounded.count, bounded.by_memory), (262_144, 1_000_000));
    assert!(matches!(bounded.lowest_limit, LowestLimit::Limit(limit) if limit.name == "+P"));
}

#[test]
fn capacity_test_is_compared_with_the_prediction_for_its_memory() {
    let mut runs = straight(1_000_000, 1000, &[10_000, 100_000]);
    let ending = Ending::Killed { why: "memory limit".to_owned() };
    runs.push(SpawnRun {
        purpose: Purpose::CapacityTest,
        memory_limit_bytes: Some(101_000_000),
        ending: ending.clone(),
        ..run(98_000, 1_000_000, 100_000_000)
    });
    let capacity = Capacity::of(&spawning(runs, 10_000_000_000, &[])).unwrap();
    assert_eq!(capacity.line.points, 2, "the run does not belong to the line that it tests");
    let [reached] = &capacity.tests[..] else { panic!("{capacity:?}") };
    assert_eq!((reached.predicted, reached.alive, &reached.ending), (100_000, 98_000, &ending));
    assert!((reached.ratio - 0.98).abs() < 1e-9);
}

#[test]
fn our_figures_are_held_against_the_runtimes() {
    let mut run = run(1000, MIB, MIB + 2_100_000);
    assert_eq!((run.memory_over_reported(), run.start_over_reported()), (None, None));
    (run.before.reported_bytes, run.held.reported_bytes) = (Some(5), Some(2_000_005));
    run.reported_start_seconds = Some(0.5e-3);
    assert!((run.memory_over_reported().unwrap() - 1.05).abs() < 1e-9);
    assert!((run.start_over_reported().unwrap() - 2.0).abs() < 1e-9);
}

#[test]
fn units_have_a_plural_and_bytes_their_words() {
    assert_eq!([2669.6, 99_999.7, 312_400.0].map(each), ["2,670 bytes", "100 kB", "312 kB"]);
    assert_eq!(["process", "virtual thread"].map(plural), ["processes", "virtual threads"]);
}

proptest! {
    #[test]
    fn a_straight_line_is_found(
        fixed in 0u64..1 << 32,
        bytes in 1u64..1 << 20,
        counts in prop::collection::btree_set(1u64..1 << 27, 1..6),
    ) {
        let counts: Vec<u64> = counts.into_iter().collect();
        let line = MemoryLine::of(&straight(fixed, bytes, &counts)).unwrap();
        prop_assert!((line.bytes_each / bytes as f64 - 1.0).abs() < 1e-6, "{line:?}");
        let off = (line.fixed_bytes - fixed as f64).abs();
        prop_assert!(off <= 1e-6 * line.bytes_of(counts[counts.len() - 1]) + 1.0, "{line:?}");
        prop_assert_eq!(line.points, counts.len());
        prop_assert_eq!(line.bytes_each_range.is_some(), counts.len() > 2);
    }

    #[test]
    fn what_fits_does_and_one_more_does_not(
        bytes in 1.0f64..1e6, fixed in 0.0f64..1e9, memory in 0u64..1 << 50,
    ) {
        let line = MemoryLine { bytes_each: bytes, fixed_bytes: fixed, bytes_each_range: None, points: 2, measure: MemoryMeasure::Pss };
        let most = line.most(memory);
        let slack = 1e-9 * memory as f64 + 1e-3;
        prop_assert!(most == 0 || line.bytes_of(most) <= memory as f64 + slack);
        prop_assert!(line.bytes_of(most + 1) >= memory as f64 - slack);
        prop_assert!(line.fits(most, "task", memory, "").is_ok());
        prop_assert!(line.fits(most + 1, "task", memory, "").is_err());
    }

    #[test]
    fn any_runs_are_judged(
        figures in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..6),
        memory in any::<u64>(),
        room in any::<u64>(),
    ) {
        let of = |&(alive, before, held, kernel): &(u64, u64, u64, u64)| {
            let memory = |bytes| Memory {
                pss_bytes: Some(bytes),
                rss_bytes: bytes,
                kernel_bytes: Some(kernel),
                ..Memory::default()
            };
            SpawnRun { alive, before: memory(before), held: memory(held), ..SpawnRun::default() }
        };
        let spawning = spawning(figures.iter().map(of).collect(), memory, &[("x", room)]);
        if let Some(capacity) = Capacity::of(&spawning) {
            prop_assert!(capacity.count <= room && capacity.line.bytes_each > 0.0 && capacity.line.fixed_bytes >= 0.0);
        }
    }
}

#[test]
fn a_run_that_was_killed_before_it_was_looked_at_is_no_point() {
    let mut runs = straight(1_000_000, 1000, &[10_000, 100_000]);
    for run in &mut runs {
        run.purpose = Purpose::Pilot;
        (run.before.cgroup_bytes, run.held.cgroup_bytes) =
            (Some(run.before.rss_bytes), Some(run.held.rss_bytes));
    }
    let ending = Ending::Killed { why: "memory limit".to_owned() };
    runs.push(SpawnRun { requested: 1_000_000, alive: 200_000, ending, ..SpawnRun::default() });
    let line = MemoryLine::of(&runs).unwrap();
    assert_eq!((line.points, line.measure), (2, MemoryMeasure::Charge));
    assert_eq!((runs[2].seconds_each(), runs[2].bytes_each(|memory| Some(memory.rss_bytes))), (None, None));
}

#[test]
fn a_charge_that_hardly_grew_is_not_believed() {
    let measure = |count| {
        let mut runs = straight(1_000_000, 1000, &[count]);
        // The kernel has charged only half of it so far.
        runs[0].before.cgroup_bytes = Some(0);
        runs[0].held.cgroup_bytes = Some(500 * count);
        MemoryLine::of(&runs).unwrap().measure
    };
    assert_eq!((measure(1000), measure(100_000)), (MemoryMeasure::Pss, MemoryMeasure::Charge));
}

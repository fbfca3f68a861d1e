use super::*;
use crate::resources::InterruptSample;
use manycore_topology::{SysTree, read, synthetic::MachineSpec};
use proptest::prelude::*;

/// Two packages, each a node with one LLC of two clusters of two CPUs.
fn machine() -> Machine {
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 2, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

fn task(tid: u32, start: u64, cpu: CpuId, run_ms: u64, wait_ms: u64) -> TaskSample {
    TaskSample {
        id: TaskId { pid: 1, tid, start },
        state: 'R',
        cpu,
        run_ns: run_ms * 1_000_000,
        wait_ns: Some(wait_ms * 1_000_000),
        slices: Some(run_ms),
        ..TaskSample::default()
    }
}

fn sample(at_ms: u64, tasks: Vec<TaskSample>) -> Sample {
    let cpu = |cpu: CpuId| CpuTimes { cpu, user: at_ms / 20, idle: at_ms / 20, ..CpuTimes::default() };
    Sample {
        at_ns: at_ms * 1_000_000,
        system: SystemCounters { switches: Some(at_ms * 3), ..SystemCounters::default() },
        cpus: (0..8).map(cpu).collect(),
        tasks: tasks.into(),
        ..Sample::default()
    }
}

#[test]
fn rates_are_per_time_between_the_samples() {
    let before = sample(1000, vec![task(1, 5, 0, 100, 7)]);
    let now = sample(3000, vec![task(1, 5, 0, 1100, 507)]);
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    let only = &picture.tasks[0];
    assert_eq!((picture.seconds, only.run, only.wait, only.slices), (2.0, 0.5, Some(0.25), Some(500.0)));
    assert_eq!((picture.switches, picture.created), (Some(3000.0), None));
    let shares = picture.cpus[0].shares.unwrap();
    assert_eq!((shares.user, shares.idle, shares.busy()), (0.5, 0.5, 0.5));
    let first = picture.units_of(Level::Cluster).next().unwrap();
    assert_eq!((first.shares.user, first.known, first.task_run, first.task_wait), (1.0, 2, 0.5, 0.25));
    assert_eq!(Picture::new(&machine(), &now, &before), None);
    assert_eq!(Picture::new(&machine(), &now, &now), None);
}

#[test]
fn waits_of_a_task_that_ended_are_in_the_mean_of_the_parts() {
    let process = ProcessSample { pid: 1, start: 5, ..ProcessSample::default() };
    let of = |at_ms, tasks| Sample { processes: vec![process], ..sample(at_ms, tasks) };
    let first = of(1000, vec![task(1, 5, 0, 0, 0), task(2, 5, 4, 0, 0)]);
    let middle = of(2000, vec![task(1, 5, 0, 0, 500), task(2, 5, 4, 0, 1000)]);
    let last = of(5000, vec![task(1, 5, 1, 0, 500)]);
    let mut waits = WaitSums::default();
    let mut all = Picture::new(&machine(), &first, &last).unwrap();
    let before = all.clone();
    waits.enter(&mut all);
    assert_eq!(all, before);
    for [before, now] in [[&first, &middle], [&middle, &last]] {
        waits.add(&Picture::new(&machine(), before, now).unwrap());
    }
    waits.enter(&mut all);
    // 0.5 s of the task on CPU 0, then on CPU 1, and 1 s of the other on CPU 4, in 4 s.
    assert_eq!((all.cpus[0].wait, all.cpus[1].wait, all.cpus[4].wait), (Some(0.125), Some(0.0), Some(0.25)));
    assert_eq!((before.processes[0].wait, all.processes[0].wait), (None, Some(0.375)));
    let nodes: Vec<f64> = all.units_of(Level::Node).map(|node| node.task_wait).collect();
    assert_eq!((before.wait(), all.wait(), nodes), (Some(0.125), Some(0.375), vec![0.125, 0.25]));
}

#[test]
fn a_single_sample_has_means_since_boot() {
    let picture = Picture::since_boot(&machine(), &sample(4000, vec![task(1, 5, 0, 1000, 500)])).unwrap();
    let only = &picture.tasks[0];
    assert!(picture.is_since_boot);
    assert_eq!((picture.seconds, only.run, only.wait, only.migration), (4.0, 0.25, Some(0.125), None));
    assert_eq!((picture.switches, picture.created), (Some(3000.0), None));
    let shares = picture.cpus[7].shares.unwrap();
    assert_eq!((shares.user, shares.idle), (0.5, 0.5));
    assert_eq!(Picture::since_boot(&machine(), &Sample::default()), None);
}

#[test]
fn a_change_of_the_last_cpu_is_a_migration_by_its_distance() {
    use Migration::{AcrossCluster, AcrossNode, WithinCluster};
    let to = |cpu| {
        let (before, now) = (sample(0, vec![task(1, 5, 0, 0, 0)]), sample(1000, vec![task(1, 5, cpu, 9, 0)]));
        Picture::new(&machine(), &before, &now).unwrap().tasks[0].migration
    };
    assert_eq!(
        [0, 1, 2, 4, 99].map(to),
        [None, Some(WithinCluster), Some(AcrossCluster), Some(AcrossNode), Some(WithinCluster)]
    );
}

#[test]
fn a_reused_id_is_a_new_task() {
    let before = sample(0, vec![task(1, 5, 0, 9000, 9000)]);
    let now = sample(1000, vec![task(1, 80, 7, 250, 10), task(2, 9, 1, 5000, 0)]);
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    let [first, second] = &picture.tasks[..] else { panic!() };
    assert_eq!((first.is_new, first.run, first.wait, first.migration), (true, 0.25, Some(0.01), None));
    // It has run for longer than the interval, so that not all of its time is of it.
    assert_eq!((second.is_new, second.run), (true, 1.0));
}

#[test]
fn a_thread_that_took_over_an_id_by_exec_has_no_rates() {
    let old = TaskSample { migrations: Some(Box::new([0; 4])), ..task(1, 5, 0, 100, 7) };
    let of = |run_ms| {
        let now = vec![TaskSample { migrations: Some(Box::new([9; 4])), ..task(1, 5, 3, run_ms, 900_000) }];
        let picture = Picture::new(&machine(), &sample(0, vec![old.clone()]), &sample(1000, now)).unwrap();
        picture.tasks.into_iter().next().unwrap()
    };
    let other = of(2101);
    assert_eq!((other.is_new, other.run, other.wait, other.slices), (true, 0.0, None, None));
    assert_eq!((other.migration, other.migrations), (None, None));
    // A late reading, of the same thread.
    let same = of(2100);
    assert_eq!((same.is_new, same.run, same.slices), (false, 2.0, Some(2000.0)));
    assert_eq!(same.migrations, Some(Box::new([9.0; 4])));
}

#[test]
fn a_task_that_was_not_read_before_has_waited_for_the_interval_at_most() {
    let picture =
        Picture::new(&machine(), &sample(0, vec![]), &sample(1000, vec![task(1, 5, 0, 10, 60_000)]));
    assert_eq!(picture.unwrap().tasks[0].wait, Some(1.0));
}

#[test]
fn the_clock_of_a_process_increases_by_what_is_possible() {
    let of = |old: &[(u64, u32)], seconds: u64, threads: u32| {
        let processes = |all: &[(u64, u32)]| {
            let one = |&(s, threads): &_| ProcessSample {
                pid: 7,
                start: 1,
                cpu_ns: Some(s * 1_000_000_000),
                threads,
            };
            all.iter().map(one).collect()
        };
        let before = Sample { processes: processes(old), ..sample(0, vec![]) };
        let now = Sample { processes: processes(&[(seconds, threads)]), ..sample(1000, vec![]) };
        Picture::new(&machine(), &before, &now).unwrap().processes[0].run
    };
    assert_eq!((of(&[], 500, 3), of(&[], 2, 3), of(&[], 2, 0)), (Some(3.0), Some(2.0), Some(1.0)));
    // Threads that have ended ran on all 8 CPUs.
    assert_eq!((of(&[(1, 1)], 9, 1), of(&[(1, 1)], 18, 1)), (Some(8.0), None));
    assert_eq!(of(&[(1, 20)], 41, 1), Some(40.0));
}

/// A set clock, or a machine that was suspended: neither is in `CLOCK_MONOTONIC`.
#[test]
fn rates_do_not_depend_on_the_time_of_day() {
    let mut before = sample(1000, vec![task(1, 5, 0, 100, 7)]);
    let mut now = sample(3000, vec![task(1, 5, 0, 1100, 507)]);
    (before.unix_ms, now.unix_ms) = (9_000_000, 1_000_000);
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    assert_eq!((picture.seconds, picture.tasks[0].run, picture.unix_ms), (2.0, 0.5, 1_000_000));
    now.unix_ms = 90_000_000;
    assert_eq!(Picture::new(&machine(), &before, &now).unwrap().tasks, picture.tasks);
}

/// A migrated machine, or a kernel that corrects them: counters that decrease.
#[test]
fn counters_that_decrease_have_no_rate_below_0() {
    let before = sample(3000, vec![task(1, 5, 0, 1100, 507)]);
    let mut now = sample(1000, vec![task(1, 5, 0, 100, 7)]);
    now.at_ns = before.at_ns + 1_000_000_000;
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    assert_eq!((picture.tasks[0].run, picture.tasks[0].wait, picture.switches), (0.0, Some(0.0), Some(0.0)));
    assert!(picture.cpus.iter().all(|one| one.shares.is_none()));
}

#[test]
fn a_cpu_that_was_offline_has_no_shares() {
    let (mut before, now) = (sample(0, vec![]), sample(1000, vec![]));
    before.cpus.remove(3);
    let picture = Picture::new(&machine(), &before, &now).unwrap();
    assert_eq!(picture.cpus[3].shares, None);
    assert_eq!(picture.units_of(Level::Node).map(|unit| unit.known).collect::<Vec<_>>(), [3, 4]);
}

#[test]
fn counts_of_the_whole_machine_are_of_no_cpu() {
    let at = |second: u64| {
        let one = |name: &str, cpus: usize| InterruptSample {
            name: name.into(),
            handlers: "".into(),
            counts: vec![second * 10; cpus],
        };
        Sample { interrupts: vec![one("24", 8), one("ERR", 1)], ..sample(second * 1000, vec![]) }
    };
    let picture = Picture::new(&machine(), &at(1), &at(2)).unwrap();
    let found: Vec<_> =
        picture.interrupts.iter().map(|one| (&*one.name, one.per_second, one.by_cpu.len())).collect();
    assert_eq!(found, [("24", 80.0, 8), ("ERR", 10.0, 0)]);
}

fn tasks() -> impl Strategy<Value = Vec<TaskSample>> {
    let one = (1..9_u32, 1..3_u64, 0..8_u32, 0..1000_u64, 0..1000_u64);
    prop::collection::vec(one, 0..12).prop_map(|all| {
        let mut tasks: Vec<_> =
            all.into_iter().map(|(tid, start, cpu, run, wait)| task(tid, start, cpu, run, wait)).collect();
        tasks.sort_by_key(|task| task.id);
        tasks.dedup_by_key(|task| task.id.tid);
        tasks
    })
}

proptest! {
    #[test]
    fn sums_of_all_levels_agree(before in tasks(), now in tasks(), ms in 40..5000_u64) {
        let picture = Picture::new(&machine(), &sample(0, before), &sample(ms, now.clone())).unwrap();
        prop_assert_eq!(picture.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), now.iter().map(|task| task.id).collect::<Vec<_>>());
        let run: f64 = picture.tasks.iter().map(|task| task.run).sum();
        let wait: f64 = picture.tasks.iter().filter_map(|task| task.wait).sum();
        let busy: f64 = picture.cpus.iter().filter_map(|one| one.shares).map(|one| one.busy()).sum();
        for level in LEVELS {
            let sum = |of: fn(&UnitUse) -> f64| picture.units_of(level).map(of).sum::<f64>();
            prop_assert!((sum(|unit| unit.task_run) - run).abs() < 1e-9);
            prop_assert!((sum(|unit| unit.task_wait) - wait).abs() < 1e-9);
            prop_assert!((sum(|unit| unit.shares.busy()) - busy).abs() < 1e-9);
            prop_assert_eq!(picture.units_of(level).map(|unit| unit.runnable).sum::<usize>(), now.len());
        }
        // The wait of a task with more CPU time than elapsed is unknown.
        prop_assert_eq!(picture.wait().is_some(), picture.tasks.iter().any(|task| task.wait.is_some()));
        prop_assert!((picture.wait().unwrap_or(0.0) - wait).abs() < 1e-9);
        prop_assert_eq!(picture.cpus.iter().map(|one| one.runnable).sum::<usize>(), now.len());
        prop_assert!(picture.tasks.iter().all(|task| task.run >= 0.0 && task.run.is_finite()));
    }
}

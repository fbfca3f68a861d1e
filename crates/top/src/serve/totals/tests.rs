use super::*;
use crate::{
    resources::{BandwidthSample, LatencyHistogram, LatencySample},
    sample::{ProcessSample, TaskId, TaskSample},
};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use proptest::prelude::*;

fn machine() -> Machine {
    let spec = MachineSpec { packages: 1, clusters: 2, cores: 2, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

fn sample(second: u64, cpus: &[(CpuId, u64)], tasks: &[(u32, CpuId, u64)]) -> Sample {
    let times =
        |&(cpu, user): &(CpuId, u64)| CpuTimes { cpu, user, idle: 100 * second, ..CpuTimes::default() };
    let task = |&(tid, cpu, wait_ms): &(u32, CpuId, u64)| TaskSample {
        id: TaskId { pid: tid, tid, start: 1 },
        cpu,
        wait_ns: Some(wait_ms * 1_000_000),
        voluntary: Some(wait_ms),
        ..TaskSample::default()
    };
    let process = |&(pid, _, wait_ms): &(u32, CpuId, u64)| ProcessSample {
        pid,
        start: 1,
        cpu_ns: Some(wait_ms * 2_000_000),
        threads: 1,
    };
    Sample {
        at_ns: second * 1_000_000_000,
        cpus: cpus.iter().map(times).collect(),
        tasks: tasks.iter().map(task).collect(),
        processes: tasks.iter().map(process).collect(),
        ..Sample::default()
    }
}

fn add(totals: &mut Totals, before: &Sample, now: &Sample, named: &[NamedUnit]) {
    let picture = Picture::new(&machine(), before, now).unwrap();
    totals.add(&picture, now, named);
}

#[test]
fn time_of_cpus_that_go_offline_and_come_back_does_not_decrease() {
    let mut totals = Totals::default();
    let samples = [
        sample(1, &[(0, 500), (1, 700)], &[]),
        sample(2, &[(0, 550), (1, 800)], &[]),
        sample(3, &[(0, 560)], &[]),
        sample(4, &[(0, 570), (1, 810)], &[]),
        // A counter of the kernel has begun again.
        sample(5, &[(0, 3), (1, 820)], &[]),
        sample(6, &[(0, 13), (1, 820)], &[]),
    ];
    let user: Vec<u64> = samples
        .windows(2)
        .map(|pair| {
            add(&mut totals, &pair[0], &pair[1], &[]);
            totals.machine().ticks[0]
        })
        .collect();
    assert_eq!(user, [1350, 1360, 1380, 1390, 1400]);
    assert_eq!(totals.sum([1]).ticks[0], 820);
    assert_eq!(totals.sum([9]), CpuTotals::default());
}

/// Regression: the time since the start of the machine was added in one step.
#[test]
fn a_cpu_that_comes_online_later_begins_at_zero() {
    let mut totals = Totals::default();
    let samples =
        [sample(1, &[(0, 500)], &[]), sample(2, &[(0, 550)], &[]), sample(3, &[(0, 560), (1, 90_000)], &[])];
    let last = sample(4, &[(0, 570), (1, 90_007)], &[]);
    for pair in samples.windows(2) {
        add(&mut totals, &pair[0], &pair[1], &[]);
    }
    assert_eq!(totals.machine().ticks[0], 560);
    add(&mut totals, &samples[2], &last, &[]);
    assert_eq!(totals.machine().ticks[0], 577);
}

/// Regression: the traffic of a group with a monitoring group counted twice.
#[test]
fn the_traffic_of_a_monitoring_group_is_in_that_of_its_group() {
    let at = |second: u64| {
        let traffic = |group: &str, bytes: u64| BandwidthSample {
            group: group.into(),
            domain: 0,
            total_bytes: Some(bytes * second),
            local_bytes: None,
            cache_bytes: None,
        };
        let bandwidth = vec![traffic("/", 10), traffic("vm", 100), traffic("vm/mon_groups/all", 100)];
        Sample { bandwidth, ..sample(second, &[(0, 500)], &[]) }
    };
    let mut totals = Totals::default();
    add(&mut totals, &at(1), &at(2), &[]);
    assert_eq!(totals.bandwidth[&0][0], Some(110.0));
}

#[test]
fn a_counter_that_decreases_and_rises_again_counts_once() {
    let mut totals = Totals::default();
    let users: [u64; 6] = [9, 500, 480, 505, 3, 10];
    let samples: Vec<Sample> = (1..).zip(users).map(|(at, user)| sample(at, &[(0, user)], &[])).collect();
    let mut seen = Vec::new();
    for pair in samples.windows(2) {
        add(&mut totals, &pair[0], &pair[1], &[]);
        seen.push(totals.machine().ticks[0]);
    }
    // It has begun again with the fifth.
    assert_eq!(seen, [500, 500, 505, 505, 512]);
}

#[test]
fn latencies_do_not_decrease_when_counting_begins_again() {
    let at = |second, count, conflict_ns| {
        let latency =
            LatencySample { wakeup: LatencyHistogram([count; 32]), conflict_ns, ..LatencySample::default() };
        Sample { latency: Some(latency), ..sample(second, &[(0, 1)], &[]) }
    };
    let samples = [at(1, 10, 100), at(2, 14, 150), at(3, 2, 20), at(4, 5, 30)];
    let mut totals = Totals::default();
    for pair in samples.windows(2) {
        add(&mut totals, &pair[0], &pair[1], &[]);
    }
    let latency = totals.latency.unwrap();
    assert_eq!((latency.wakeup.0[0], latency.conflict_ns), (4 + 3, 50 + 10));
}

#[test]
fn waits_and_switches_are_added_where_a_task_ran_last() {
    let mut totals = Totals::default();
    let first = sample(1, &[(0, 1), (3, 1)], &[(7, 0, 1000)]);
    let second = sample(2, &[(0, 1), (3, 1)], &[(7, 0, 1250)]);
    let third = sample(3, &[(0, 1), (3, 1)], &[(7, 3, 1750)]);
    add(&mut totals, &first, &second, &[]);
    add(&mut totals, &second, &third, &[]);
    assert_eq!(totals.sum([0]).tasks.wait, Some(0.25));
    let there = totals.sum([3]).tasks;
    assert_eq!((there.wait, there.voluntary, there.involuntary), (Some(0.5), Some(500.0), None));
    assert_eq!((there.seen_migrations, there.exact_migrations), ([0.0, 1.0, 0.0, 0.0], None));
    assert_eq!(totals.machine().tasks.wait, Some(0.75));
    // Interrupts were never read.
    assert_eq!(totals.machine().interrupts, None);
}

#[test]
fn a_name_has_the_time_of_its_processes_until_it_is_not_given_any_more() {
    let mut totals = Totals::default();
    let named = |processes: &[u32]| NamedUnit {
        name: "db\u{1b}[2J".to_owned(),
        processes: processes.iter().copied().collect(),
        group: Some("/db".to_owned()),
    };
    let first = sample(1, &[(0, 1)], &[(7, 0, 0), (8, 0, 0)]);
    let second = sample(2, &[(0, 1)], &[(7, 0, 100), (8, 0, 300)]);
    let third = sample(3, &[(0, 1)], &[(8, 0, 400)]);
    add(&mut totals, &first, &second, &[named(&[7, 99])]);
    let label = "db\u{fffd}[2J";
    assert_eq!((totals.named[label].run, totals.named[label].tasks.wait), (0.2, Some(0.1)));
    // One process has ended, another one belongs to it.
    add(&mut totals, &second, &third, &[named(&[7, 8])]);
    assert!((totals.named[label].run - 0.4).abs() < 1e-12, "{:?}", totals.named);
    add(&mut totals, &second, &third, &[]);
    assert!(totals.named.is_empty());
}

#[test]
fn there_is_a_bound_of_names_and_cpus() {
    let named: Vec<NamedUnit> =
        (0..1000).map(|number| NamedUnit { name: format!("{number}"), ..NamedUnit::default() }).collect();
    let mut totals = Totals::default();
    let cpus = [(0, 1), (u32::MAX, 1)];
    add(&mut totals, &sample(1, &cpus, &[]), &sample(2, &cpus, &[(1, u32::MAX, 1)]), &named);
    assert_eq!((totals.named.len(), totals.cpus.len()), (crate::serve::MOST_NAMED, 1));
}

proptest! {
    #[test]
    fn no_total_decreases(values in prop::collection::vec((0..1000_u64, 0..1000_u64, 0..4_u32), 2..20)) {
        let mut totals = Totals::default();
        let mut former = CpuTotals::default();
        let samples: Vec<Sample> = values
            .iter()
            .enumerate()
            .map(|(second, &(user, wait, cpu))| sample(second as u64 + 1, &[(0, user), (cpu + 1, user)], &[(5, cpu, wait)]))
            .collect();
        for pair in samples.windows(2) {
            add(&mut totals, &pair[0], &pair[1], &[]);
            let now = totals.machine();
            prop_assert!(now.ticks.iter().zip(former.ticks).all(|(now, former)| *now >= former));
            prop_assert!(now.tasks.wait >= former.tasks.wait);
            former = now;
        }
    }
}

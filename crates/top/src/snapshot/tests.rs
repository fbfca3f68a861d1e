use super::*;
use crate::{
    details::{Pressure, ProcessDetails},
    picture::{BandwidthUse, CountedUse, Picture},
    resources::GuestSample,
    sample::{CpuTimes, Sample, SystemCounters, TaskId, TaskName, TaskSample},
    text::{self, Times},
};
use manycore_render::terminal::Terminal;
use manycore_topology::{SysTree, read, synthetic::MachineSpec};
use std::sync::Arc;

fn options(order: Order) -> SnapshotOptions {
    SnapshotOptions { parts: Part::ALL.map(|(part, ..)| part).to_vec(), order, rows: 3 }
}

fn task(pid: u32, tid: u32, cpu: CpuId, run_ms: u64, wait_ms: Option<u64>) -> TaskSample {
    TaskSample {
        id: TaskId { pid, tid, start: 1 },
        name: TaskName::new(if pid == 9 { b"evil\x1b[2J" } else { b"worker" }),
        state: if run_ms > 0 { 'R' } else { 'S' },
        cpu,
        run_ns: run_ms * 1_000_000,
        wait_ns: wait_ms.map(|ms| ms * 1_000_000),
        voluntary: Some(run_ms),
        allowed: Some(Arc::new("0-7".parse().unwrap())),
        resident_kib: u64::from(pid) << 10,
        ..TaskSample::default()
    }
}

/// Two seconds of two packages, each a node with two clusters of two CPUs.
fn picture() -> Picture {
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 2, ..MachineSpec::default() };
    let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
    let cpu = |cpu: CpuId, ticks: u64| CpuTimes { cpu, user: ticks, idle: ticks, ..CpuTimes::default() };
    let sample = |seconds: u64, tasks: Vec<TaskSample>| Sample {
        at_ns: seconds * 1_000_000_000,
        unix_ms: 1_800_000_000_000 + seconds * 1000,
        system: SystemCounters {
            switches: Some(seconds * 50),
            runnable: Some(3),
            ..SystemCounters::default()
        },
        cpus: (0..8).map(|one| cpu(one, seconds * 50)).collect(),
        tasks: tasks.into(),
        ..Sample::default()
    };
    let before = vec![task(5, 5, 0, 0, Some(0)), task(5, 6, 1, 0, Some(0)), task(9, 9, 7, 0, None)];
    let now = vec![task(5, 5, 0, 1000, Some(500)), task(5, 6, 4, 600, Some(100)), task(9, 9, 7, 200, None)];
    let mut picture = Picture::new(&machine, &sample(0, before), &sample(2, now)).unwrap();
    add_resources(&mut picture);
    picture
}

/// A virtual machine of two virtual CPUs, one of which has ended; a group of resctrl; memory and pressure of a process.
fn add_resources(picture: &mut Picture) {
    let guest = GuestSample { name: "web1".into(), pid: 5, vcpus: [(0, 5), (1, 6), (2, 99)].into() };
    picture.guests.push(guest);
    for (domain, total) in [(0, Some(1.5e9)), (1, None)] {
        let group =
            BandwidthUse { group: "/".into(), domain, total, local: total, cache_bytes: Some(3 << 20) };
        picture.bandwidth.push(group);
    }
    let details = ProcessDetails {
        cgroup: Some("/db.service".to_owned()),
        cpu: Some(Pressure { some_ns: 0, some_percent: 12.5 }),
        node_kib: Some([(0, 3 << 10), (1, 1 << 10)].into()),
        ..ProcessDetails::default()
    };
    picture.details.push((9, details));
}

#[test]
fn processes_are_sums_of_their_threads() {
    let snapshot = TopSnapshot::new(&picture(), &[], &options(Order::Cpu));
    let [first, second] = &snapshot.processes[..] else { panic!("{:?}", snapshot.processes) };
    assert_eq!((first.pid, first.threads, first.state), (5, 2, 'R'));
    assert_eq!(
        (first.cpu_percent, first.wait_percent, first.cswch_per_second),
        (80.0, Some(30.0), Some(800.0))
    );
    assert_eq!((first.migrations.across_node, first.migrations.all()), (0.5, 0.5));
    assert_eq!(first.last_cpus.to_string(), "0,4");
    assert_eq!((second.pid, second.wait_percent, second.nvcswch_per_second), (9, None, None));
    assert_eq!(second.name, "evil\u{fffd}[2J");
    let memory = TopSnapshot::new(&picture(), &[], &options(Order::Memory));
    assert_eq!(memory.processes[0].pid, 9);
    let waits = TopSnapshot::new(&picture(), &[], &options(Order::Wait));
    assert_eq!(waits.threads.iter().map(|row| row.tid).collect::<Vec<_>>(), [Some(5), Some(6), Some(9)]);
}

#[test]
fn rows_are_limited_and_parts_that_are_not_asked_for_are_empty() {
    let few = SnapshotOptions { rows: 1, parts: vec![Part::Threads], ..options(Order::Cpu) };
    let snapshot = TopSnapshot::new(&picture(), &[], &few);
    assert_eq!((snapshot.threads.len(), snapshot.processes.len(), snapshot.cpus.len()), (1, 0, 0));
    assert_eq!(snapshot.system, None);
}

#[test]
fn the_tables_match_their_snapshot() {
    let snapshot = TopSnapshot::new(&picture(), &[], &options(Order::Cpu));
    let text = |columns, times| text::document(&snapshot, times).text(Terminal::new(columns, false));
    insta::assert_snapshot!("narrow", text(80, Times::Heading));
    insta::assert_snapshot!("wide", text(140, Times::Clock));
    insta::assert_snapshot!("csv", text::document(&snapshot, Times::Full).csv());
}

#[test]
fn findings_have_a_time_in_lines_and_are_said_to_be_none_once() {
    let options = SnapshotOptions { parts: vec![Part::Findings], ..options(Order::Cpu) };
    let text = |findings: &[Finding], times| {
        let snapshot = TopSnapshot::new(&picture(), findings, &options);
        text::document(&snapshot, times).text(Terminal::new(80, false))
    };
    assert_eq!(text(&[], Times::Clock), "");
    assert!(text(&[], Times::Heading).ends_with("\nNo findings.\n"));
    let kind = crate::findings::FindingKind::CrowdedCpu;
    let one = [Finding { kind, text: "a finding".to_owned(), fix: None, seconds: 3.0 }];
    let lines = text(&one, Times::Clock);
    let (clock, rest) = lines.split_once('\n').unwrap();
    assert!(clock.ends_with(" UTC") && rest.contains("a finding"), "{lines}");
}

#[test]
fn counters_of_the_cpus_have_columns_where_they_exist() {
    let parts = vec![Part::Processes, Part::Threads];
    let options = SnapshotOptions { parts, ..options(Order::Cpu) };
    let mut picture = picture();
    let json = |picture: &Picture| serde_json::to_string(&TopSnapshot::new(picture, &[], &options)).unwrap();
    assert!(!json(&picture).contains("ipc") && !json(&picture).contains("counters"));
    // The columns are there in each interval, also in one without figures.
    picture.has_counters = true;
    let csv =
        |picture: &Picture| text::document(&TopSnapshot::new(picture, &[], &options), Times::Full).csv();
    assert_eq!(csv(&picture).matches("rss_kib,ipc,miss/s,user").count(), 2);
    let counted = CountedUse { cycles: 2e9, instructions: 3e9, misses: 1234.5 };
    picture.tasks[0].counted = Some(Box::new(counted));
    picture.tasks[1].counted = Some(Box::default());
    insta::assert_snapshot!("counted", csv(&picture));
    assert_eq!(json(&picture).matches("\"ipc\":1.5,\"cache_misses_per_second\":1234.5}").count(), 1);
}

#[test]
fn a_time_beyond_the_year_9999_is_its_end() {
    let picture = Picture { unix_ms: u64::MAX, ..Picture::default() };
    assert_eq!(TopSnapshot::new(&picture, &[], &options(Order::Cpu)).time, "9999-12-31T23:59:59.999Z");
}

#[test]
fn processes_with_details_are_those_of_the_rows() {
    let memory = |order| SnapshotOptions { parts: vec![Part::Memory], rows: 1, ..options(order) };
    assert_eq!(first_processes(&picture(), &memory(Order::Cpu)), [5]);
    assert_eq!(first_processes(&picture(), &memory(Order::Memory)), [9]);
    let others = SnapshotOptions { parts: vec![Part::Processes], ..memory(Order::Cpu) };
    assert!(first_processes(&picture(), &others).is_empty());
    let rows = TopSnapshot::new(&picture(), &[], &memory(Order::Memory)).memory;
    // It ran on node 1.
    assert_eq!(
        (rows.len(), rows[0].remote_percent, rows[0].cpu_pressure_percent),
        (1, Some(75.0), Some(12.5))
    );
}

#[test]
fn virtual_machines_are_sums_of_their_virtual_cpus() {
    let rows = TopSnapshot::new(&picture(), &[], &options(Order::Cpu)).guests;
    let [web] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(
        (web.cpu_percent, web.wait_percent, web.last_cpus.to_string()),
        (80.0, Some(30.0), "0,4".into())
    );
    let vcpus: Vec<_> = web.vcpus.iter().map(|one| (one.vcpu, one.tid, one.cpu_percent)).collect();
    assert_eq!(vcpus, [(0, Some(5), Some(50.0)), (1, Some(6), Some(30.0)), (2, None, None)]);
}

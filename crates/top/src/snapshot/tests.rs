use super::*;
use crate::{
    picture::{CountedUse, Picture},
    sample::{CpuTimes, Sample, SystemCounters, TaskId, TaskName, TaskSample},
    text::{self, Times},
};
use manycore_render::terminal::Terminal;
use manycore_topology::{SysTree, read, synthetic::MachineSpec};
use std::sync::Arc;

const ALL: [Part; 10] = [
    Part::System,
    Part::Units,
    Part::Cpus,
    Part::Processes,
    Part::Threads,
    Part::Interrupts,
    Part::Nodes,
    Part::Groups,
    Part::Latency,
    Part::Findings,
];

fn options(order: Order) -> SnapshotOptions {
    SnapshotOptions { parts: ALL.to_vec(), order, rows: 3 }
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
    let sample = |seconds: u64, tasks| Sample {
        at_ns: seconds * 1_000_000_000,
        unix_ms: 1_800_000_000_000 + seconds * 1000,
        system: SystemCounters {
            switches: Some(seconds * 50),
            runnable: Some(3),
            ..SystemCounters::default()
        },
        cpus: (0..8).map(|one| cpu(one, seconds * 50)).collect(),
        tasks,
        ..Sample::default()
    };
    let before = vec![task(5, 5, 0, 0, Some(0)), task(5, 6, 1, 0, Some(0)), task(9, 9, 7, 0, None)];
    let now = vec![task(5, 5, 0, 1000, Some(500)), task(5, 6, 4, 600, Some(100)), task(9, 9, 7, 200, None)];
    Picture::new(&machine, &sample(0, before), &sample(2, now)).unwrap()
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
    (picture.tasks[0].counted, picture.tasks[1].counted) = (Some(counted), Some(CountedUse::default()));
    insta::assert_snapshot!("counted", csv(&picture));
    assert_eq!(json(&picture).matches("\"ipc\":1.5,\"cache_misses_per_second\":1234.5}").count(), 1);
}

#[test]
fn a_time_beyond_the_year_9999_is_its_end() {
    let picture = Picture { unix_ms: u64::MAX, ..Picture::default() };
    assert_eq!(TopSnapshot::new(&picture, &[], &options(Order::Cpu)).time, "9999-12-31T23:59:59.999Z");
}

use super::*;
use crate::{
    picture::Picture,
    resources::{GroupSample, InterruptSample, LatencyHistogram, LatencySample, NodeSample},
    sample::{CpuTimes, Sample, TaskId, TaskSample},
    serve::{named::NamedUnit, totals::Totals},
};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};

fn sample(second: u64, cpus: u32) -> Sample {
    let times = |cpu| CpuTimes {
        cpu,
        user: 50 * second,
        steal: 10 * second,
        idle: 40 * second,
        ..CpuTimes::default()
    };
    Sample {
        at_ns: second * 1_000_000_000,
        unix_ms: second * 1000,
        cpus: (0..cpus).map(times).collect(),
        tasks: vec![TaskSample {
            id: TaskId { pid: 7, tid: 7, start: 1 },
            state: 'R',
            cpu: 1,
            wait_ns: Some(second * 250_000_000),
            resident_kib: 4,
            ..TaskSample::default()
        }]
        .into(),
        interrupts: vec![InterruptSample {
            name: "24".into(),
            handlers: "disk".into(),
            counts: vec![second * 10; cpus as usize],
        }],
        nodes: vec![NodeSample { total_kib: 1024, local_pages: Some(second), ..NodeSample::default() }],
        groups: vec![GroupSample {
            path: "/db/x".into(),
            throttled_ns: Some(second * 500_000_000),
            ..GroupSample::default()
        }],
        latency: Some(LatencySample { wakeup: LatencyHistogram([second; 32]), ..LatencySample::default() }),
        ..Sample::default()
    }
}

fn published(clusters: u32, cores: u32, per_cpu: bool) -> Published {
    let spec = MachineSpec { packages: 1, clusters, cores, ..MachineSpec::default() };
    let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
    published_of(&machine, clusters.max(1) * cores, per_cpu)
}

fn published_of(machine: &Machine, cpus: u32, per_cpu: bool) -> Published {
    let named = [NamedUnit { name: "d\"b".to_owned(), processes: [7].into(), group: Some("/db".to_owned()) }];
    let mut totals = Totals::default();
    let (before, now) = (sample(1, cpus), sample(3, cpus));
    let picture = Picture::new(machine, &before, &now).unwrap();
    totals.add(&picture, &now, &named);
    Published::new(&totals, &picture, &named, &[], per_cpu)
}

#[test]
fn metrics_have_these_names_labels_and_values() {
    insta::assert_snapshot!(text(&published(2, 2, false)));
}

#[test]
fn the_number_of_series_is_bounded() {
    let count = |text: &str, what: &str| text.lines().filter(|line| line.starts_with(what)).count();
    let cpu = "manycore_cpu_seconds_total";
    // Clusters of one CPU are CPUs: machine, node and cache have series.
    assert_eq!(count(&text(&published(0, 64, false)), cpu), 3 * 8);
    assert_eq!(count(&text(&published(16, 4, false)), cpu), (3 + 16) * 8);
    let per_cpu = text(&published(16, 4, true));
    assert_eq!(count(&per_cpu, cpu), (3 + 16 + 64) * 8);
    assert!(
        per_cpu.contains(
            "manycore_cpu_seconds_total{level=\"cpu\",unit=\"63\",cpus=\"63\",mode=\"user\"} 1.5\n"
        )
    );
    assert!(!per_cpu.contains("pid="));
}

#[test]
fn nodes_have_the_numbers_of_the_kernel() {
    let text = text(&published_of(&crate::units::tests::machine_with_gaps(), 8, false));
    let cpus = text.lines().filter(|line| line.starts_with("manycore_cpus{level=\"node\""));
    let expected = ["0\",cpus=\"0-3\"} 4.0", "2\",cpus=\"4-7\"} 4.0"];
    assert_eq!(
        cpus.collect::<Vec<_>>(),
        expected.map(|end| format!("manycore_cpus{{level=\"node\",unit=\"{end}"))
    );
}

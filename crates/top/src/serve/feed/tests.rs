use super::*;
use crate::sample::{CpuTimes, ProcessSample, Sample, TaskId, TaskName, TaskSample};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use serde_json::Value;

fn picture(tasks: u32) -> Picture {
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 2, ..MachineSpec::default() };
    picture_of(&read(&SysTree::from_capture(spec.capture())).unwrap(), tasks)
}

fn picture_of(machine: &Machine, tasks: u32) -> Picture {
    let sample = |second: u64| Sample {
        at_ns: second * 1_000_000_000,
        cpus: (0..8)
            .map(|cpu| CpuTimes {
                cpu,
                user: 25 * second,
                irq: 5 * second,
                idle: 70 * second,
                ..CpuTimes::default()
            })
            .collect(),
        processes: (1..=tasks)
            .map(|pid| ProcessSample {
                pid,
                start: 1,
                cpu_ns: Some(u64::from(pid) * second * 1_000_000),
                threads: 1,
            })
            .collect(),
        tasks: (1..=tasks)
            .map(|pid| TaskSample {
                id: TaskId { pid, tid: pid, start: 1 },
                name: TaskName::new(b"<b>\x1b\"\xff"),
                cpu: pid % 8,
                wait_ns: (pid == 1).then_some(second * 500_000_000),
                ..TaskSample::default()
            })
            .collect(),
        ..Sample::default()
    };
    Picture::new(machine, &sample(1), &sample(2)).unwrap()
}

fn value(picture: &Picture) -> Value {
    serde_json::from_str(&json(picture, &[], &[], "host\u{202e}")).unwrap()
}

#[test]
fn migrations_are_per_second_and_said_to_be_bounds() {
    let mut picture = picture(3);
    picture.seconds = 2.0;
    picture.tasks[1].migration = Some(crate::picture::Migration::AcrossNode);
    let shown = value(&picture);
    let row = shown["processes"].as_array().unwrap().iter().find(|row| row["pid"] == 2).unwrap();
    assert_eq!((&row["migrations"], &row["is_exact"]), (&0.5.into(), &false.into()));
    assert_eq!(shown["is_exact"], false);
    // With BPF, tasks whose counters are lost or began again have none.
    picture.latency = Some(crate::LatencySample::default());
    picture.tasks[0].migrations = Some(Box::new([1.0, 0.0, 0.0, 2.0]));
    let shown = value(&picture);
    assert_eq!(shown["is_exact"], true);
    let exact = |pid: u32| {
        let row = shown["processes"].as_array().unwrap().iter().find(|row| row["pid"] == pid).unwrap();
        (row["migrations"].as_f64().unwrap(), row["is_exact"].as_bool().unwrap())
    };
    assert_eq!([1, 2].map(exact), [(3.0, true), (0.5, false)]);
}

#[test]
fn the_most_busy_processes_are_shown_and_names_are_printable() {
    let value = value(&picture(200));
    let rows = value["processes"].as_array().unwrap();
    assert_eq!(rows.len(), MOST_ROWS);
    // The first one waits for half of the time, the others run for a thousandth of their id.
    assert_eq!((&rows[0]["pid"], &rows[0]["wait"], &rows[1]["pid"]), (&1.into(), &0.5.into(), &200.into()));
    assert_eq!((&rows[1]["run"], &rows[1]["name"]), (&0.2.into(), &"<b>\u{fffd}\"\u{fffd}".into()));
    assert_eq!(value["host"], "host\u{fffd}");
}

#[test]
fn values_are_in_the_order_of_the_cpus() {
    let value = value(&picture(3));
    let metrics = &value["metrics"];
    assert_eq!(value["cpus"], serde_json::json!([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(metrics["wait"], serde_json::json!([0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]));
    assert_eq!((&metrics["busy"][7], &metrics["interrupts"][7]), (&0.3.into(), &0.05.into()));
    assert_eq!(value["levels"]["cluster"], serde_json::json!(["0-1", "2-3", "4-5", "6-7"]));
    assert_eq!(value["levels"]["node"], serde_json::json!(["0-3", "4-7"]));
    assert_eq!(value["totals"]["busy"], 2.4);
}

#[test]
fn findings_have_their_fix() {
    let finding = Finding {
        kind: crate::findings::FindingKind::CrowdedCpu,
        text: "a \u{1b}text".to_owned(),
        fix: Some("manycore pin".to_owned()),
        seconds: 3.2,
    };
    let shown = json(&picture(1), &[], &vec![finding; 100], "");
    let value: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["findings"].as_array().unwrap().len(), MOST_FINDINGS);
    let first = serde_json::json!({"kind": "crowded_cpu", "text": "a \u{fffd}text", "fix": "manycore pin", "seconds": 3.0});
    assert_eq!(value["findings"][0], first);
}

#[test]
fn what_is_unknown_is_null() {
    let mut picture = picture(0);
    picture.cpus[2].shares = None;
    let value = value(&picture);
    assert_eq!((&value["metrics"]["busy"][2], &value["metrics"]["wait"][2]), (&Value::Null, &Value::Null));
    assert_eq!((&value["totals"]["runnable"], &value["totals"]["memory_kib"]), (&Value::Null, &Value::Null));
}

#[test]
fn nodes_have_the_numbers_of_the_kernel() {
    let value = value(&picture_of(&crate::units::tests::machine_with_gaps(), 1));
    assert_eq!(value["numbers"]["node"], serde_json::json!([0, 2]));
    assert_eq!(value["numbers"]["cluster"], serde_json::json!([0, 1, 2, 3]));
    assert_eq!(value["levels"]["node"], serde_json::json!(["0-3", "4-7"]));
}

use super::*;
use crate::{
    sample::TaskName,
    trace::{Departure, EventKind, Recording, TraceEvent},
};
use manycore_topology::{SysTree, read, synthetic::MachineSpec};
use std::collections::BTreeSet;

/// Two packages of two clusters of four cores.
fn machine() -> Machine {
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

fn task(pid: u32, tid: u32, name: &str) -> TracedTask {
    TracedTask { pid, tid, name: TaskName::new(name.as_bytes()) }
}

fn switch(at_ns: u64, cpu: CpuId, from: TracedTask, why: Departure, to: TracedTask) -> TraceEvent {
    TraceEvent { at_ns, cpu, kind: EventKind::Switch { from, why, to } }
}

fn written(events: Vec<TraceEvent>) -> Vec<Value> {
    let watched = Some(BTreeSet::from([10]));
    let recording = Recording {
        span: (1000, 9000),
        events: events.into_iter().collect(),
        watched,
        ..Recording::default()
    };
    let mut bytes = Vec::new();
    write(&Timeline::new(&recording), &machine(), &mut bytes).unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

#[test]
fn a_trace_has_cpus_by_cluster_and_states_by_thread() {
    let [idle, a, b] = [task(0, 0, ""), task(10, 10, "server"), task(10, 11, "pool")];
    let events = written(vec![
        switch(2000, 5, idle, Departure::Displaced, a),
        TraceEvent { at_ns: 2500, cpu: 5, kind: EventKind::Wakeup { task: b, waker: a } },
        TraceEvent { at_ns: 2600, cpu: 5, kind: EventKind::Migration { task: b, to: 9 } },
        switch(3000, 9, idle, Departure::Displaced, b),
    ]);
    let unit = UNITS + 1;
    for expected in [
        json!({ "ph": "M", "pid": unit, "tid": 0, "name": "process_name",
            "args": { "name": "node 0, LLC 0, cluster 1: CPUs 4-7" } }),
        json!({ "ph": "M", "pid": unit, "tid": CPUS + 5, "name": "thread_name", "args": { "name": "CPU 5" } }),
        json!({ "ph": "M", "pid": 10, "tid": 0, "name": "process_name", "args": { "name": "server" } }),
        json!({ "ph": "M", "pid": 10, "tid": 11, "name": "thread_name", "args": { "name": "pool" } }),
        json!({ "ph": "X", "pid": unit, "tid": CPUS + 5, "ts": 1.0, "dur": 7.0, "name": "server", "cat": "watched",
            "args": { "process": 10, "thread": 10, "watched": true } }),
        json!({ "ph": "X", "pid": 10, "tid": 11, "ts": 1.5, "dur": 0.5, "name": "waiting for a CPU", "cat": "state",
            "args": { "cpu": 9, "after": "wake-up", "where": "node 1, LLC 1, cluster 2: CPUs 8-11" } }),
        json!({ "ph": "i", "s": "t", "pid": 10, "tid": 11, "ts": 1.5, "name": "woken", "cat": "event",
            "args": { "cpu": 5, "by": "server", "by_thread": 10 } }),
        json!({ "ph": "i", "s": "t", "pid": 10, "tid": 11, "ts": 1.6, "name": "migrated", "cat": "event",
            "args": { "from": 5, "to": 9, "distance": "across nodes" } }),
    ] {
        assert!(events.contains(&expected), "{expected} is not in {events:#?}");
    }
}

#[test]
fn hostile_names_stay_names() {
    let hostile = task(10, 10, "\"},{\u{1b}[2J\n");
    let events = written(vec![switch(2000, 0, task(0, 0, ""), Departure::Displaced, hostile)]);
    let names: Vec<_> =
        events.iter().filter(|event| event["ph"] == "X").map(|event| &event["name"]).collect();
    assert_eq!(names.len(), 2, "{events:#?}");
    assert!(names.iter().all(|name| !name.as_str().unwrap().contains('\u{1b}')), "{names:?}");
}

#[test]
fn a_recording_without_events_is_a_trace() {
    assert_eq!(written(Vec::new()), Vec::<Value>::new());
}

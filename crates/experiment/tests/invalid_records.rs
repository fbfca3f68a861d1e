//! Records that cannot have been measured are refused, with the place of the error.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_experiment::{
    Record,
    record::EventTimes,
    spawning::{SpawnRun, Work},
};
use manycore_testkit::SyntheticMachine;

fn broken(change: impl FnOnce(&mut Record)) -> String {
    let mut record = SyntheticMachine::guest().record();
    record.check().unwrap();
    change(&mut record);
    record.check().unwrap_err().to_string()
}

#[test]
fn impossible_values_are_rejected_with_their_position() {
    for (message, expected) in [
        (broken(|r| r.experiments[0].samples[3].wall_ns = 0), "experiment \"noise\": sample 3: wall_ns is 0"),
        (
            broken(|r| r.experiments[0].samples[0].treatment = 99),
            "experiment \"noise\": sample 0: treatment index is 99, expected less than 4",
        ),
        (
            broken(|r| r.experiments[0].samples[0].per_worker = vec![1.0; 9]),
            "experiment \"noise\": sample 0: per_worker has 9 entries for 1 workers",
        ),
        (
            broken(|r| r.experiments[0].samples[0].counters.cpu_checks = Some(u64::MAX)),
            "experiment \"noise\": sample 0: cpu_checks is 18446744073709551615",
        ),
        (broken(|r| r.schema.clear()), "schema is \"\", not \"manycore/record/1\""),
        (broken(|r| r.machine.online = "0-2000000".parse().unwrap()), "machine: 2000001 CPUs are online"),
    ] {
        assert_eq!(message, expected);
    }
    assert!(broken(|r| r.experiments[0].samples[0].work = -1.0).contains("negative"));
    assert!(broken(|r| r.experiments[0].treatments[0].workers = 0).contains("0 workers"));
    let scaling = |r: &mut Record, change: fn(&mut EventTimes)| {
        let scaling = r.experiments.iter_mut().find(|e| e.id == "scaling").unwrap();
        change(scaling.treatments[0].latency.as_mut().unwrap());
    };
    assert!(broken(|r| scaling(r, |latency| latency.buckets[0].0 = u32::MAX)).contains("bucket"));
    assert!(broken(|r| scaling(r, |latency| latency.buckets[0].1 = u64::MAX)).contains("more latencies"));
    assert!(broken(|r| scaling(r, |latency| latency.min_ns = u64::MAX)).contains("shortest"));
}

fn broken_spawn(work: Work, change: impl FnOnce(&mut SpawnRun)) -> String {
    let mut record: Record = SyntheticMachine::guest().spawn(work);
    record.check().unwrap();
    change(&mut record.light_processes[1].runs[0]);
    record.check().unwrap_err().to_string()
}

#[test]
fn light_processes_that_cannot_have_been_measured_are_named() {
    let spin = |change: fn(&mut manycore_experiment::spawning::Spin)| {
        broken_spawn(Work::Spin, |run| change(run.spin.as_mut().unwrap()))
    };
    let io = |change: fn(&mut manycore_experiment::spawning::Io)| {
        broken_spawn(Work::Io, |run| change(run.io.as_mut().unwrap()))
    };
    for (message, expected) in [
        (broken_spawn(Work::Idle, |run| run.start_seconds = f64::NAN), "start_seconds is Some(NaN)"),
        (broken_spawn(Work::Idle, |run| run.end_seconds = Some(-1.0)), "end_seconds is Some(-1.0)"),
        (broken_spawn(Work::Idle, |run| run.alive = u64::MAX), "alive is 18446744073709551615"),
        (
            broken_spawn(Work::Idle, |run| run.held.pss_bytes = Some(1 << 60)),
            "pss_bytes is 1152921504606846976",
        ),
        (spin(|spin| spin.interval_seconds = 0.0), "interval_seconds is 0"),
        (spin(|spin| spin.busy[2].push(0.0)), "busy has 3 shares for 2 CPUs"),
        (spin(|spin| spin.running.truncate(1)), "running has 1 entries for 20 intervals"),
        (spin(|spin| spin.queued.resize(21, 1)), "queued has 21 entries for 20 intervals"),
        (spin(|spin| spin.busy[0][1] = f32::NAN), "a share of CPU time is NaN"),
        (spin(|spin| spin.stolen[0] = -0.5), "a share of CPU time is -0.5"),
        (io(|io| io.latency[0].0 = u32::MAX), "io: latency bucket 4294967295 of 2240"),
        (io(|io| io.operations = u64::MAX), "io: more rounds were counted than are possible"),
        (io(|io| io.seconds = f64::INFINITY), "io: seconds is inf"),
    ] {
        assert_eq!(message, format!("light processes of go: run 0: {expected}"));
    }
}

#[test]
fn impossible_runtimes_are_rejected() {
    let mut record = SyntheticMachine::guest().spawn(Work::Idle);
    record.light_processes[0].schedulers.quota_cpus = Some(f64::NAN);
    assert_eq!(record.check().unwrap_err().to_string(), "light processes of beam: quota_cpus is Some(NaN)");
    record.light_processes[0].schedulers.quota_cpus = None;
    record.light_processes[0].schedulers.count = Some(1 << 30);
    assert!(record.check().unwrap_err().to_string().ends_with("schedulers or CPUs"));
}

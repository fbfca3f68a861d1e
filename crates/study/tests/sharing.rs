//! What running tasks share, as metrics of real runs.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_control::placement::WorkerCpus;
use manycore_experiment::{counters::CounterReader, engine::Subject};
use manycore_linux::{affinity, clock::now_ns, tasks};
use manycore_sharing::Level;
use manycore_study::{
    sharing::{SharingLevel, SharingMeter},
    subject::{CommandSubject, RunSettings, Variant},
};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Group};
use std::{
    collections::BTreeSet,
    fs, panic,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

/// Two processes that work until a file exists.
const TWO: &str = "work() { until [ -e \"$0\" ]; do :; done; }; work & work & wait";

/// A CPU that no kernel has: it is always idle.
const ABSENT: CpuId = 8192;

/// A machine whose first cluster is the given one, and whose other cluster does not exist.
fn invented(cluster: &[CpuId]) -> Machine {
    let group = |cpus: &[CpuId]| Group { id: None, cpus: cpus.iter().copied().collect() };
    Machine {
        online: cluster.iter().copied().chain([ABSENT]).collect(),
        clusters: vec![group(cluster), group(&[ABSENT])],
        ..Machine::default()
    }
}

/// Waits until two descendants run on different CPUs, and the sampling thread has then slept `times` times.
fn until_both_are_observed(times: u64) {
    let own = std::process::id();
    let are_apart = || {
        let shells = tasks::with_descendants(&[own]).into_iter().filter(|&pid| pid != own);
        let pins: BTreeSet<String> = shells
            .filter(|&pid| is_runnable(pid))
            .filter_map(|pid| status(pid, "Cpus_allowed_list:"))
            .filter(|cpus| cpus.parse::<CpuId>().is_ok())
            .collect();
        pins.len() >= 2
    };
    let sleeps = || {
        let is_sampler = |&tid: &u32| tasks::thread_name(own, tid).as_deref() == Some("sharing");
        let sampler = tasks::threads(own).into_iter().find(is_sampler)?;
        status(sampler, "voluntary_ctxt_switches:")?.parse::<u64>().ok()
    };
    wait("two pinned processes", || are_apart().then_some(()));
    let before = wait("a sampling thread", sleeps);
    wait("snapshots", || sleeps().filter(|now| *now >= before + times));
}

fn is_runnable(pid: u32) -> bool {
    status(pid, "State:").is_some_and(|state| state.starts_with('R'))
}

/// Returns a line of the status of a process or thread.
fn status(tid: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

fn wait<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn two_processes_in_one_cluster_are_found_in_it() {
    let cpus: Vec<CpuId> = affinity::allowed().unwrap().iter().take(2).collect();
    if cpus.len() < 2 {
        return println!("SKIPPED: needs two CPUs");
    }
    let machine = invented(&cpus);
    let meter = SharingMeter::new(SharingLevel::Of(Level::Cluster), &machine).unwrap();
    let place = WorkerCpus {
        workers: cpus.iter().map(|&cpu| CpuSet::single(cpu)).collect(),
        ..WorkerCpus::default()
    };
    let variant = |command: &[&str]| Variant {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        copies: 1,
        place: place.clone(),
        ..Variant::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let enough = folder.path().join("enough");
    let variants = vec![variant(&["sh", "-c", TWO, enough.to_str().unwrap()]), variant(&["sleep", "0.1"])];
    let settings = RunSettings { sharing: Some(meter), ..RunSettings::default() };
    let counters = Rc::new(CounterReader::new(&machine));
    let mut subject = CommandSubject::new(variants, settings, None, counters, now_ns()).unwrap();
    let busy = thread::scope(|scope| {
        let stop = scope.spawn(|| {
            let observed = panic::catch_unwind(|| until_both_are_observed(100));
            // Also if they were never observed: the run waits for the file.
            fs::write(&enough, "").unwrap();
            observed
        });
        let sample = subject.measure(0).unwrap();
        stop.join().unwrap().unwrap();
        sample.values
    });
    let idle = subject.measure(1).unwrap().values;
    let of = |values: &[f64], name: &str| {
        let at = subject.metrics().iter().position(|metric| metric.name == name).unwrap();
        values[at]
    };
    assert_eq!(of(&busy, "cluster_same_process"), 0.0);
    // Whenever both run, they are in the cluster and the other one is idle.
    assert_eq!((of(&busy, "cluster_apart"), of(&busy, "cluster_different_processes")), (0.0, 100.0));
    assert_eq!((of(&idle, "cluster_apart"), of(&idle, "cluster_different_processes")), (100.0, 0.0));
    let notes: Vec<&String> = subject.notes().iter().filter(|note| note.starts_with("sleep")).collect();
    assert!(notes.len() == 1 && notes[0].contains("never seen running at once"), "{notes:?}");
}

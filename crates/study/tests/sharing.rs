//! What running tasks share, as metrics of real runs.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_control::placement::WorkerCpus;
use manycore_experiment::{counters::CounterReader, engine::Subject};
use manycore_linux::{affinity, clock::now_ns};
use manycore_sharing::Level;
use manycore_study::{
    sharing::{SharingLevel, SharingMeter},
    subject::{CommandSubject, RunSettings, Variant},
};
use manycore_topology::{CpuId, CpuSet, Machine, machine::Group};
use std::rc::Rc;

/// Two processes that each work for about a second.
const TWO: &str = "work() { i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; }; work & work; wait";

/// A machine whose first cluster is the given one, and whose other cluster does not exist and so is always idle.
fn invented(cluster: &[CpuId]) -> Machine {
    let absent = cluster.iter().max().unwrap() + 1;
    let group = |cpus: &[CpuId]| Group { id: None, cpus: cpus.iter().copied().collect() };
    Machine {
        online: cluster.iter().copied().chain([absent]).collect(),
        clusters: vec![group(cluster), group(&[absent])],
        ..Machine::default()
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
    let variants = vec![variant(&["sh", "-c", TWO]), variant(&["sleep", "0.1"])];
    let settings = RunSettings { sharing: Some(meter), ..RunSettings::default() };
    let counters = Rc::new(CounterReader::new(&machine));
    let mut subject = CommandSubject::new(variants, settings, None, counters, now_ns()).unwrap();
    let [busy, idle] = [0, 1].map(|variant| subject.measure(variant).unwrap().values);
    let of = |values: &[f64], name: &str| {
        let at = subject.metrics().iter().position(|metric| metric.name == name).unwrap();
        values[at]
    };
    assert_eq!(of(&busy, "cluster_same_process"), 0.0);
    assert!(of(&busy, "cluster_different_processes") > 90.0, "{busy:?}");
    assert!((of(&busy, "cluster_apart") + of(&busy, "cluster_different_processes") - 100.0).abs() < 1e-9);
    assert_eq!((of(&idle, "cluster_apart"), of(&idle, "cluster_different_processes")), (100.0, 0.0));
    let notes: Vec<&String> = subject.notes().iter().filter(|note| note.starts_with("sleep")).collect();
    assert!(notes.len() == 1 && notes[0].contains("never seen running at once"), "{notes:?}");
}

//! Measures the time to plan many workers on machines with many CPUs, for each policy.
//!
//! Prints the median and the interquartile range of the runs. Planning is a pure computation, so there is
//! no competing program to interleave with.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_placement::{Policy, Reserve};
use manycore_topology::Machine;
use manycore_topology::{
    SysTree,
    synthetic::{MachineSpec, Numbering},
};
use std::{hint::black_box, time::Instant};

/// Runs of each policy. The first one is not counted.
const RUNS: usize = 42;

const PLACES: [&str; 11] = [
    "free",
    "close",
    "close+nosmt",
    "spread",
    "spread+nosmt",
    "spread@core",
    "spread@llc",
    "spread@node",
    "spread@package",
    "cpus=0-255",
    "near=eth0",
];

/// A machine with two threads per core, numbered in halves as x86 firmware does.
fn machine(packages: u32, nodes: u32, caches: u32, cores: u32) -> Machine {
    let spec = MachineSpec {
        packages,
        nodes,
        caches,
        cores,
        threads: 2,
        numbering: Numbering::Halves,
        ..MachineSpec::default()
    };
    let mut machine = manycore_topology::read(&SysTree::from_capture(spec.capture())).expect("a machine");
    let half = machine.packages[0].cpus.clone();
    machine.devices.push(manycore_topology::machine::Device {
        address: "0000:01:00.0".to_owned(),
        cpus: half,
        names: vec!["eth0".to_owned()],
        ..Default::default()
    });
    machine
}

/// Returns the time of each counted run in milliseconds, ascending.
fn times(machine: &Machine, place: &str, workers: usize) -> Vec<f64> {
    let policy: Policy = place.parse().expect("a placement");
    let reserve = Reserve::Count(2);
    let reserve = if place.starts_with("cpus=") { &Reserve::Nothing } else { &reserve };
    let run = |_| {
        let began = Instant::now();
        black_box(policy.plan(black_box(machine), workers, reserve).expect("a plan"));
        began.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..RUNS).map(run).skip(1).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn main() {
    for (machine, workers, target) in [(machine(8, 4, 4, 16), 512, 50.0), (machine(2, 2, 4, 8), 128, 2.0)] {
        println!("{workers} workers on {} CPUs, in ms; the target is {target}", machine.online.len());
        for place in PLACES {
            let times = times(&machine, place, workers);
            let at = |share: usize| times[times.len() * share / 4];
            println!("  {place:<16} {:8.3}   IQR {:.3} to {:.3}, {} runs", at(2), at(1), at(3), times.len());
        }
    }
}

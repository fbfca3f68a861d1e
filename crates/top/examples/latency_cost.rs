//! Measures what the programs of `bpf::Counters` cost per switch: two threads on one CPU wake each other by pipes, in
//! pairs of rounds without and with the programs, whose order alternates. The time is the CPU time of both threads, which
//! has all of the switches and nothing of other programs.
//!
//! `cargo run --release -p manycore-top --example latency_cost [PAIRS]`, as root
//!
//! The last column is the kernel's own account of the programs (`kernel.bpf_stats_enabled`), from rounds of its own,
//! since keeping it costs time too.
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

use manycore_linux::clock::process_cpu_ns;
use manycore_top::bpf::Counters;
use manycore_topology::{Machine, SysTree, read};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use std::{
    fs,
    io::{Read, Write, pipe},
    path::Path,
    thread,
};

/// Round trips of a round; each is two switches, if both threads are on one CPU.
const TRIPS: u32 = 100_000;

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None::<Pid>, &set).unwrap();
}

/// Returns the CPU time of one switch in nanoseconds, with that of the system calls that lead to it.
fn round(cpus: [usize; 2]) -> f64 {
    let ((mut here, mut there), (mut back, mut answer)) = (pipe().unwrap(), pipe().unwrap());
    let begun = process_cpu_ns(std::process::id()).unwrap();
    let echo = thread::spawn(move || {
        pin(cpus[1]);
        let mut byte = [0];
        while here.read(&mut byte).unwrap() == 1 {
            answer.write_all(&byte).unwrap();
        }
    });
    let trips = thread::spawn(move || {
        pin(cpus[0]);
        let mut byte = [0];
        for _ in 0..TRIPS {
            there.write_all(&byte).unwrap();
            back.read_exact(&mut byte).unwrap();
        }
    });
    trips.join().unwrap();
    echo.join().unwrap();
    (process_cpu_ns(std::process::id()).unwrap() - begun) as f64 / f64::from(2 * TRIPS)
}

/// Returns the runs of this process's BPF programs and their time in nanoseconds.
fn account() -> (u64, u64) {
    let mut sum = (0, 0);
    for entry in fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let value = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        sum.0 += value("run_cnt:");
        sum.1 += value("run_time_ns:");
    }
    sum
}

fn attach(machine: &Machine, is_filtered: bool) -> Counters {
    let counters = if is_filtered { Counters::attach_to_processes } else { Counters::attach };
    let counters = counters(machine).unwrap();
    counters.watch(std::process::id(), true);
    counters
}

fn main() {
    let pairs: usize = std::env::args().nth(1).map_or(15, |text| text.parse().unwrap());
    let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let last = machine.online.last().unwrap() as usize;
    for (name, cpus, is_filtered) in [
        ("one CPU", [last, last], false),
        ("one CPU, one process watched", [last, last], true),
        ("two CPUs, which become idle", [0, last], false),
    ] {
        round(cpus);
        let (mut differences, mut without) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            let with = || {
                let _counters = attach(&machine, is_filtered);
                round(cpus)
            };
            let (plain, counted) = if pair % 2 == 0 {
                let plain = round(cpus);
                (plain, with())
            } else {
                let counted = with();
                (round(cpus), counted)
            };
            differences.push(counted - plain);
            without.push(plain);
        }
        differences.sort_by(f64::total_cmp);
        without.sort_by(f64::total_cmp);
        let at = |values: &[f64], quarter: usize| values[(values.len() - 1) * quarter / 4];
        let stats = fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").unwrap();
        fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
        let counters = attach(&machine, is_filtered);
        round(cpus);
        let (runs, ns) = account();
        drop(counters);
        fs::write("/proc/sys/kernel/bpf_stats_enabled", stats).unwrap();
        println!(
            "{name}: {:.0} ns per switch without; with counters {:+.0} ns (quartiles {:+.0} to {:+.0}, {pairs} pairs); \
             by the kernel's account {:.0} ns in each of {runs} runs",
            at(&without, 2),
            at(&differences, 2),
            at(&differences, 1),
            at(&differences, 3),
            ns as f64 / runs.max(1) as f64,
        );
    }
}

//! CPU time and waits of threads beside those that `perf sched` counts over the same interval.

use crate::enclosed::{Enclosed, Spinners, last_cpu, sample, sampler, start};
use manycore_top::{Sample, TaskSample};
use std::{collections::BTreeMap, process::Command};

/// Returns whether a process has a child that runs a program of this name, and has not ended.
fn has_child(sample: &Sample, parent: u32, name: &str) -> bool {
    let is_it = |task: &&TaskSample| task.parent == parent && task.name.as_bytes() == name.as_bytes();
    sample.tasks.iter().filter(is_it).any(|task| task.state != 'Z')
}

/// Returns CPU time and waits in nanoseconds by thread, of the table of `perf sched latency` (`NAME:TID | 1.2 ms | 3 | avg:
/// 0.5 ms | ...`).
fn perf_latencies(text: &str) -> BTreeMap<u32, [f64; 2]> {
    let row = |line: &str| -> Option<(u32, [f64; 2])> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, run, switches, mean, ..] = cells[..] else { return None };
        let ms =
            |text: &str| text.trim_start_matches("avg:").trim_end_matches("ms").trim().parse::<f64>().ok();
        let tid = name.rsplit_once(':')?.1.parse().ok()?;
        let waits = ms(mean)? * switches.parse::<f64>().ok()?;
        Some((tid, [ms(run)?, waits].map(|ms| ms * 1e6)))
    };
    text.lines().filter_map(row).collect()
}

/// Samples around what perf counts in some seconds; `None` with a message if it cannot.
fn enclosed(seconds: u32) -> Option<Enclosed> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data").to_str().unwrap().to_owned();
    let mut sampler = sampler();
    sample(&mut sampler);
    let before = sample(&mut sampler);
    // perf counts while its command runs.
    let seconds = seconds.to_string();
    let mut perf = start("perf", &["sched", "record", "-m", "16M", "-o", &file, "--", "sleep", &seconds])?;
    let (mut counting, mut has_begun) = (Vec::new(), false);
    while perf.try_wait().unwrap().is_none() {
        let now = sample(&mut sampler);
        // The first of them may have been read in part before perf counted.
        if has_child(&now, perf.id(), "sleep") && std::mem::replace(&mut has_begun, true) {
            counting.truncate(1);
            counting.push(now);
        }
    }
    let after = sample(&mut sampler);
    let latency = Command::new("perf").args(["sched", "latency", "-p", "-i", &file]).output().unwrap();
    let output = String::from_utf8_lossy(&latency.stdout).into_owned();
    let [first, last] = &counting[..] else {
        println!("SKIPPED: perf cannot record here");
        return None;
    };
    let ns = [last.at_ns - first.at_ns, after.at_ns - before.at_ns];
    let run = Enclosed { before, first: first.clone(), last: last.clone(), after, ns, output };
    println!("perf: the shortest interval is {:.3} of the longest", run.nearness());
    Some(run)
}

/// Whether a time in nanoseconds is within its bounds, or outside by at most 3 % of the whole: perf does not have the slices
/// and waits that had begun before and that had not ended after.
fn is_within(ns: f64, bounds: [f64; 2], whole: f64) -> bool {
    let tolerance = 0.03 * whole;
    println!("{ns:.0} ns of {bounds:?}, {tolerance:.0}");
    (bounds[0] - tolerance..=bounds[1] + tolerance).contains(&ns)
}

#[test]
fn cpu_time_and_waits_of_threads_are_those_of_perf() {
    let _spinners = Spinners::start(2, last_cpu());
    // On a busy machine, a slice or a wait takes long: it is a small part of a long interval.
    for seconds in [3, 6, 12, 24] {
        let Some(run) = enclosed(seconds) else { return };
        let latencies = perf_latencies(&run.output);
        let pid = std::process::id();
        // Spinners of other tests of this process may have ended.
        let is_there = |task: &&TaskSample| run.after.tasks.iter().any(|after| after.id == task.id);
        let is_spinner = |task: &&TaskSample| task.id.pid == pid && task.name.as_bytes() == b"spinner";
        let both = |task: &&TaskSample| is_spinner(task) && is_there(task);
        let spinners: Vec<&TaskSample> = run.before.tasks.iter().filter(both).collect();
        let agrees = |spinner: &&TaskSample| {
            let [run_ns, wait_ns] = latencies[&spinner.id.tid];
            let task =
                |sample: &Sample| sample.tasks.iter().find(|task| task.id == spinner.id).unwrap().clone();
            let run_bounds = run.increase(|sample| task(sample).run_ns);
            let wait_bounds = run.increase(|sample| task(sample).wait_ns.unwrap());
            let whole = run.ns[1] as f64;
            is_within(run_ns, run_bounds, whole) && is_within(wait_ns, wait_bounds, whole)
        };
        assert!(spinners.len() >= 2, "{}", run.output);
        if spinners.iter().all(agrees) {
            return;
        }
    }
    panic!("perf has other times, also over 24 s");
}

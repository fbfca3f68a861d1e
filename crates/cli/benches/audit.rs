//! Measures the CPU time of `manycore audit` on a machine with 5,000 additional sleeping threads in ten
//! processes, some of them pinned.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_linux::{
    affinity,
    child::StartPlacement,
    job::{self, Job},
};
use manycore_stats::quantile;
use manycore_topology::CpuSet;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

const PROCESSES: usize = 10;
const THREADS: usize = 500;
/// One thread of this many is pinned to one CPU.
const PINNED: usize = 10;
/// Number of timed runs, unless `RUNS` is set.
const RUNS: usize = 15;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "--sleep") {
        return sleep();
    }
    let runs = std::env::var("RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let mut sleepers: Vec<Child> = (0..PROCESSES).map(|_| start_sleeper()).collect();
    let costs: Vec<f64> = (0..runs).map(|_| cost()).collect();
    for sleeper in &mut sleepers {
        let _ = sleeper.kill();
        let _ = sleeper.wait();
    }
    let at = |share| quantile(&costs, share).expect("some runs");
    println!(
        "CPU time of audit with {} threads: median {:.3} s, IQR {:.3} to {:.3} s, longest {:.3} s ({runs} runs)",
        PROCESSES * THREADS,
        at(0.5),
        at(0.25),
        at(0.75),
        at(1.0)
    );
}

/// Returns the CPU seconds of one audit.
fn cost() -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
    command.args(["audit", "--budget", "100ms", "--format", "json"]);
    let mut jobs = [Job::start(&mut command, &StartPlacement::default(), false).expect("the audit starts")];
    while !job::wait(&mut jobs, Duration::from_secs(1), &mut |_| {}).expect("the audit is waited for") {}
    let ended = jobs[0].ended().expect("the audit has ended");
    // Exit code 1 means that the audit has findings on this machine.
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", jobs[0].last_stderr_line());
    ended.cpu.as_secs_f64()
}

fn start_sleeper() -> Child {
    let own = std::env::current_exe().expect("a name");
    let mut child = Command::new(own)
        .arg("--sleep")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a sleeper");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), "asleep");
    child
}

/// Keeps its threads until standard input is closed.
fn sleep() {
    let allowed = affinity::allowed().expect("an affinity mask");
    let all_there = Arc::new(Barrier::new(THREADS));
    for index in 1..THREADS {
        let pin = (index % PINNED == 0).then(|| allowed.first().map(CpuSet::single)).flatten();
        let all_there = Arc::clone(&all_there);
        let sleeper = move || {
            pin.inspect(|cpu| affinity::restrict(0, cpu).expect("a pin"));
            all_there.wait();
            loop {
                thread::park();
            }
        };
        thread::Builder::new().stack_size(64 << 10).spawn(sleeper).expect("a thread");
    }
    all_there.wait();
    println!("asleep");
    let _ = std::io::stdin().lines().next();
}

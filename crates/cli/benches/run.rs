//! Measures what `run` adds to the start time of a command over taskset, and the delay from a thread's
//! creation until it is on its CPU.
//!
//! Starts alternate in pairs. The command is `date`, which prints the time at which it runs. The kernel
//! reports the creation times of threads (process events connector).
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_placement::PlacementTrace;
use manycore_stats::quantile;
use std::{
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

/// Pairs of starts.
const PAIRS: usize = 60;

/// Runs of the program with many threads, and its number of threads.
const RUNS: usize = 12;
const THREADS: usize = 100;

/// Returns the time in milliseconds from now until `date` runs with the prefix `words`.
fn start(words: &[&str]) -> f64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["date", "+%s%N"]).stderr(Stdio::null());
    let began = now();
    let printed = command.output().expect("the command starts").stdout;
    let ran: u128 = String::from_utf8_lossy(&printed).trim().parse().expect("date prints the time");
    (ran - began) as f64 / 1e6
}

/// Returns the time in milliseconds from each thread's creation, as reported by the kernel, until it was on
/// its CPU.
fn delays(program: &str, hold: &str) -> Vec<f64> {
    let (threads, out) = (THREADS.to_string(), std::env::temp_dir().join("manycore-bench-run.json"));
    let mut run = Command::new(program);
    run.args(["run", "-q", "--hold", hold, "--trace"]).arg(&out).args([
        "--",
        program,
        "probe",
        "--threads",
        &threads,
    ]);
    let run = run.args(["--checks", "10"]).output().expect("the probe starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let stay: PlacementTrace =
        serde_json::from_slice(&std::fs::read(&out).expect("a file")).expect("where its threads ran");
    // Threads created before the first scan are found by it, without a creation time.
    assert!(
        stay.pin_delays_ns.len() > THREADS / 2,
        "{} of {THREADS} creations were reported",
        stay.pin_delays_ns.len()
    );
    stay.pin_delays_ns.iter().map(|ns| *ns as f64 / 1e6).collect()
}

fn tell(what: &str, unit: &str, values: &[f64]) {
    let at = |share| quantile(values, share).expect("values");
    println!(
        "  {what:<42} {:8.3} {unit}   IQR {:.3} to {:.3}, 90 % {:.3}, 99 % {:.3}, longest {:.3}",
        at(0.5),
        at(0.25),
        at(0.75),
        at(0.9),
        at(0.99),
        at(1.0)
    );
}

fn main() {
    let program = env!("CARGO_BIN_EXE_manycore");
    let ours = [program, "run", "-q", "--place", "cpus=0", "--workers", "1", "--"];
    let peer = ["taskset", "-c", "0"];
    let (mut run, mut taskset, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=PAIRS {
        let (a, b) = if pair % 2 == 0 {
            let a = start(&ours);
            (a, start(&peer))
        } else {
            let b = start(&peer);
            (start(&ours), b)
        };
        if pair > 0 {
            run.push(a);
            taskset.push(b);
            added.push(a - b);
        }
    }
    println!("time until a command runs, {PAIRS} pairs; the target is 5 ms added");
    tell("manycore run", "ms", &run);
    tell("taskset", "ms", &taskset);
    tell("added, pair by pair", "ms", &added);
    println!("time until a thread is on its CPU, {RUNS} programs of {THREADS} threads; the target is 5 ms");
    for hold in ["auto", "affinity"] {
        let delays: Vec<f64> = (0..RUNS).flat_map(|_| delays(program, hold)).collect();
        tell(&format!("hold {hold}"), "ms", &delays);
    }
}

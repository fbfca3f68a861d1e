//! What `run` adds to a command's start over taskset, and how soon a thread is on its CPU after its birth.
//!
//! Starts alternate in pairs; the command is `date`, which tells when it runs. Threads tell themselves when they find
//! that they may use one CPU only, from their first instruction on.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

use manycore_model::stats::quantile;
use std::{
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

/// Pairs of starts.
const PAIRS: usize = 60;

/// Runs of the program with many threads, and its threads.
const RUNS: usize = 12;
const THREADS: usize = 100;

/// Milliseconds from now until `date` runs below `words`.
fn start(words: &[&str]) -> f64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["date", "+%s%N"]).stderr(Stdio::null());
    let began = now();
    let printed = command.output().expect("the command starts").stdout;
    let ran: u128 = String::from_utf8_lossy(&printed).trim().parse().expect("date tells the time");
    (ran - began) as f64 / 1e6
}

/// Microseconds until each thread found itself bound.
fn delays(program: &str, hold: &str) -> Vec<f64> {
    let threads = THREADS.to_string();
    let words = ["run", "-q", "--hold", hold, "--", program, "probe", "--looks", "0", "--threads", &threads];
    let run = Command::new(program).args(words).output().expect("the probe starts");
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    let delay = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1).filter(|bound| **bound != "-")?;
        words.get(2)?.parse().ok()
    };
    let delays: Vec<f64> = printed.lines().skip(1).take(THREADS).filter_map(delay).collect();
    assert_eq!(delays.len(), THREADS, "{printed}");
    delays
}

fn tell(what: &str, unit: &str, values: &[f64]) {
    let at = |share| quantile(values, share).expect("values");
    println!(
        "  {what:<42} {:8.3} {unit}   middle half {:.3} to {:.3}, 90 % {:.3}, 99 % {:.3}, longest {:.3}",
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
        let delays: Vec<f64> = (0..RUNS).flat_map(|_| delays(program, hold)).map(|us| us / 1e3).collect();
        tell(&format!("hold {hold}"), "ms", &delays);
    }
}

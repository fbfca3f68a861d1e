//! Measures the CPU time of a snapshot from `/proc` by the number of watched threads, which sleep.
//!
//! `cargo run --release -p manycore-sharing --example cost`
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

use manycore_linux::clock::cpu_ns;
use manycore_sharing::{ProcfsSource, Snapshot, Source, WatchedRoots};
use manycore_stats::Estimate;
use std::{sync::mpsc, thread};

/// Measured batches of snapshots, and snapshots in a batch.
const BATCHES: usize = 21;
const SNAPSHOTS: u32 = 100;

fn main() {
    let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    for threads in [1, 10, 100, 400, 1000] {
        let (keep, ends): (Vec<_>, Vec<_>) = (1..threads).map(|_| mpsc::channel::<()>()).unzip();
        let sleeping: Vec<_> =
            ends.into_iter().map(|end| thread::spawn(move || end.recv().is_err())).collect();
        let roots = WatchedRoots::Processes(vec![std::process::id()]);
        let (mut source, mut snapshot) = (ProcfsSource::new(roots).unwrap(), Snapshot::default());
        source.snapshot(&mut snapshot).unwrap();
        let batch = |_| {
            let before = cpu_ns(own).unwrap();
            for _ in 0..SNAPSHOTS {
                source.snapshot(&mut snapshot).unwrap();
            }
            (cpu_ns(own).unwrap() - before) as f64 / f64::from(SNAPSHOTS) / 1e3
        };
        let each: Vec<f64> = (0..BATCHES).map(batch).collect();
        let found = Estimate::from_samples(&each).unwrap();
        let (low, high) = found.interval.unwrap();
        let per_thread = found.median / f64::from(threads);
        println!(
            "{threads:5} threads: {:8.1} µs (95 %: {low:.1} to {high:.1}) for a snapshot, {per_thread:.2} µs for a thread",
            found.median
        );
        drop(keep);
        for one in sleeping {
            one.join().unwrap();
        }
    }
}

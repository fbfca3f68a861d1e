//! How long it takes to read the records of 10,000 nodes and to evaluate them:
//! `cargo run --release -p manycore-fleet --example read_records -- record.json 10000`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use manycore_experiment::Record;
use manycore_fleet::{NodeRecord, Options, evaluate};
use std::{sync::atomic::AtomicUsize, sync::atomic::Ordering, time::Instant};

fn main() {
    let mut given = std::env::args().skip(1);
    let path = given.next().unwrap_or_else(|| "crates/fleet/tests/record.json".to_owned());
    let nodes: usize = given.next().map_or(10_000, |count| count.parse().unwrap());
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let read = || {
        let mut own = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= nodes {
                return own;
            }
            let record: Record = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            record.check().unwrap();
            let mut node = NodeRecord::from_record(&format!("n{index:05}"), &record);
            // The same file for all: a scatter of about 1 % between nodes.
            for (place, figure) in node.figures.iter_mut().enumerate() {
                figure.value *=
                    1.0 + 0.02 * (((index * 7919 + place * 104_729) % 1000) as f64 / 1000.0 - 0.5);
            }
            own.push(node);
        }
    };
    let records: Vec<NodeRecord> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let read = start.elapsed();
    let evaluation = evaluate(records, Vec::new(), &Options::default());
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!(
        "{} nodes: read in {:.1} s, evaluated in {:.1} s, {peak}",
        evaluation.nodes.len(),
        read.as_secs_f64(),
        start.elapsed().saturating_sub(read).as_secs_f64(),
    );
}

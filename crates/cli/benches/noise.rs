//! Measures the error of A against A with 50 ms slices and with 30 s blocks, over windows of 60 s of the
//! same run.
#![allow(clippy::expect_used, reason = "a benchmark that cannot run stops")]

mod common;

use manycore_experiment::{
    counters::CounterReader,
    engine::Subject,
    pool_subject::{PoolSubject, Trial, WorkerOrder},
    record::{Experiment, Sample},
    sampling::slices,
    worker_pool::WorkerPool,
};
use manycore_linux::clock::now_ns;
use manycore_stats::{median, quantile};
use manycore_workload::{DEFAULT_MAX_PRIME, LoadKind};
use std::rc::Rc;

const WINDOW_NS: u64 = 60_000_000_000;
const STEP_NS: u64 = 15_000_000_000;

/// Minutes of measuring, unless `MINUTES` is set.
const MINUTES: f64 = 8.0;

fn main() {
    let minutes = std::env::var("MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(MINUTES);
    let machine = common::machine();
    let mut load = LoadKind::Prime.load();
    load.prepare(DEFAULT_MAX_PRIME);
    let order = WorkerOrder {
        worker: 0,
        cpus: machine.online.clone(),
        parameter: DEFAULT_MAX_PRIME,
        ticks: 0,
        expected_cpu: None,
    };
    let trial = Trial {
        orders: vec![order],
        servers: Vec::new(),
        unit_per_tick: 1.0 / load.ticks_per_event() as f64,
    };
    let pool = WorkerPool::start(LoadKind::Prime, 1, 0).expect("a worker");
    let mut live: Box<dyn Subject<Error = manycore_experiment::Error>> = Box::new(PoolSubject::new(
        pool,
        Rc::new(CounterReader::new(&machine)),
        slices(&machine),
        vec![trial.clone(), trial],
        now_ns(),
    ));
    let experiment = common::compare(&["A", "A again"], live.as_mut(), minutes * 60.0);
    let (slices, blocks): (Vec<f64>, Vec<f64>) = windows(&experiment).into_iter().unzip();
    let (slices, blocks) = (quantile(&slices, 0.95), quantile(&blocks, 0.95));
    if let (Some(slices), Some(blocks)) = (slices, blocks) {
        println!(
            "A/A error (95th percentile over 60 s windows): slices of 50 ms {:.3} %, blocks of 30 s {:.3} %, ratio {:.3}",
            slices * 100.0,
            blocks * 100.0,
            slices / blocks
        );
    }
}

/// Returns, for each window, the error of the median pair ratio and of the ratio of its two halves.
fn windows(experiment: &Experiment) -> Vec<(f64, f64)> {
    let end = experiment.samples.last().map_or(0, |sample| sample.start_ns);
    let last = end.saturating_sub(WINDOW_NS);
    (0..=last)
        .step_by(STEP_NS as usize)
        .filter_map(|start| {
            let within = |from: u64, to: u64| -> Vec<&Sample> {
                experiment.samples.iter().filter(|s| (from..to).contains(&s.start_ns)).collect()
            };
            let window = Experiment {
                samples: within(start, start + WINDOW_NS).into_iter().cloned().collect(),
                ..experiment.clone()
            };
            let rate = |samples: &[&Sample]| {
                samples.iter().map(|s| s.work).sum::<f64>()
                    / samples.iter().map(|s| s.wall_ns as f64).sum::<f64>()
            };
            let half = start + WINDOW_NS / 2;
            let halves = rate(&within(half, start + WINDOW_NS)) / rate(&within(start, half));
            Some((median(&window.log_ratios(0, 1))?.abs(), halves.ln().abs()))
        })
        .collect()
}

//! Synthetic records of `density`: the search runs on invented hosts.

use crate::{SyntheticMachine, hosts::InstanceHost};
use manycore_experiment::record::{
    CLIENT_PART, Direction, Experiment, Method, Metric, Record, RequestTimes, Resource, Sample, Treatment,
    id, parameter, variant_label,
};
use manycore_stats::largest_count::{Search, SearchOptions};
use std::collections::BTreeMap;

/// Length of a slice, in nanoseconds.
const SLICE_NS: u64 = 2_000_000_000;
/// Largest number of instances that is measured.
const MOST: usize = 512;
/// Largest number of pairs.
const PAIRS: usize = 60;
/// At most 10 % above the lone instance.
const FACTOR: f64 = 1.1;
/// Points of the distribution of latencies: share of the requests, and latency over the p99.
const POINTS: [(f64, f64); 5] = [(0.5, 0.15), (0.9, 0.5), (0.99, 1.0), (0.999, 1.5), (1.0, 2.0)];

impl SyntheticMachine {
    /// Returns the record that `density` would measure of one variant on each of `hosts`. The run delay rises with the time
    /// of service, the memory bandwidth with the number of instances.
    pub fn density(&self, hosts: Vec<InstanceHost>) -> Record {
        let machine = Record { subcommand: "density".to_owned(), ..self.compare(1.0) };
        let mut experiment = Experiment {
            id: id::DENSITY.to_owned(),
            method: Method::Slices { slice_ns: SLICE_NS, settle_ns: SLICE_NS / 10 },
            unit: "requests".to_owned(),
            parameters: parameters(),
            metrics: metrics(),
            treatments: Vec::new(),
            samples: Vec::new(),
        };
        for (index, host) in hosts.into_iter().enumerate() {
            search(&mut experiment, &variant_label(index), host);
        }
        Record {
            subject: "redis-server --port {port}".to_owned(),
            seconds: experiment.samples.len() as f64 * 2.2,
            experiments: vec![experiment],
            ..machine
        }
    }
}

fn parameters() -> BTreeMap<String, String> {
    [
        (parameter::BOUND, "p99 < +10%".to_owned()),
        (parameter::MOST_INSTANCES, MOST.to_string()),
        (parameter::PAIRS, PAIRS.to_string()),
        (parameter::RATE, "6000".to_owned()),
        (parameter::CAPACITY, "10000".to_owned()),
        (parameter::SERVICE, "redis-server --port {port}".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn metrics() -> Vec<Metric> {
    let metric =
        |name: &str, unit: &str, better| Metric { name: name.to_owned(), unit: unit.to_owned(), better };
    vec![
        metric("p99", "ms", Direction::Lower),
        metric(CLIENT_PART, "%", Direction::Lower),
        Resource::RunDelay.metric(),
        Resource::MemoryBandwidth.metric(),
    ]
}

/// Searches on a host, and adds all samples.
fn search(experiment: &mut Experiment, label: &str, mut host: InstanceHost) {
    let options = SearchOptions { bound: FACTOR.ln(), first: 2, most: MOST, samples: PAIRS };
    let mut search = Search::new(options);
    while let Some(count) = search.next_count() {
        let block = experiment.samples.len();
        let figures = [1, count].map(|count| (count, host.p99(count)));
        for (count, p99) in figures {
            let treatment = treatment(experiment, label, count);
            let delay = 10.0 * (host.service(count) - host.service(1));
            let values = vec![p99, 3.0, delay, 0.2 * count as f64];
            experiment.samples.push(Sample { treatment, ..sample(block, p99, values) });
        }
        search.add(count, (figures[1].1 / figures[0].1).ln());
    }
}

fn sample(block: usize, p99: f64, values: Vec<f64>) -> Sample {
    let points = POINTS.map(|(share, over)| (p99 * over, share * 12_000.0)).to_vec();
    Sample {
        block,
        start_ns: block as u64 * SLICE_NS,
        wall_ns: SLICE_NS,
        work: 12_000.0,
        values,
        requests: RequestTimes::new("", "ms", 12_000.0, points).into_iter().collect(),
        ..Sample::default()
    }
}

/// Returns the index of the treatment of a count of a variant.
fn treatment(experiment: &mut Experiment, label: &str, count: usize) -> usize {
    let name = format!("{label}: {count}");
    experiment.treatment(&name).unwrap_or_else(|| {
        let factors = BTreeMap::from([("variant".to_owned(), label.to_owned())]);
        experiment.treatments.push(Treatment { name, workers: count, factors, latency: None });
        experiment.treatments.len() - 1
    })
}

//! Synthetic core-to-core latency.

use manycore_experiment::record::{CounterDelta, Direction, Experiment, Method, Metric, Sample, Treatment};
use manycore_topology::{cpuset::CpuId, distance::TopologyDistance, machine::Machine, pairs};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Maximum number of pairs, as in the profile `quick`.
const MAX_PAIRS: usize = 3000;

/// Returns the nanoseconds from `a` to `b` where only their distance matters.
pub fn distance_ns(_: CpuId, _: CpuId, distance: TopologyDistance) -> f64 {
    match distance {
        TopologyDistance::Core => 9.0,
        TopologyDistance::Cluster => 25.0,
        TopologyDistance::Llc => 48.0,
        TopologyDistance::Node => 95.0,
        TopologyDistance::Remote => 140.0,
    }
}

/// Returns the latency experiment of a machine whose core-to-core latency is `truth` nanoseconds. Each
/// visit deviates by at most the share `noise`.
pub fn latency_experiment(
    machine: &Machine,
    truth: &dyn Fn(CpuId, CpuId, TopologyDistance) -> f64,
    noise: f64,
    rounds: usize,
    seed: u64,
) -> Experiment {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let choice = pairs::select(machine, &machine.usable(), MAX_PAIRS);
    let metric =
        |name: &str| Metric { name: name.to_owned(), unit: "ns".to_owned(), better: Direction::Lower };
    let of_pair = |&[a, b]: &pairs::Pair| Treatment {
        name: format!("{a}-{b}"),
        workers: 2,
        factors: [("a", a), ("b", b)].map(|(name, cpu)| (name.to_owned(), cpu.to_string())).into(),
        latency: None,
    };
    let truths: Vec<f64> =
        choice.pairs.iter().map(|&[a, b]| truth(a, b, TopologyDistance::between(machine, a, b))).collect();
    let mut sample = |block: usize, treatment: usize| {
        let ns = truths[treatment] * (1.0 + (rng.random::<f64>() - 0.5) * 2.0 * noise);
        Sample {
            block,
            treatment,
            start_ns: (block * truths.len() + treatment) as u64 * 1_000_000,
            wall_ns: 1_000_000,
            work: (1e6 / ns).floor(),
            values: vec![ns, ns * (1.0 - noise / 2.0), ns * noise / 2.0],
            counters: CounterDelta { span_ns: 1_000_000, ..CounterDelta::default() },
            ..Sample::default()
        }
    };
    let samples = (0..rounds).flat_map(|block| (0..truths.len()).map(move |pair| (block, pair)));
    let samples = samples.map(|(block, pair)| sample(block, pair)).collect();
    let parameters =
        [("cpus", machine.usable().to_string())].into_iter().chain(choice.rule.map(|rule| ("rule", rule)));
    Experiment {
        id: "latency".to_owned(),
        method: Method::WholeRun,
        unit: "transfers".to_owned(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value)).collect(),
        metrics: ["latency", "fastest", "spread"].map(metric).into(),
        treatments: choice.pairs.iter().map(of_pair).collect(),
        samples,
    }
}

//! Synthetic memory bandwidth and latency.

use super::measuring::{Arm, Measuring, arm};
use manycore_experiment::record::{Better, Experiment, Metric, id, id::TIMES_CACHES};

/// Kernel, stores, and bytes per second of one worker.
const KERNELS: [(&str, Option<&str>, f64); 9] = [
    ("copy", Some("ordinary"), 9e9),
    ("copy", Some("non-temporal"), 11e9),
    ("scale", Some("ordinary"), 9e9),
    ("scale", Some("non-temporal"), 11e9),
    ("add", Some("ordinary"), 10e9),
    ("add", Some("non-temporal"), 11e9),
    ("triad", Some("ordinary"), 10e9),
    ("triad", Some("non-temporal"), 11e9),
    ("read", None, 12e9),
];

/// Bandwidth of a node in multiples of one worker's.
const MOST: f64 = 5.0;

/// Share of the local bandwidth that remote memory reaches.
const FAR: f64 = 0.6;

/// Nanoseconds of a load from local and from remote memory, idle and under load.
const TIMES: [[f64; 2]; 2] = [[90.0, 240.0], [140.0, 380.0]];

impl Measuring<'_> {
    /// Returns the experiments of the section `stream`.
    pub(super) fn stream(&mut self) -> Vec<Experiment> {
        let per_node = (self.world.cpus / self.world.nodes) as usize;
        let mut counts: Vec<usize> =
            std::iter::successors(Some(1), |&n| Some(n * 2)).take_while(|&n| n < per_node).collect();
        counts.push(per_node);
        let arms = KERNELS.iter().flat_map(|&(kernel, stores, one)| {
            let few = kernel == "triad" || kernel == "read";
            let kept = counts.iter().filter(move |&&count| few || count == per_node);
            kept.map(move |&workers| {
                let named = stores.map_or_else(|| kernel.to_owned(), |stores| format!("{kernel}, {stores}"));
                let factors = [("kernel", kernel)].into_iter().chain(stores.map(|stores| ("stores", stores)));
                let factors: Vec<(&str, &str)> = factors.collect();
                arm(format!("{named} {workers}"), workers, &factors, one * gain(workers))
            })
        });
        let arms: Vec<Arm> = arms.collect();
        let mut kernels = self.slices(id::STREAM, "bytes", arms, 0.05);
        kernels.parameters.extend([("from", "0"), ("to", "0")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        let mut all = vec![kernels, self.reading(per_node), self.loads(per_node)];
        for experiment in &mut all {
            let caches: u64 = 32 << 20;
            let sizes = [("array_bytes", TIMES_CACHES * caches), ("caches_bytes", caches)];
            experiment.parameters.extend(sizes.map(|(name, bytes)| (name.to_owned(), bytes.to_string())));
        }
        all
    }

    fn routes(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let nodes = self.world.nodes;
        (0..nodes).flat_map(move |from| (0..nodes).map(move |to| (from, to)))
    }

    fn reading(&mut self, workers: usize) -> Experiment {
        let arms = self.routes().map(|(from, to)| {
            let share = if from == to { 1.0 } else { FAR };
            let factors = [("from", &*from.to_string()), ("to", &to.to_string())];
            arm(format!("{from} to {to}"), workers, &factors, 12e9 * gain(workers) * share)
        });
        let arms = arms.collect();
        self.slices(id::STREAM_NODES, "bytes", arms, 0.05)
    }

    fn loads(&mut self, workers: usize) -> Experiment {
        let arms = self.routes().flat_map(|(from, to)| {
            let times = TIMES[usize::from(from != to)];
            [("no", 1, times[0]), ("yes", workers, times[1])].map(|(loaded, workers, ns)| {
                let factors = [("from", &*from.to_string()), ("to", &to.to_string()), ("loaded", loaded)];
                arm(format!("{from} to {to}, loaded: {loaded}"), workers, &factors, 1e9 / ns)
            })
        });
        let arms = arms.collect();
        let mut experiment = self.slices(id::STREAM_LATENCY, "loads", arms, 0.05);
        let metric = |name: &str, unit: &str, better| Metric { name: name.into(), unit: unit.into(), better };
        experiment.metrics =
            vec![metric("latency", "ns", Better::Lower), metric("load", "B/s", Better::Higher)];
        for sample in &mut experiment.samples {
            let loaded = experiment.treatments[sample.treatment].workers > 1;
            let others = if loaded { 12e9 * gain(workers - 1) } else { 0.0 };
            sample.values = vec![sample.wall_ns as f64 / sample.work, others];
        }
        experiment
    }
}

/// Returns the bandwidth of this many workers in multiples of one worker's.
fn gain(workers: usize) -> f64 {
    (workers as f64).min(MOST)
}

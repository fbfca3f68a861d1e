//! Synthetic memory bandwidth and latency.

use super::experiments::{Simulation, TrueTreatment, true_treatment};
use manycore_experiment::record::{Direction, Experiment, Metric, id, id::TIMES_CACHES};

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
const SATURATION: f64 = 5.0;

/// Share of the local bandwidth that remote memory reaches.
const REMOTE_SHARE: f64 = 0.6;

/// Nanoseconds of a load from local and from remote memory, idle and under load.
const LOAD_NS: [[f64; 2]; 2] = [[90.0, 240.0], [140.0, 380.0]];

impl Simulation<'_> {
    /// Returns the experiments of the section `stream`.
    pub(super) fn stream(&mut self) -> Vec<Experiment> {
        let per_node = (self.machine.cpus / self.machine.nodes) as usize;
        let mut counts: Vec<usize> =
            std::iter::successors(Some(1), |&n| Some(n * 2)).take_while(|&n| n < per_node).collect();
        counts.push(per_node);
        let treatments = KERNELS.iter().flat_map(|&(kernel, stores, one)| {
            let few = kernel == "triad" || kernel == "read";
            let kept = counts.iter().filter(move |&&count| few || count == per_node);
            kept.map(move |&workers| {
                let named = stores.map_or_else(|| kernel.to_owned(), |stores| format!("{kernel}, {stores}"));
                let factors = [("kernel", kernel)].into_iter().chain(stores.map(|stores| ("stores", stores)));
                let factors: Vec<(&str, &str)> = factors.collect();
                true_treatment(
                    format!("{named} {workers}"),
                    workers,
                    &factors,
                    one * bandwidth_factor(workers),
                )
            })
        });
        let treatments: Vec<TrueTreatment> = treatments.collect();
        let mut kernels = self.slices(id::STREAM, "bytes", treatments, 0.05);
        kernels.parameters.extend([("from", "0"), ("to", "0")].map(|(k, v)| (k.to_owned(), v.to_owned())));
        let mut all = vec![kernels, self.node_bandwidth(per_node), self.node_latency(per_node)];
        for experiment in &mut all {
            let caches: u64 = 32 << 20;
            let sizes = [("array_bytes", TIMES_CACHES * caches), ("caches_bytes", caches)];
            experiment.parameters.extend(sizes.map(|(name, bytes)| (name.to_owned(), bytes.to_string())));
        }
        all
    }

    fn routes(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let nodes = self.machine.nodes;
        (0..nodes).flat_map(move |from| (0..nodes).map(move |to| (from, to)))
    }

    fn node_bandwidth(&mut self, workers: usize) -> Experiment {
        let treatments = self.routes().map(|(from, to)| {
            let share = if from == to { 1.0 } else { REMOTE_SHARE };
            let factors = [("from", &*from.to_string()), ("to", &to.to_string())];
            true_treatment(
                format!("{from} to {to}"),
                workers,
                &factors,
                12e9 * bandwidth_factor(workers) * share,
            )
        });
        let treatments = treatments.collect();
        self.slices(id::STREAM_NODES, "bytes", treatments, 0.05)
    }

    fn node_latency(&mut self, workers: usize) -> Experiment {
        let treatments = self.routes().flat_map(|(from, to)| {
            let times = LOAD_NS[usize::from(from != to)];
            [("no", 1, times[0]), ("yes", workers, times[1])].map(|(loaded, workers, ns)| {
                let factors = [("from", &*from.to_string()), ("to", &to.to_string()), ("loaded", loaded)];
                true_treatment(format!("{from} to {to}, loaded: {loaded}"), workers, &factors, 1e9 / ns)
            })
        });
        let treatments = treatments.collect();
        let mut experiment = self.slices(id::STREAM_LATENCY, "loads", treatments, 0.05);
        let metric = |name: &str, unit: &str, better| Metric { name: name.into(), unit: unit.into(), better };
        experiment.metrics =
            vec![metric("latency", "ns", Direction::Lower), metric("load", "B/s", Direction::Higher)];
        for sample in &mut experiment.samples {
            let loaded = experiment.treatments[sample.treatment].workers > 1;
            let others = if loaded { 12e9 * bandwidth_factor(workers - 1) } else { 0.0 };
            sample.values = vec![sample.wall_ns as f64 / sample.work, others];
        }
        experiment
    }
}

/// Returns the bandwidth of this many workers in multiples of one worker's.
fn bandwidth_factor(workers: usize) -> f64 {
    (workers as f64).min(SATURATION)
}

//! Memory bandwidth by kernel and number of workers, and from the CPUs of each node to the memory of each
//! node: bandwidth, latency, and latency under load.

use super::with_factor;
use manycore_experiment::{
    Record,
    record::{
        Experiment, Sample, Treatment, factor,
        id::{self, TIMES_CACHES},
    },
};
use manycore_stats::{Estimate, median};
use serde::Serialize;
use std::collections::BTreeMap;

/// Memory bandwidth and latency of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryBandwidth {
    /// Bytes of each of the three arrays on a node.
    pub array_bytes: Option<u64>,
    /// Bytes of the last-level caches of the node with the most. `None` where the machine does not report
    /// them.
    pub caches_bytes: Option<u64>,
    /// The node whose CPUs worked in [`MemoryBandwidth::points`], and the node of the memory.
    pub measured_nodes: Option<(u32, u32)>,
    /// Points by kernel, stores and number of workers.
    pub points: Vec<StreamPoint>,
    /// Routes from the CPUs of a node to the memory of a node, by node number.
    pub routes: Vec<NodeRoute>,
}

/// One kernel with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StreamPoint {
    /// `copy`, `scale`, `add`, `triad`, `read`.
    pub kernel: String,
    /// `ordinary` or `non-temporal`. `None` where nothing is stored.
    pub stores: Option<String>,
    /// Concurrent workers, each on its own CPU.
    pub workers: usize,
    /// Bytes per second of all workers in total, counted as in STREAM.
    pub rate: Estimate,
    /// Rate relative to one worker, from pairs of the same block. `None` for one worker.
    pub speedup: Option<Estimate>,
}

/// The route from the CPUs of one node to the memory of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeRoute {
    /// Node of the CPUs.
    pub from: u32,
    /// Node of the memory.
    pub to: u32,
    /// Number of CPUs that read at the same time in [`NodeRoute::rate`].
    pub workers: usize,
    /// Bytes per second that all CPUs of the node read.
    pub rate: Option<Estimate>,
    /// Nanoseconds of a load from a random address while no other CPU works.
    pub idle_ns: Option<Estimate>,
    /// Nanoseconds of a load while all other CPUs of the node read from the same memory.
    pub loaded_ns: Option<Estimate>,
    /// Bytes per second that the other CPUs of the node read while `loaded_ns` was measured.
    pub loaded_bytes_per_second: Option<f64>,
}

impl StreamPoint {
    /// Returns the name of the point: `triad, non-temporal`, `read`.
    pub fn title(&self) -> String {
        match &self.stores {
            Some(stores) => format!("{}, {stores}", self.kernel),
            None => self.kernel.clone(),
        }
    }
}

impl MemoryBandwidth {
    /// Returns whether the arrays are too small relative to the caches.
    pub fn arrays_too_small(&self) -> bool {
        self.array_bytes.zip(self.caches_bytes).is_some_and(|(array, caches)| array < TIMES_CACHES * caches)
    }

    /// Returns the numbers of the nodes of all routes: those of CPUs and those of memory.
    pub fn nodes(&self) -> [Vec<u32>; 2] {
        [|route: &NodeRoute| route.from, |route: &NodeRoute| route.to].map(|side| {
            let mut nodes: Vec<u32> = self.routes.iter().map(side).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        })
    }

    /// Returns the route between two nodes.
    pub fn route(&self, from: u32, to: u32) -> Option<&NodeRoute> {
        self.routes.iter().find(|route| (route.from, route.to) == (from, to))
    }
}

/// Evaluates the stream experiments of a record. Returns `None` where it has none.
pub(crate) fn evaluate(record: &Record) -> Option<MemoryBandwidth> {
    let [kernels, rates, latencies] =
        [id::STREAM, id::STREAM_NODES, id::STREAM_LATENCY].map(|id| record.experiment(id));
    let any = kernels.or(rates).or(latencies)?;
    let number = |name: &str| any.parameters.get(name)?.parse().ok();
    let home = |experiment: &Experiment| {
        let node = |name: &str| experiment.parameters.get(name)?.parse::<u32>().ok();
        node("from").zip(node("to"))
    };
    let mut routes = BTreeMap::new();
    if let Some(experiment) = rates {
        bandwidths(experiment, &mut routes);
    }
    if let Some(experiment) = latencies {
        times(experiment, &mut routes);
    }
    let streaming = MemoryBandwidth {
        array_bytes: number("array_bytes"),
        caches_bytes: number("caches_bytes"),
        measured_nodes: kernels.and_then(home),
        points: kernels.map(points).unwrap_or_default(),
        routes: routes.into_values().collect(),
    };
    Some(streaming).filter(|all| !all.points.is_empty() || !all.routes.is_empty())
}

fn points(experiment: &Experiment) -> Vec<StreamPoint> {
    let of = |treatment: &Treatment, name: &str| treatment.factors.get(name).cloned();
    let treatments = || experiment.treatments.iter().enumerate();
    treatments()
        .filter_map(|(index, treatment)| {
            let (kernel, stores) = (of(treatment, factor::KERNEL)?, of(treatment, factor::STORES));
            let alike = |other: &Treatment| {
                of(other, factor::KERNEL).as_ref() == Some(&kernel) && of(other, factor::STORES) == stores
            };
            let one = treatments()
                .find(|(_, other)| other.workers == 1 && alike(other))
                .map(|(one, _)| one)
                .filter(|&one| one != index);
            let over = |one| Estimate::from_samples(&experiment.log_ratios(one, index));
            Some(StreamPoint {
                workers: treatment.workers,
                rate: Estimate::from_samples(&experiment.rates(index))?,
                speedup: one.and_then(over).map(|ratio| ratio.map(f64::exp)),
                kernel,
                stores,
            })
        })
        .collect()
}

/// Returns the route of a treatment, and inserts an empty one at its first treatment.
fn route<'a>(
    treatment: &Treatment,
    routes: &'a mut BTreeMap<(u32, u32), NodeRoute>,
) -> Option<&'a mut NodeRoute> {
    let node = |name: &str| treatment.factors.get(name)?.parse::<u32>().ok();
    let (from, to) = (node(factor::FROM_NODE)?, node(factor::TO_NODE)?);
    let empty = NodeRoute {
        from,
        to,
        workers: treatment.workers,
        rate: None,
        idle_ns: None,
        loaded_ns: None,
        loaded_bytes_per_second: None,
    };
    Some(routes.entry((from, to)).or_insert(empty))
}

fn bandwidths(experiment: &Experiment, routes: &mut BTreeMap<(u32, u32), NodeRoute>) {
    for (index, treatment) in experiment.treatments.iter().enumerate() {
        let rate = Estimate::from_samples(&experiment.rates(index));
        if let Some(route) = route(treatment, routes).filter(|_| rate.is_some()) {
            (route.rate, route.workers) = (rate, treatment.workers);
        }
    }
}

fn times(experiment: &Experiment, routes: &mut BTreeMap<(u32, u32), NodeRoute>) {
    for loaded in ["no", "yes"] {
        for index in with_factor(experiment, factor::LOADED, loaded) {
            // A load that did not complete in a slice took at least as long as the slice. Leaving it out
            // would make loads look faster than they are.
            let time = |sample: &Sample| {
                if sample.work > 0.0 { sample.values.first().copied() } else { Some(sample.wall_ns as f64) }
            };
            let samples = || experiment.samples_of(index);
            let times: Vec<f64> = samples().filter_map(time).collect();
            let loads: Vec<f64> = samples().filter_map(|sample| sample.values.get(1).copied()).collect();
            let (time, load) = (Estimate::from_samples(&times), median(&loads));
            let Some(route) = route(&experiment.treatments[index], routes).filter(|_| time.is_some()) else {
                continue;
            };
            match loaded {
                "yes" => (route.loaded_ns, route.loaded_bytes_per_second) = (time, load),
                _ => route.idle_ns = time,
            }
        }
    }
}

#[cfg(test)]
mod tests;

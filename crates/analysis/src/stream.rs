//! Memory bandwidth by kernel and number of workers, and from the CPUs of each node to the memory of each: bandwidth,
//! latency, and latency under load.

use super::with_factor;
use manycore_experiment::record::id::{self, TIMES_CACHES};
use manycore_experiment::{
    Record,
    record::{Experiment, Sample, Treatment},
};
use manycore_stats::{Estimate, median};
use serde::Serialize;
use std::collections::BTreeMap;

/// What was measured of the memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Streaming {
    /// Bytes of each of the three arrays on a node.
    pub array_bytes: Option<u64>,
    /// Bytes of the last-level caches of the node that has the most; absent where the machine does not tell.
    pub caches_bytes: Option<u64>,
    /// The node whose CPUs worked in [`Streaming::points`], and the one whose memory they worked on.
    pub home: Option<(u32, u32)>,
    /// By kernel, stores and number of workers.
    pub points: Vec<StreamPoint>,
    /// From the CPUs of a node to the memory of a node, by number.
    pub routes: Vec<Route>,
}

/// One kernel with one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamPoint {
    /// `copy`, `scale`, `add`, `triad`, `read`.
    pub kernel: String,
    /// `ordinary` or `non-temporal`; absent where nothing is stored.
    pub stores: Option<String>,
    /// Workers at once, each on a CPU of its own.
    pub workers: usize,
    /// Bytes per second of all together, as STREAM counts them.
    pub rate: Estimate,
    /// Rate over that of one worker, from pairs of the same block; absent for one.
    pub over_one: Option<Estimate>,
}

/// From the CPUs of one node to the memory of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Route {
    /// Node of the CPUs.
    pub from: u32,
    /// Node of the memory.
    pub to: u32,
    /// CPUs that read at once in [`Route::rate`].
    pub workers: usize,
    /// Bytes per second that all CPUs of the node read.
    pub rate: Option<Estimate>,
    /// Nanoseconds of a load from a random place while nobody else works.
    pub idle_ns: Option<Estimate>,
    /// The same while all other CPUs of the node read from there.
    pub loaded_ns: Option<Estimate>,
    /// Bytes per second that those read meanwhile.
    pub load: Option<f64>,
}

impl StreamPoint {
    /// `triad, non-temporal`, `read`.
    pub fn title(&self) -> String {
        match &self.stores {
            Some(stores) => format!("{}, {stores}", self.kernel),
            None => self.kernel.clone(),
        }
    }
}

impl Streaming {
    /// Whether the arrays are smaller than they should be beside the caches.
    pub fn cached(&self) -> bool {
        self.array_bytes.zip(self.caches_bytes).is_some_and(|(array, caches)| array < TIMES_CACHES * caches)
    }

    /// The numbers of the nodes that have a part in routes: those of CPUs and those of memory.
    pub fn nodes(&self) -> [Vec<u32>; 2] {
        [|route: &Route| route.from, |route: &Route| route.to].map(|side| {
            let mut nodes: Vec<u32> = self.routes.iter().map(side).collect();
            nodes.sort_unstable();
            nodes.dedup();
            nodes
        })
    }

    /// The route between two nodes.
    pub fn route(&self, from: u32, to: u32) -> Option<&Route> {
        self.routes.iter().find(|route| (route.from, route.to) == (from, to))
    }
}

/// Judges what a record has of it; absent where it has nothing.
pub(crate) fn judge(record: &Record) -> Option<Streaming> {
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
    let streaming = Streaming {
        array_bytes: number("array_bytes"),
        caches_bytes: number("caches_bytes"),
        home: kernels.and_then(home),
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
            let (kernel, stores) = (of(treatment, "kernel")?, of(treatment, "stores"));
            let alike = |other: &Treatment| {
                of(other, "kernel").as_ref() == Some(&kernel) && of(other, "stores") == stores
            };
            let one = treatments()
                .find(|(_, other)| other.workers == 1 && alike(other))
                .map(|(one, _)| one)
                .filter(|&one| one != index);
            let over = |one| Estimate::of(&experiment.log_ratios(one, index));
            Some(StreamPoint {
                workers: treatment.workers,
                rate: Estimate::of(&experiment.rates(index))?,
                over_one: one.and_then(over).map(|ratio| ratio.map(f64::exp)),
                kernel,
                stores,
            })
        })
        .collect()
}

/// The route of a treatment, empty where it is the first of it.
fn route<'a>(treatment: &Treatment, routes: &'a mut BTreeMap<(u32, u32), Route>) -> Option<&'a mut Route> {
    let node = |name: &str| treatment.factors.get(name)?.parse::<u32>().ok();
    let (from, to) = (node("from")?, node("to")?);
    let empty = Route {
        from,
        to,
        workers: treatment.workers,
        rate: None,
        idle_ns: None,
        loaded_ns: None,
        load: None,
    };
    Some(routes.entry((from, to)).or_insert(empty))
}

fn bandwidths(experiment: &Experiment, routes: &mut BTreeMap<(u32, u32), Route>) {
    for (index, treatment) in experiment.treatments.iter().enumerate() {
        let rate = Estimate::of(&experiment.rates(index));
        if let Some(route) = route(treatment, routes).filter(|_| rate.is_some()) {
            (route.rate, route.workers) = (rate, treatment.workers);
        }
    }
}

fn times(experiment: &Experiment, routes: &mut BTreeMap<(u32, u32), Route>) {
    for loaded in ["no", "yes"] {
        for index in with_factor(experiment, "loaded", loaded) {
            // In a slice without a load, one took as long as the slice at least: left out, it would make loads look
            // faster than they are.
            let time = |sample: &Sample| {
                if sample.work > 0.0 { sample.values.first().copied() } else { Some(sample.wall_ns as f64) }
            };
            let samples = || experiment.samples_of(index);
            let times: Vec<f64> = samples().filter_map(time).collect();
            let loads: Vec<f64> = samples().filter_map(|sample| sample.values.get(1).copied()).collect();
            let (time, load) = (Estimate::of(&times), median(&loads));
            let Some(route) = route(&experiment.treatments[index], routes).filter(|_| time.is_some()) else {
                continue;
            };
            match loaded {
                "yes" => (route.loaded_ns, route.load) = (time, load),
                _ => route.idle_ns = time,
            }
        }
    }
}

#[cfg(test)]
mod tests;

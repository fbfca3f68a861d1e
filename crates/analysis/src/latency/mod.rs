//! Core-to-core latency: the figure of each pair of CPUs, by what the two CPUs share, and where the figures
//! contradict the topology that the kernel reports.

mod contradictions;

pub use contradictions::{CpuGrouping, DistantCpu};

use manycore_experiment::{
    ping_pong::Visits,
    record::{Experiment, factor},
};
use manycore_stats::{Estimate, median, quantile};
use manycore_topology::{
    cpuset::{CpuId, CpuSet},
    distance::TopologyDistance,
    machine::Machine,
    pairs,
};
use serde::Serialize;

/// Minimum number of pairs from which the noise of figures is known.
const MIN_PAIRS: usize = 6;

/// The latency matrix.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreLatency {
    /// CPUs whose pairs were measured.
    pub cpus: CpuSet,
    /// Number of possible pairs of these CPUs.
    pub possible_pairs: usize,
    /// How pairs were chosen where not all were measured.
    pub pair_selection: Option<String>,
    /// Maximum number of visits to a pair.
    pub max_visits: usize,
    /// Maximum relative difference of 95 % of the figures in another run like this one: half of the
    /// difference between the figures of even and odd visits. `None` where there are too few pairs or
    /// visits to estimate it.
    pub noise: Option<f64>,
    /// The pairs by what their CPUs share, nearest first.
    pub distances: Vec<DistanceLatency>,
    /// Groups of CPUs that are nearer to each other than to the rest, and that the kernel does not report.
    pub unreported_groups: Vec<CpuGrouping>,
    /// CPUs that are far from all others.
    pub distant_cpus: Vec<DistantCpu>,
    /// Pairs of distances that differ in name only: pairs of CPUs at the first have the same latency as
    /// pairs at the second.
    pub equal_distances: Vec<(TopologyDistance, TopologyDistance)>,
    /// Every measured pair, sorted by CPU numbers.
    pub pairs: Vec<PairLatency>,
}

/// One pair of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PairLatency {
    /// The lower CPU number.
    pub a: CpuId,
    /// The higher CPU number.
    pub b: CpuId,
    /// What the two CPUs share.
    pub distance: TopologyDistance,
    /// Core-to-core latency (one way) in nanoseconds: the median over visits of the median burst of each
    /// visit. A visit without a figure counts as longer than all others.
    pub latency_ns: f64,
    /// The fastest burst of all visits, in nanoseconds.
    pub fastest_ns: f64,
    /// Interquartile range of the bursts of a visit, in nanoseconds; the median over visits.
    pub spread_ns: f64,
    /// 95 % interval of the median over visits, in nanoseconds. `None` where there were too few visits.
    pub interval_ns: Option<(f64, f64)>,
    /// Number of visits that gave a figure.
    pub visits: usize,
}

/// The pairs at one distance.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistanceLatency {
    /// What their CPUs share.
    pub distance: TopologyDistance,
    /// Number of measured pairs.
    pub pairs: usize,
    /// Median of their figures in nanoseconds.
    pub median_ns: f64,
    /// Quartiles of their figures in nanoseconds.
    pub quartiles_ns: (f64, f64),
    /// Smallest and largest figure in nanoseconds.
    pub range_ns: (f64, f64),
}

/// Evaluates the experiment. Returns `None` where no pair has a figure.
pub(crate) fn evaluate(experiment: &Experiment, machine: &Machine) -> Option<CoreLatency> {
    let visits = Visits::by_pair(experiment);
    let mut measured: Vec<(PairLatency, Vec<f64>)> = experiment
        .treatments
        .iter()
        .zip(&visits)
        .filter_map(|(treatment, visits)| {
            let cpu = |name: &str| treatment.factors.get(name)?.parse::<CpuId>().ok();
            let (a, b) = (cpu(factor::FIRST_CPU)?, cpu(factor::SECOND_CPU)?);
            pair(machine, (a.min(b), a.max(b)), visits)
        })
        .collect();
    measured.sort_by_key(|(pair, _)| (pair.a, pair.b));
    measured.dedup_by_key(|(pair, _)| (pair.a, pair.b));
    let noise = noise(&measured);
    let pairs: Vec<PairLatency> = measured.into_iter().map(|(pair, _)| pair).collect();
    let cpus: CpuSet = pairs.iter().flat_map(|pair| [pair.a, pair.b]).collect();
    let named = experiment.parameters.get("cpus").and_then(|cpus| cpus.parse::<CpuSet>().ok());
    let distances = distances(&pairs);
    let found =
        noise.map(|noise| contradictions::find(machine, &pairs, &distances, noise)).unwrap_or_default();
    (!pairs.is_empty()).then(|| CoreLatency {
        possible_pairs: pairs::possible(named.as_ref().unwrap_or(&cpus).len()),
        pair_selection: experiment.parameters.get("rule").cloned(),
        max_visits: visits.iter().map(|visits| visits.with_figure.len()).max().unwrap_or(0),
        cpus,
        noise,
        distances,
        unreported_groups: found.unreported_groups,
        distant_cpus: found.distant_cpus,
        equal_distances: found.equal_distances,
        pairs,
    })
}

/// Returns the figures of a pair, and the medians of its visits in the order taken. `None` where the visits
/// do not suffice.
fn pair(machine: &Machine, (a, b): (CpuId, CpuId), visits: &Visits) -> Option<(PairLatency, Vec<f64>)> {
    if a == b || !visits.suffice() {
        return None;
    }
    let values =
        |index: usize| visits.with_figure.iter().map(|sample| sample.values[index]).collect::<Vec<f64>>();
    let medians = values(0);
    let pair = PairLatency {
        a,
        b,
        distance: TopologyDistance::between(machine, a, b),
        latency_ns: median_with_larger(&medians, visits.without_figure)?,
        fastest_ns: quantile(&values(1), 0.0)?,
        spread_ns: median_with_larger(&values(2), visits.without_figure)?,
        interval_ns: Estimate::from_samples(&medians).and_then(|estimate| estimate.interval),
        visits: visits.with_figure.len(),
    };
    Some((pair, medians))
}

/// Returns the median of `values` and `larger` further values that are only known to be larger. `None`
/// where the median is one of those.
fn median_with_larger(values: &[f64], larger: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let all = sorted.len() + larger;
    let (low, high) = (all.checked_sub(1)? / 2, all / 2);
    Some(f64::midpoint(*sorted.get(low)?, *sorted.get(high)?))
}

fn noise(measured: &[(PairLatency, Vec<f64>)]) -> Option<f64> {
    let half = |visits: &[f64], first: usize| {
        median(&visits.iter().skip(first).step_by(2).copied().collect::<Vec<f64>>())
    };
    let differences: Vec<f64> = measured
        .iter()
        .filter_map(|(_, visits)| Some((half(visits, 0)? / half(visits, 1)?).ln().abs()))
        .collect();
    // A figure rests on twice the visits of a half, and the difference of halves has the error of two.
    quantile(&differences, 0.95).filter(|_| differences.len() >= MIN_PAIRS).map(|most| (most / 2.0).exp_m1())
}

fn distances(pairs: &[PairLatency]) -> Vec<DistanceLatency> {
    TopologyDistance::ALL
        .into_iter()
        .filter_map(|distance| {
            let of = |pair: &&PairLatency| pair.distance == distance;
            let figures: Vec<f64> = pairs.iter().filter(of).map(|pair| pair.latency_ns).collect();
            let at = |q: f64| quantile(&figures, q);
            Some(DistanceLatency {
                distance,
                pairs: figures.len(),
                median_ns: at(0.5)?,
                quartiles_ns: (at(0.25)?, at(0.75)?),
                range_ns: (at(0.0)?, at(1.0)?),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;

//! How many instances of a service fit while the latency of the observed one is within a bound, for each variant.
//!
//! The search of the measurement (`manycore_stats::largest_count`) is repeated on the samples of the record, so the answer
//! follows from the record alone.

mod difference;

pub use difference::{DensityAnswer, DensityDifference};

use crate::{ResourcePair, ResourceTrends, requests::tail_of};
use manycore_experiment::{
    record::{CLIENT_PART, Experiment, Metric, Resource, Sample, Treatment, factor, parameter},
    tail_bound::TailBound,
};
use manycore_stats::{
    Estimate,
    largest_count::{LargestCount, Position, Search, SearchOptions},
    mean, median,
};
use manycore_text::names::printable;
use serde::Serialize;
use std::{collections::BTreeMap, str::FromStr};

/// The density of a service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Density {
    /// The bound, as text: `p99 < +10%`.
    pub bound: String,
    /// What is bounded: `p99`.
    pub figure: String,
    /// The largest ratio of the figure to that of the lone instance (or to an absolute limit) that is within the bound.
    pub ratio_limit: f64,
    /// The limit of the figure in ms, where it is absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<f64>,
    /// The largest number of instances that was to be measured.
    pub most: usize,
    /// The largest number of pairs of a variant.
    pub most_pairs: usize,
    /// Requests per second of each instance. Absent where the client has a rate of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Requests per second that a lone instance served in a closed loop, where that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// The request that each instance gets, or the command of its client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Connections to each instance. Absent where the client has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// CPUs that each instance may use at most, where that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<f64>,
    /// Memory that each instance may use at most in bytes, where that is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// The hosts of the loads, with commas between. Absent where loads run on the measured machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_hosts: Option<String>,
    /// Whether the scheduler could move the loads: they have neither CPUs nor hosts of their own.
    pub are_loads_free: bool,
    /// The variants, the reference first.
    pub variants: Vec<VariantDensity>,
    /// The other variants relative to the first one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<DensityDifference>,
}

/// The density of one variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantDensity {
    /// Its label: `A`.
    pub variant: String,
    /// The user's name for it, or its label.
    pub label: String,
    /// What it is: `place=close`. Empty where there is one variant only.
    pub description: String,
    /// Whether the scheduler could move the instances: they have no places.
    pub are_instances_free: bool,
    /// The largest number of instances within the bound.
    pub answer: LargestCount,
    /// Whether the search has ended by itself. Otherwise more pairs would narrow the interval.
    pub is_complete: bool,
    /// The figure of the lone instance in ms.
    pub alone_ms: Option<Estimate>,
    /// What was measured at each count, in ascending order.
    pub counts: Vec<InstanceCount>,
    /// The counts in the order in which they were visited, for the path of the search.
    pub path: Vec<usize>,
    /// Number of pairs of slices.
    pub pairs: usize,
    /// How resources move with the figure over the counts.
    pub resources: ResourceTrends,
    /// Share of the latency of the observed instance that is its client's own, at each count in percent.
    pub client_part: Vec<(usize, f64)>,
    /// Latency and share of the requests that took longer, at a few counts: the lone instance, the last count within the
    /// bound and the first one above it.
    pub tails: Vec<CountTail>,
}

/// The latencies of the observed instance at a count.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountTail {
    /// The number of instances.
    pub count: usize,
    /// Latency in ms, and share of the requests that took longer. All slices together.
    pub curve: Vec<(f64, f64)>,
}

/// A number of instances.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstanceCount {
    /// The number.
    pub count: usize,
    /// Whether it is within the bound.
    pub position: Position,
    /// Whether an instance or a request failed at this count, which is above the bound therefore.
    pub has_failed: bool,
    /// Why, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Number of samples.
    pub pairs: usize,
    /// The figure of the observed instance in ms.
    pub figure_ms: Option<Estimate>,
    /// The figure over that of the lone instance of the same pair, or over an absolute limit: geometric mean.
    pub ratio: Option<f64>,
    /// Interval of the ratio by which the position is decided, at 99 %. The noise is estimated over all counts.
    pub interval: Option<(f64, f64)>,
}

impl Density {
    /// Begins a title or a sentence about one of several variants; empty where there is only one.
    pub fn prefix(&self, variant: &VariantDensity) -> String {
        if self.variants.len() > 1 { format!("{}: ", variant.label) } else { String::new() }
    }

    /// Whether the search of a variant could have gone on with more pairs.
    pub fn is_open(&self, variant: &VariantDensity) -> bool {
        let LargestCount { low, high, .. } = variant.answer;
        variant.pairs >= self.most_pairs && high.is_none_or(|high| high > low) && low < self.most
    }
}

/// Returns the density of each variant; `None` where the record has no valid bound.
pub(crate) fn evaluate(experiment: &Experiment) -> Option<Density> {
    let parameter = |name: &str| experiment.parameters.get(name);
    let bound: TailBound = parameter(parameter::BOUND)?.parse().ok()?;
    let number = |name: &str| parameter(name).and_then(|text| f64::from_str(text).ok());
    let options = SearchOptions {
        bound: bound.log_limit(),
        first: bound.first_count(),
        most: parameter(parameter::MOST_INSTANCES)?.parse().ok()?,
        samples: parameter(parameter::PAIRS)?.parse().ok()?,
    };
    let mut labels: Vec<&str> = Vec::new();
    for treatment in &experiment.treatments {
        let label = treatment.variant().unwrap_or("A");
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels.sort_unstable();
    let variants: Vec<VariantDensity> =
        labels.iter().map(|label| of_variant(experiment, label, &bound, options)).collect();
    let differences = variants.split_first().map(|(first, others)| difference::all(first, others));
    Some(Density {
        bound: bound.to_string(),
        figure: bound.figure.to_string(),
        ratio_limit: options.bound.exp(),
        limit_ms: bound.limit_ms(),
        most: options.most,
        most_pairs: options.samples,
        rate: number(parameter::RATE),
        capacity: number(parameter::CAPACITY),
        request: parameter(parameter::REQUEST).filter(|text| !text.is_empty()).cloned(),
        connections: parameter(parameter::CONNECTIONS).and_then(|text| text.parse().ok()),
        cpu_limit: number(parameter::INSTANCE_CPUS),
        memory_limit_bytes: parameter(parameter::INSTANCE_MEMORY).and_then(|text| text.parse().ok()),
        load_hosts: parameter(parameter::LOAD_HOSTS).cloned(),
        are_loads_free: parameter(parameter::LOAD_CPUS).or(parameter(parameter::LOAD_HOSTS)).is_none(),
        differences: differences.unwrap_or_default(),
        variants,
    })
}

/// One pair of slices of a variant.
struct Pair<'a> {
    count: usize,
    /// Absent where the count is 1.
    alone: Option<&'a Sample>,
    all: &'a Sample,
}

/// Returns the pairs of a variant in the order in which they were measured.
fn pairs<'a>(experiment: &'a Experiment, label: &str) -> Vec<Pair<'a>> {
    let is_of = |treatment: &Treatment| treatment.variant().unwrap_or("A") == label;
    let mut blocks: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    for sample in &experiment.samples {
        if experiment.treatments.get(sample.treatment).is_some_and(is_of) {
            blocks.entry(sample.block).or_default().push(sample);
        }
    }
    let workers = |sample: &Sample| experiment.treatments[sample.treatment].workers;
    let pair = |samples: Vec<&'a Sample>| match samples[..] {
        [one] => Some(Pair { count: workers(one), alone: None, all: one }),
        [one, other] if workers(one) < workers(other) => {
            Some(Pair { count: workers(other), alone: Some(one), all: other })
        }
        [one, other] => Some(Pair { count: workers(one), alone: Some(other), all: one }),
        _ => None,
    };
    blocks.into_values().filter_map(pair).collect()
}

fn of_variant(
    experiment: &Experiment,
    label: &str,
    bound: &TailBound,
    options: SearchOptions,
) -> VariantDensity {
    let mut pairs = pairs(experiment, label);
    // Others cannot have been measured.
    pairs.retain(|pair| (options.first..=options.most).contains(&pair.count));
    let figure = |sample: &Sample| sample.values.first().copied().filter(|&value| value > 0.0);
    let mut search = Search::new(options);
    let mut path = Vec::new();
    for pair in &pairs {
        if path.last() != Some(&pair.count) {
            path.push(pair.count);
        }
        let alone = pair.alone.and_then(figure).unwrap_or_default();
        match figure(pair.all).filter(|_| !experiment.is_failure(pair.all)) {
            Some(value) => {
                bound.sample(alone, value).into_iter().for_each(|sample| search.add(pair.count, sample));
            }
            None => search.fail(pair.count),
        }
    }
    let alone: Vec<f64> = pairs
        .iter()
        .filter_map(|pair| pair.alone.or((pair.count == 1).then_some(pair.all)))
        .filter_map(figure)
        .collect();
    let first = experiment.treatments.iter().find(|treatment| treatment.variant().unwrap_or("A") == label);
    let description =
        first.and_then(|treatment| treatment.factors.get(factor::COMMAND)).cloned().unwrap_or_default();
    let is_placed = description
        .split(',')
        .any(|item| item == "vm=plan" || item.starts_with("place=") && item != "place=free");
    VariantDensity {
        are_instances_free: !is_placed,
        variant: label.to_owned(),
        label: first.map_or(label, Treatment::title).to_owned(),
        description,
        answer: search.answer(),
        is_complete: search.next_count().is_none(),
        alone_ms: Estimate::from_samples(&alone),
        counts: counts(experiment, &pairs, &search),
        resources: resources(experiment, &pairs),
        client_part: client_part(experiment, &pairs),
        tails: tails(experiment, &pairs, search.answer()),
        path,
        pairs: pairs.len(),
    }
}

/// Returns the positions of the metrics that are figures of resources.
fn resource_columns(experiment: &Experiment) -> Vec<(usize, &Metric)> {
    let all = experiment.metrics.iter().enumerate();
    all.filter(|(_, metric)| Resource::from_name(&metric.name).is_some()).collect()
}

fn resources(experiment: &Experiment, pairs: &[Pair]) -> ResourceTrends {
    let columns = resource_columns(experiment);
    let figure = |sample: &Sample| sample.values.first().copied().unwrap_or_default();
    let pair = |pair: &Pair| {
        let alone = pair.alone.filter(|_| !experiment.is_failure(pair.all))?;
        let values = columns.iter().map(|&(at, _)| (alone.values[at], pair.all.values[at]));
        let tail = (figure(pair.all) / figure(alone)).ln();
        Some(ResourcePair { count: pair.count, tail, values: values.collect() })
    };
    let metrics: Vec<Metric> = columns.iter().map(|&(_, metric)| metric.clone()).collect();
    ResourceTrends::new(&metrics, &pairs.iter().filter_map(pair).collect::<Vec<_>>())
}

fn client_part(experiment: &Experiment, pairs: &[Pair]) -> Vec<(usize, f64)> {
    let Some(at) = experiment.metrics.iter().position(|metric| metric.name == CLIENT_PART) else {
        return Vec::new();
    };
    let mut shares: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| !experiment.is_failure(pair.all)) {
        shares.entry(pair.count).or_default().push(pair.all.values[at]);
        shares.entry(1).or_default().extend(pair.alone.map(|alone| alone.values[at]));
    }
    shares.into_iter().filter_map(|(count, shares)| Some((count, median(&shares)?))).collect()
}

fn tails(experiment: &Experiment, pairs: &[Pair], answer: LargestCount) -> Vec<CountTail> {
    let of = |count: usize| {
        let alone = pairs.iter().filter_map(|pair| pair.alone).filter(|_| count == 1);
        let all = pairs.iter().filter(|pair| pair.count == count).map(|pair| pair.all);
        let samples = alone.chain(all).filter(|sample| !experiment.is_failure(sample));
        let curve = tail_of(samples.flat_map(|sample| &sample.requests).collect());
        (!curve.is_empty()).then_some(CountTail { count, curve })
    };
    let measured = |range: std::ops::Range<usize>| {
        pairs.iter().map(|pair| pair.count).filter(move |count| range.contains(count))
    };
    let within = measured(2..answer.low.saturating_add(1)).max();
    // A count that failed has no latencies of all its instances.
    let has_failed =
        |count: &usize| pairs.iter().any(|pair| pair.count == *count && experiment.is_failure(pair.all));
    let above =
        answer.high.and_then(|high| measured(high + 1..usize::MAX).min()).filter(|count| !has_failed(count));
    [Some(1), within, above].into_iter().flatten().filter_map(of).collect()
}

fn counts(experiment: &Experiment, pairs: &[Pair], search: &Search) -> Vec<InstanceCount> {
    let count = |(&count, visit): (&usize, &manycore_stats::largest_count::Visit)| {
        let all: Vec<&Sample> =
            pairs.iter().filter(|pair| pair.count == count).map(|pair| pair.all).collect();
        let failed = all.iter().find(|sample| experiment.is_failure(sample));
        let reason = |sample: &&Sample| {
            experiment.treatments[sample.treatment].factors.get(factor::FAILURE).map(|why| printable(why))
        };
        let figures: Vec<f64> = all
            .iter()
            .filter(|sample| !experiment.is_failure(sample))
            .filter_map(|sample| sample.values.first().copied())
            .collect();
        InstanceCount {
            count,
            position: visit.position,
            has_failed: failed.is_some(),
            failure: failed.and_then(reason),
            pairs: visit.samples.len(),
            figure_ms: Estimate::from_samples(&figures),
            ratio: mean(&visit.samples).map(f64::exp),
            interval: visit.interval.map(|(low, high)| (low.exp(), high.exp())),
        }
    };
    search.visits().iter().map(count).collect()
}

#[cfg(test)]
mod tests;

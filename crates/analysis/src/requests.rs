//! The requests of each variant over all of its runs, and how their quantiles compare with those of the reference.
//!
//! Requests of one run are not independent: they share its stalls, placement and state of the machine. Millions of them
//! would make any difference between two runs look certain. The run is therefore the unit: each run has one quantile of
//! its requests. Their median over the runs has an exact interval (order statistics), and the ratio to the reference is
//! that of pairs of the same block, with the signed-rank test as for the other metrics. All quantiles of all variants
//! hold jointly (Holm) at the level of the analysis. The merged quantile of all requests has no interval.

mod curve;

use crate::Statistic;
use curve::Curve;
use manycore_experiment::record::{Experiment, RequestTimes};
use manycore_stats::{
    Estimate, FAMILY_LEVEL, holm_divisors, median, median_interval, signed_rank_p,
    verdict::{Answer, DecisionRule, Verdict},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The quantiles that are compared: name and share.
pub const REQUEST_QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The requests of one kind of one variant, over all of its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestDistribution {
    /// The user's name of the variant, or its label: `A`.
    pub label: String,
    /// Index of its treatment.
    pub treatment: usize,
    /// Kind of the requests where the load generator tells them apart: `get`. Otherwise empty.
    pub name: String,
    /// Unit of the latencies: `ms`, or empty where it is unknown.
    pub unit: String,
    /// Number of runs with such requests.
    pub runs: usize,
    /// Number of requests of all runs.
    pub requests: u64,
    /// Largest latency of all requests, as far as the load generator prints it.
    pub max: f64,
    /// The quantiles that the output of the load generator resolves.
    pub quantiles: Vec<RequestQuantile>,
    /// Names of the quantiles that it does not resolve: `p99.9` with wrk, which prints nothing between p99 and the maximum.
    pub unresolved: Vec<String>,
    /// The merged distribution: latency, and share of the requests that took longer.
    pub curve: Vec<(f64, f64)>,
}

/// A quantile of the requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestQuantile {
    /// `p50`, `p90`, `p99` or `p99.9`.
    pub name: String,
    /// Quantile of the requests of all runs together.
    pub merged: f64,
    /// Median over the runs of the quantile of each run, with its exact 95 % interval.
    pub per_run: Statistic,
    /// Quantile of the variant over that of the reference, from the runs of the same block. The interval holds jointly for
    /// all quantiles of all variants. `None` for the reference.
    pub ratio: Option<Estimate>,
    /// What the interval shows, with less being better. `None` for the reference.
    pub answer: Option<Answer>,
}

/// Returns the requests of each variant and kind, in the order of the treatments. Empty where no run has any.
pub(crate) fn evaluate(experiment: &Experiment) -> Vec<RequestDistribution> {
    let names: BTreeSet<(&str, &str)> = experiment
        .samples
        .iter()
        .flat_map(|sample| &sample.requests)
        .map(|times| (times.name.as_str(), times.unit.as_str()))
        .collect();
    let mut all = Vec::new();
    for kind in names {
        all.extend(experiment.variants().filter_map(|treatment| of_treatment(experiment, treatment, kind)));
    }
    compare(experiment, &mut all);
    all
}

/// Returns the merged distribution: latency, and share of the requests that took longer. Empty without requests.
pub(crate) fn tail_of(parts: Vec<&RequestTimes>) -> Vec<(f64, f64)> {
    Curve::new(parts).tail()
}

/// Returns the curve of each run with requests of this kind, by block.
fn runs<'a>(
    experiment: &'a Experiment,
    treatment: usize,
    (name, unit): (&str, &str),
) -> BTreeMap<usize, Curve<'a>> {
    let mut by_block = BTreeMap::new();
    for sample in experiment.samples_of(treatment) {
        let of_kind = |times: &&RequestTimes| times.name == name && times.unit == unit;
        let times: Vec<&RequestTimes> = sample.requests.iter().filter(of_kind).collect();
        if !times.is_empty() {
            by_block.insert(sample.block, Curve::new(times));
        }
    }
    by_block
}

fn of_treatment(
    experiment: &Experiment,
    treatment: usize,
    kind: (&str, &str),
) -> Option<RequestDistribution> {
    let runs = runs(experiment, treatment, kind);
    let merged = Curve::merged(runs.values());
    let is_resolved = |share: f64| runs.values().all(|run| run.resolves(share));
    let quantile = |(name, share): (&str, f64)| {
        let each: Vec<f64> = runs.values().filter_map(|run| run.quantile(share)).collect();
        Some(RequestQuantile {
            name: name.to_owned(),
            merged: merged.quantile(share)?,
            per_run: Statistic {
                value: median(&each)?,
                interval: median_interval(&each, 1.0 - FAMILY_LEVEL),
            },
            ratio: None,
            answer: None,
        })
    };
    let (resolved, unresolved): (Vec<_>, Vec<_>) =
        REQUEST_QUANTILES.into_iter().partition(|(_, share)| is_resolved(*share));
    Some(RequestDistribution {
        label: experiment.treatments[treatment].title().to_owned(),
        treatment,
        name: kind.0.to_owned(),
        unit: kind.1.to_owned(),
        runs: runs.len(),
        requests: merged.count(),
        max: merged.max()?,
        quantiles: resolved.into_iter().filter_map(quantile).collect(),
        unresolved: unresolved.into_iter().map(|(name, _)| name.to_owned()).collect(),
        curve: merged.tail(),
    })
}

/// Adds the ratios to the reference.
fn compare(experiment: &Experiment, all: &mut [RequestDistribution]) {
    let Some(reference) = experiment.reference().filter(|&one| !experiment.all_failed(one)) else { return };
    let rule = DecisionRule::from_parameters(&experiment.parameters);
    let mut found: Vec<((usize, usize), Vec<f64>)> = Vec::new();
    for (index, one) in all.iter().enumerate().filter(|(_, one)| one.treatment != reference) {
        if experiment.all_failed(one.treatment) {
            continue;
        }
        let kind = (one.name.as_str(), one.unit.as_str());
        let (a, b) = (runs(experiment, reference, kind), runs(experiment, one.treatment, kind));
        for (at, quantile) in one.quantiles.iter().enumerate() {
            let share = share(&quantile.name);
            if !a.values().all(|run| run.resolves(share)) {
                continue;
            }
            let ratio = |(block, b): (&usize, &Curve)| {
                let ratio = a.get(block)?.quantile(share)? / b.quantile(share)?;
                (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
            };
            found.push(((index, at), b.iter().filter_map(ratio).collect()));
        }
    }
    found.retain(|(_, ratios)| !ratios.is_empty());
    let p_values: Vec<f64> = found.iter().map(|(_, ratios)| signed_rank_p(ratios)).collect();
    let divisors = holm_divisors(&p_values, rule.level);
    for (((index, at), ratios), divisor) in found.into_iter().zip(divisors) {
        let Some(verdict) = Verdict::new(&ratios, rule.divided_by(divisor), None) else { continue };
        let of_rates = Estimate { median: verdict.ratio, interval: verdict.interval, n: verdict.pairs };
        let quantile = &mut all[index].quantiles[at];
        quantile.ratio = Some(of_rates.map(|ratio| 1.0 / ratio));
        quantile.answer = Some(verdict.answer);
    }
}

fn share(name: &str) -> f64 {
    REQUEST_QUANTILES.into_iter().find(|(known, _)| *known == name).map_or(0.5, |(_, share)| share)
}

#[cfg(test)]
mod tests;

//! The JSON of hyperfine's `--export-json`, for its scripts: times in seconds, memory in bytes.
//!
//! `user` and `system` are means, as those of hyperfine; `null` where the record has no system time, as older ones.

use crate::NamedEvaluation;
use manycore_experiment::record::{Experiment, Sample, factor};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Export {
    results: Vec<Benchmark>,
}

/// The fields of hyperfine 1.15 and later, in its order.
#[derive(Serialize)]
struct Benchmark {
    command: String,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: Option<f64>,
    system: Option<f64>,
    min: f64,
    max: f64,
    times: Vec<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    memory_usage_byte: Vec<u64>,
    exit_codes: Vec<i32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, String>,
}

/// Returns the runs of all commands.
///
/// # Errors
/// There are none.
pub(super) fn text(all: &[NamedEvaluation]) -> Result<String, String> {
    let mut results = Vec::new();
    for (named, experiment) in super::whole_runs(all) {
        let mut seen: Vec<&str> = Vec::new();
        for treatment in &experiment.treatments {
            let name = treatment.plain_name();
            if !seen.contains(&name) {
                seen.push(name);
                results.extend(benchmark(experiment, name, (all.len() > 1).then_some(named.name.as_str())));
            }
        }
    }
    if results.is_empty() {
        return Err("hyperfine's format holds runs of commands, and the records have none".to_owned());
    }
    let text = serde_json::to_string_pretty(&Export { results }).unwrap_or_default();
    Ok(manycore_text::names::printable_json(&text) + "\n")
}

/// Returns the runs of all treatments of this name. `None` without samples.
fn benchmark(experiment: &Experiment, name: &str, record: Option<&str>) -> Option<Benchmark> {
    let is_of = |index: usize| experiment.treatments[index].plain_name() == name;
    let samples: Vec<&Sample> = experiment.samples.iter().filter(|sample| is_of(sample.treatment)).collect();
    let times: Vec<f64> = samples.iter().map(|sample| sample.wall_ns as f64 / 1e9).collect();
    let (count, median) = (times.len() as f64, manycore_stats::median(&times)?);
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    let memory = experiment.metrics.iter().position(|metric| metric.name == "memory" && metric.unit == "MiB");
    let bytes = |sample: &&Sample| {
        let value = sample.values.get(memory?)?;
        Some((value * f64::from(1 << 20)).round() as u64)
    };
    let cpu = experiment.metrics.iter().position(|metric| metric.name == "cpu" && metric.unit == "s");
    let system = mean_of(&samples, |sample| Some(sample.counters.system_ns? as f64 / 1e9));
    let all = mean_of(&samples, |sample| sample.values.get(cpu?).copied());
    let treatment = experiment.treatments.iter().find(|treatment| treatment.plain_name() == name)?;
    let parameter = |(name, value): (&String, &String)| {
        Some((name.strip_prefix(factor::PARAMETER)?.to_owned(), value.clone()))
    };
    Some(Benchmark {
        command: record.map_or_else(|| name.to_owned(), |record| format!("{record}: {name}")),
        mean,
        stddev: (times.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
        median,
        user: system.zip(all).map(|(system, all)| (all - system).max(0.0)),
        system,
        min: times.iter().copied().fold(f64::INFINITY, f64::min),
        max: times.iter().copied().fold(0.0, f64::max),
        memory_usage_byte: samples.iter().filter_map(bytes).collect(),
        exit_codes: samples.iter().map(|sample| sample.exit_codes.first().copied().unwrap_or(0)).collect(),
        times,
        parameters: treatment.factors.iter().filter_map(parameter).collect(),
    })
}

/// Returns the mean of a figure that all samples have.
fn mean_of(samples: &[&Sample], figure: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = samples.iter().map(|sample| figure(sample)).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / values.len() as f64)
}

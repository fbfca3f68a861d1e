//! Rows of the measurements, as in the record.

use crate::{NamedEvaluation, csv::cell};
use manycore_experiment::record::{Direction, Sample, id};

pub(super) fn metrics(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    // Visits to pairs of CPUs have their own table.
    for experiment in named.record.experiments.iter().filter(|experiment| experiment.id != id::LATENCY) {
        for sample in &experiment.samples {
            for (metric, value) in experiment.metrics.iter().zip(&sample.values) {
                let better = match metric.better {
                    Direction::Higher => "higher",
                    Direction::Lower => "lower",
                };
                rows.push(vec![
                    experiment.id.clone(),
                    experiment.treatments[sample.treatment].name.clone(),
                    sample.block.to_string(),
                    metric.name.clone(),
                    metric.unit.clone(),
                    better.to_owned(),
                    cell(Some(*value)),
                ]);
            }
        }
    }
    rows
}

pub(super) fn samples(named: &NamedEvaluation) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for experiment in &named.record.experiments {
        for sample in &experiment.samples {
            let Some(treatment) = experiment.treatments.get(sample.treatment) else { continue };
            let mut row = vec![
                experiment.id.clone(),
                treatment.name.clone(),
                treatment.workers.to_string(),
                sample.block.to_string(),
                cell(sample.start_ns as f64 / 1e9),
                cell(sample.wall_ns as f64 / 1e9),
                cell(sample.work),
                experiment.unit.clone(),
                cell(sample.rate()),
            ];
            row.extend(counter_cells(sample));
            rows.push(row);
        }
    }
    rows
}

fn counter_cells(sample: &Sample) -> [String; 12] {
    let counters = &sample.counters;
    let count = |count: Option<u64>| cell(count.map(|count| count as f64));
    let seconds = |ns: Option<u64>| cell(ns.map(|ns| ns as f64 / 1e9));
    let ticks = |ticks: &[u32]| {
        let sum: u64 = ticks.iter().copied().map(u64::from).sum();
        if ticks.is_empty() { String::new() } else { sum.to_string() }
    };
    [
        seconds(counters.cpu_ns),
        seconds(counters.system_ns),
        seconds(counters.run_delay_ns),
        count(counters.migrations),
        count(counters.voluntary_switches),
        count(counters.involuntary_switches),
        ticks(&counters.busy_ticks),
        ticks(&counters.steal_ticks),
        seconds(counters.throttled_ns),
        count(counters.thermal_events),
        count(counters.frequency_khz),
        seconds(counters.cpu_pressure_ns),
    ]
}

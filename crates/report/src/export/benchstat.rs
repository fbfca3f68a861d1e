//! The benchmark format of Go (<https://go.dev/design/14313-benchmark-format>), which benchstat reads.
//!
//! A line for each sample: `BenchmarkCompare/treatment=gzip_-9-2 1 0.0512 sec/op 49.1 MiB`. `benchstat old.txt new.txt`
//! compares two records, and `benchstat -col /treatment one.txt` the variants of one.

use crate::NamedEvaluation;
use manycore_experiment::record::{Direction, Experiment, Metric, Record, Sample};
use std::{collections::BTreeMap, fmt::Write};

/// Returns the samples of all records.
///
/// # Errors
/// There are none.
pub(super) fn text(all: &[NamedEvaluation]) -> Result<String, String> {
    let mut text = String::new();
    let mut units: BTreeMap<String, Direction> = BTreeMap::new();
    let mut count = 0;
    for named in all {
        configuration(&named.record, &mut text);
        for experiment in &named.record.experiments {
            let metrics = metrics(experiment);
            units.extend(metrics.iter().map(|metric| (unit(metric), metric.better)));
            for sample in &experiment.samples {
                line(&named.record, experiment, &metrics, sample, &mut text);
                count += 1;
            }
        }
    }
    if count == 0 {
        return Err("the records have no samples".to_owned());
    }
    let better = |better| if better == Direction::Higher { "higher" } else { "lower" };
    let mut head = String::new();
    for (unit, direction) in units {
        let _ = writeln!(head, "Unit {unit} better={}", better(direction));
    }
    Ok(head + &text)
}

/// Lines `key: value` that hold for the benchmarks below them.
fn configuration(record: &Record, text: &mut String) {
    let system = &record.machine.system;
    let values = [
        ("goos", Some("linux".to_owned())),
        ("goarch", system.architecture.clone()),
        ("cpu", system.cpu_model.clone()),
        ("kernel", system.kernel.clone()),
        ("pkg", Some("manycore".to_owned())),
    ];
    for (key, value) in values {
        if let Some(value) = value {
            let _ = writeln!(text, "{key}: {}", value.replace(|sign: char| sign.is_control(), " ").trim());
        }
    }
}

/// Returns the metrics of samples; the rate of the work where there are none.
fn metrics(experiment: &Experiment) -> Vec<Metric> {
    if experiment.metrics.is_empty() {
        let unit = format!("{}/s", experiment.unit);
        return vec![Metric { name: String::new(), unit, better: Direction::Higher }];
    }
    experiment.metrics.clone()
}

fn line(record: &Record, experiment: &Experiment, metrics: &[Metric], sample: &Sample, text: &mut String) {
    let Some(treatment) = experiment.treatments.get(sample.treatment) else { return };
    let subcommand = word(&record.subcommand);
    let mut letters = subcommand.chars();
    let first = letters.next().map_or('_', |letter| letter.to_ascii_uppercase());
    let title = format!("{first}{}", letters.as_str());
    // The number of CPUs ends each name: benchstat takes a number there for that of CPUs.
    let id =
        if experiment.id == record.subcommand { String::new() } else { format!("/{}", word(&experiment.id)) };
    let _ = write!(
        text,
        "Benchmark{title}{id}/treatment={}-{} 1",
        word(treatment.plain_name()),
        record.machine.online.len().max(1)
    );
    let rate = [sample.rate()];
    let values = if experiment.metrics.is_empty() { &rate[..] } else { &sample.values };
    for (metric, value) in metrics.iter().zip(values) {
        let _ = write!(text, " {value} {}", unit(metric));
    }
    text.push('\n');
}

/// Returns the unit of a metric, with its name unless that is known from the unit: benchstat has one column for a unit.
fn unit(metric: &Metric) -> String {
    match (metric.name.as_str(), metric.unit.as_str()) {
        ("wall", "s") => "sec/op".to_owned(),
        ("cpu", "s") => "cpu-sec/op".to_owned(),
        ("", unit) => word(unit),
        (name, "") => word(name),
        (name, unit) => format!("{}-{}", word(name), word(unit)),
    }
}

/// Returns text without blanks and signs that separate parts of a line.
fn word(text: &str) -> String {
    let is_kept = |sign: char| sign.is_alphanumeric() || "._-+@%".contains(sign);
    let kept: String = text.chars().map(|sign| if is_kept(sign) { sign } else { '_' }).collect();
    if kept.is_empty() { "_".to_owned() } else { kept }
}

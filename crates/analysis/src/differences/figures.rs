//! The figures of an experiment that two records have in common.

use manycore_experiment::{
    Record,
    record::{Direction, Experiment, Metric, Sample, Treatment, factor, id},
};
use std::collections::BTreeMap;

/// A figure that both records have.
pub(super) struct Figure {
    /// Section of the report.
    pub topic: &'static str,
    /// What was measured.
    pub what: String,
    /// Unit of the values.
    pub unit: String,
    /// Which direction is better.
    pub better: Direction,
    /// The values of both records, in the order taken.
    pub values: [Vec<f64>; 2],
}

/// Parameters that define how much work a unit of work is. Rates of records in which they differ are not comparable.
const WORK: [&str; 4] = ["max_prime", "n", "array_bytes", "round_trips"];

/// Parameters that define the work only together with the measured command or load.
const SUBJECT: &str = "place";

/// Returns the figures of an experiment that both records have.
///
/// # Errors
///
/// How the work of the two differs.
pub(super) fn figures(
    old: &Experiment,
    first: &Record,
    new: &Experiment,
    second: &Record,
) -> Result<Vec<Figure>, String> {
    let Some((topic, name)) = topic(&old.id) else { return Ok(Vec::new()) };
    same_work(topic, [old, new], [first, second])?;
    let known = metrics(new, topic);
    let common = metrics(old, topic).into_iter().filter(|metric| known.contains(metric));
    let mut figures = Vec::new();
    for metric in common {
        let [mut before, after] = [old, new].map(|experiment| metric.values(experiment));
        for (group, values) in after {
            let Some(earlier) = before.remove(&group) else { continue };
            let parts = [name, &group, &metric.name].into_iter().filter(|part| !part.is_empty());
            figures.push(Figure {
                topic,
                what: parts.collect::<Vec<_>>().join(", "),
                unit: metric.unit.clone(),
                better: metric.better,
                values: [earlier, values],
            });
        }
    }
    Ok(figures)
}

/// Returns the section of an experiment, and its name there. `None` for experiments about the measurement itself.
fn topic(id: &str) -> Option<(&'static str, &str)> {
    let fixed = [
        (id::SCALING, "scaling", "scaling"),
        (id::CLOCK, "scaling", "clock"),
        (id::MATRIX, "matrix", "product"),
        (id::AFFINITY, "affinity", "processes"),
        (id::LATENCY, "latency", "latency"),
        (id::STREAM, "stream", "bandwidth"),
        (id::STREAM_NODES, "stream", "bandwidth between nodes"),
        (id::STREAM_LATENCY, "stream", "memory"),
        (id::SYSBENCH, "sysbench", "prime events"),
        (id::COMPARE, "comparison", ""),
        (id::TUNE_CONFIRM, "tuning", ""),
    ];
    if let Some((_, topic, name)) = fixed.into_iter().find(|(known, _, _)| *known == id) {
        return Some((topic, name));
    }
    let prefixed = [(id::MODES, "modes"), (id::CONTENTION, "contention"), (id::QOS, "limits")];
    let (prefix, topic) = prefixed.into_iter().find(|(prefix, _)| id.starts_with(prefix))?;
    let rest = id[prefix.len()..].trim_start_matches('-');
    Some((topic, if rest.is_empty() { id } else { rest }))
}

/// Checks that a unit of work is the same in both records.
fn same_work(topic: &str, experiments: [&Experiment; 2], records: [&Record; 2]) -> Result<(), String> {
    let [old, new] = experiments;
    if old.unit != new.unit {
        return Err(format!("units differ: {} and {}", old.unit, new.unit));
    }
    // Bandwidth is comparable whatever the size of the arrays.
    let defining = WORK.iter().filter(|name| topic != "stream" || **name != "array_bytes");
    let commands = topic == "scaling" && records.iter().any(|record| !record.subject.is_empty());
    if commands && records[0].subject != records[1].subject {
        return Err(format!("commands differ: {} and {}", records[0].subject, records[1].subject));
    }
    for name in defining.copied().chain(commands.then_some(SUBJECT)) {
        let [a, b] = [old, new].map(|experiment| experiment.parameters.get(name));
        if a != b {
            let shown = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
            return Err(format!("{name} differs: {} and {}", shown(a), shown(b)));
        }
    }
    Ok(())
}

/// What is read from a sample.
#[derive(PartialEq)]
struct SampleMetric {
    /// Empty for the rate of the work.
    name: String,
    unit: String,
    better: Direction,
    /// Parameter by which the rate is multiplied: repetitions in a unit of work, chosen for each machine.
    repeats: Option<&'static str>,
}

impl SampleMetric {
    /// Returns the number by which a rate is divided: the clock is that of one CPU, however many are busy.
    fn divisor(experiment: &Experiment, sample: &Sample) -> f64 {
        if experiment.id == id::CLOCK {
            experiment.treatments[sample.treatment].workers.max(1) as f64
        } else {
            1.0
        }
    }

    /// Returns the values of each group of treatments, without those whose command always failed.
    fn values(&self, experiment: &Experiment) -> BTreeMap<String, Vec<f64>> {
        let position = experiment.metrics.iter().position(|metric| metric.name == self.name);
        let repeats = self.repeats.and_then(|name| experiment.parameters.get(name)?.parse::<f64>().ok());
        let value = |sample: &Sample| match position {
            Some(index) => sample.values.get(index).copied(),
            None => Some(sample.rate() * repeats.unwrap_or(1.0) / Self::divisor(experiment, sample)),
        };
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for sample in &experiment.samples {
            let treatment = &experiment.treatments[sample.treatment];
            let found = value(sample).filter(|value| value.is_finite() && *value >= 0.0);
            groups.entry(group(experiment, treatment)).or_default().extend(found);
        }
        for (index, treatment) in experiment.treatments.iter().enumerate() {
            if experiment.all_failed(index) {
                groups.remove(&group(experiment, treatment));
            }
        }
        groups
    }
}

/// Returns what is compared of each sample: the metrics, or the rate of the work where there are none.
fn metrics(experiment: &Experiment, topic: &str) -> Vec<SampleMetric> {
    let of = |metric: &Metric| SampleMetric {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        better: metric.better,
        repeats: None,
    };
    match experiment.metrics.as_slice() {
        [] => {
            let repeats = match topic {
                "modes" => Some("k"),
                "affinity" => Some("sums"),
                _ => None,
            };
            let unit = match repeats {
                Some("k") => "repetitions/s".to_owned(),
                Some(repeats) => format!("{repeats}/s"),
                None => format!("{}/s", experiment.unit),
            };
            vec![SampleMetric { name: String::new(), unit, better: Direction::Higher, repeats }]
        }
        // The others describe the scatter within a visit.
        [latency, ..] if topic == "latency" => vec![of(latency)],
        all => all.iter().map(of).collect(),
    }
}

/// Returns the name under which samples of a treatment are joined: pairs of CPUs by what they share, CPUs of the
/// clock alone together, all others by the treatment.
fn group(experiment: &Experiment, treatment: &Treatment) -> String {
    let factor = |name: &str| treatment.factors.get(name).cloned();
    match experiment.id.as_str() {
        id::LATENCY => factor(factor::DISTANCE).unwrap_or_else(|| treatment.name.clone()),
        id::CLOCK if treatment.workers == 1 => "one CPU busy".to_owned(),
        id::SCALING if treatment.name == treatment.workers.to_string() => {
            format!("{} worker{}", treatment.workers, if treatment.workers == 1 { "" } else { "s" })
        }
        _ => treatment.name.clone(),
    }
}

//! The figures of an experiment that all records have in common.

use super::{
    Runs,
    matching::{MatchedVariants, each_once},
    session_value, worse_tail,
};
use manycore_experiment::{
    Record,
    record::{Direction, Experiment, Metric, Sample, Treatment, factor, id},
};
use manycore_stats::{Estimator, sessions::SessionValue};
use std::collections::BTreeMap;

/// A figure that all records have.
pub(super) struct Figure {
    /// Section of the report.
    pub topic: &'static str,
    /// What was measured.
    pub what: String,
    /// The treatments of the baseline and of the new side, whose names differ where the command changed.
    pub groups: [String; 2],
    /// Name of the metric; empty for the rate of the work.
    pub metric: String,
    /// Whether it is the first metric of its experiment.
    pub is_primary: bool,
    /// Unit of the values.
    pub unit: String,
    /// Which direction is better.
    pub better: Direction,
    /// The values of each record of both sides, in the order taken.
    pub values: [Vec<Vec<f64>>; 2],
}

/// Parameters that define how much work a unit of work is. Rates of records in which they differ are not comparable.
const WORK: [&str; 4] = ["max_prime", "n", "array_bytes", "round_trips"];

/// Parameters that define the work only together with the measured command or load.
const SUBJECT: &str = "place";

/// Returns the figures of an experiment that all records have, and what only some of them have, in words.
///
/// # Errors
///
/// How the work of two of them differs.
pub(super) fn figures(runs: &Runs) -> Result<(Vec<Figure>, Vec<String>), String> {
    let all = || runs.iter().flatten();
    let Some(&(first, record)) = all().next() else { return Ok(Default::default()) };
    let Some((topic, name)) = topic(&first.id) else { return Ok(Default::default()) };
    for (other, of) in all() {
        same_work(topic, [first, other], [record, of])?;
    }
    let known: Vec<Vec<SampleMetric>> = all().map(|(experiment, _)| metrics(experiment, topic)).collect();
    let is_common = |metric: &SampleMetric| known.iter().all(|metrics| metrics.contains(metric));
    // The order of the metrics is that of the new side, whose first one decides.
    let newest = runs[1].first().map_or_else(Vec::new, |(experiment, _)| metrics(experiment, topic));
    let (common, mut only_one): (Vec<SampleMetric>, Vec<SampleMetric>) =
        newest.into_iter().partition(is_common);
    let old = metrics(first, topic).into_iter();
    only_one.extend(
        old.filter(|metric| !is_common(metric) && !only_one.iter().any(|one| one.name == metric.name))
            .collect::<Vec<_>>(),
    );
    let in_words =
        |metric: SampleMetric| format!("{}: not all records have the metric {}", first.id, metric.shown());
    let mut only_one_side: Vec<String> = only_one.into_iter().map(in_words).collect();
    let matched = matched(runs);
    only_one_side.extend(matched.unmatched());
    let mut figures = Vec::new();
    for (index, metric) in common.into_iter().enumerate() {
        let values: [Vec<BTreeMap<String, Vec<f64>>>; 2] = runs
            .each_ref()
            .map(|side| side.iter().map(|(experiment, _)| metric.values(experiment)).collect());
        for groups in &matched.pairs {
            let of_side = |side: usize| -> Option<Vec<Vec<f64>>> {
                values[side].iter().map(|one| one.get(&groups[side]).cloned()).collect()
            };
            let Some((before, after)) = of_side(0).zip(of_side(1)) else { continue };
            let parts = [name, &groups[1], &metric.name].into_iter().filter(|part| !part.is_empty());
            figures.push(Figure {
                topic,
                what: parts.collect::<Vec<_>>().join(", "),
                groups: groups.clone(),
                metric: metric.name.clone(),
                is_primary: index == 0,
                unit: metric.unit.clone(),
                better: metric.better,
                values: [before, after],
            });
        }
    }
    Ok((figures, only_one_side))
}

/// A figure of one record: the primary metric of one group of treatments.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordFigure {
    /// Section of the report, as in [`crate::Finding::topic`].
    pub topic: &'static str,
    /// What was measured: `product, 2000 on all cores`.
    pub what: String,
    /// Unit of the values.
    pub unit: String,
    /// Which direction is better.
    pub better: Direction,
    /// The parameters that define a unit of work: `max_prime 10000`. Empty where none does. Values of different work are
    /// not comparable.
    pub work: String,
    /// The values of the samples, in the order taken; finite and not negative.
    pub values: Vec<f64>,
}

impl RecordFigure {
    /// Returns the logarithm of the median with its variance from the scatter of stretches of consecutive values. `None`
    /// without values.
    pub fn median(&self) -> Option<SessionValue> {
        session_value(&self.values, Estimator::Median, worse_tail(self.better))
    }
}

/// Returns the figures of a record: the primary metric of each group of treatments of each experiment of a section. The
/// order is that of the experiments.
pub fn record_figures(record: &Record) -> Vec<RecordFigure> {
    record.experiments.iter().flat_map(|experiment| primary_figures(experiment, record)).collect()
}

fn primary_figures(experiment: &Experiment, record: &Record) -> Vec<RecordFigure> {
    let Some((topic, name)) = topic(&experiment.id) else { return Vec::new() };
    let Some(metric) = metrics(experiment, topic).into_iter().next() else { return Vec::new() };
    let work = defined_work(topic, experiment, record);
    let figure = |(group, values): (String, Vec<f64>)| {
        let parts = [name, &group].into_iter().filter(|part| !part.is_empty());
        RecordFigure {
            topic,
            what: parts.collect::<Vec<_>>().join(", "),
            unit: metric.unit.clone(),
            better: metric.better,
            work: work.clone(),
            values,
        }
    };
    let measured = metric.values(experiment).into_iter().filter(|(_, values)| !values.is_empty());
    measured.map(figure).collect()
}

/// Returns the parameters that [`same_work`] compares, in words.
fn defined_work(topic: &str, experiment: &Experiment, record: &Record) -> String {
    let commands = topic == "scaling" && !record.subject.is_empty();
    let names = defining(topic).chain(commands.then_some(SUBJECT));
    let known = names.filter_map(|name| Some(format!("{name} {}", experiment.parameters.get(name)?)));
    known.chain(commands.then(|| record.subject.clone())).collect::<Vec<_>>().join(", ")
}

/// Returns the parameters that define the work of a section. Bandwidth is comparable whatever the size of the arrays.
fn defining(topic: &str) -> impl Iterator<Item = &'static str> {
    let is_stream = topic == "stream";
    WORK.into_iter().filter(move |name| !is_stream || *name != "array_bytes")
}

/// Returns which treatments of the two sides are compared.
fn matched(runs: &Runs) -> MatchedVariants {
    let names = |side: &Vec<(&Experiment, &Record)>| -> Vec<String> {
        let of = |&(experiment, _): &(&'_ Experiment, &Record)| {
            each_once(experiment.treatments.iter().map(|treatment| group(experiment, treatment)))
        };
        side.first().map(of).unwrap_or_default()
    };
    let [old, new] = runs.each_ref().map(names);
    let is_comparison = runs[0].first().is_some_and(|(experiment, _)| experiment.id == id::COMPARE);
    if is_comparison { MatchedVariants::new(&old, &new) } else { MatchedVariants::by_name(&old, &new) }
}

/// Returns the section of an experiment, and its name there. `None` for experiments about the measurement itself.
pub(super) fn topic(id: &str) -> Option<(&'static str, &str)> {
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
pub(super) fn same_work(
    topic: &str,
    experiments: [&Experiment; 2],
    records: [&Record; 2],
) -> Result<(), String> {
    let [old, new] = experiments;
    // Metrics have units of their own: that of the work follows from the one that decided.
    if old.unit != new.unit && (old.metrics.is_empty() || new.metrics.is_empty()) {
        return Err(format!("units differ: {} and {}", old.unit, new.unit));
    }
    let commands = topic == "scaling" && records.iter().any(|record| !record.subject.is_empty());
    if commands && records[0].subject != records[1].subject {
        return Err(format!("commands differ: {} and {}", records[0].subject, records[1].subject));
    }
    for name in defining(topic).chain(commands.then_some(SUBJECT)) {
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
pub(super) struct SampleMetric {
    /// Empty for the rate of the work.
    pub name: String,
    unit: String,
    pub better: Direction,
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

    /// Returns its name with unit and direction, by which metrics of one name may differ.
    fn shown(&self) -> String {
        let better = if self.better == Direction::Higher { "higher" } else { "lower" };
        let unit = if self.unit.is_empty() { String::new() } else { format!("{}, ", self.unit) };
        format!("{} ({unit}{better} is better)", self.name)
    }

    /// Returns the values of each group of treatments, without those whose command always failed.
    pub(super) fn values(&self, experiment: &Experiment) -> BTreeMap<String, Vec<f64>> {
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
pub(super) fn metrics(experiment: &Experiment, topic: &str) -> Vec<SampleMetric> {
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
/// clock alone together, the same command as A and as B together, all others by the treatment.
fn group(experiment: &Experiment, treatment: &Treatment) -> String {
    let factor = |name: &str| treatment.factors.get(name).cloned();
    match experiment.id.as_str() {
        id::LATENCY => factor(factor::DISTANCE).unwrap_or_else(|| treatment.name.clone()),
        id::CLOCK if treatment.workers == 1 => "one CPU busy".to_owned(),
        id::SCALING if treatment.name == treatment.workers.to_string() => {
            format!("{} worker{}", treatment.workers, if treatment.workers == 1 { "" } else { "s" })
        }
        id::COMPARE => treatment.plain_name().to_owned(),
        _ => treatment.name.clone(),
    }
}

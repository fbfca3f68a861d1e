//! How the figures of one machine scatter from session to session, from earlier records of the same work.

use super::{
    SessionSides,
    figures::{Figure, SampleMetric, metrics, same_work, topic},
    session_value, worse_tail,
};
use manycore_experiment::{Record, record::Experiment};
use manycore_stats::{Estimator, sessions::KnownSpread};
use std::collections::BTreeMap;

/// The values of one experiment in earlier records.
pub(super) struct History {
    /// By metric and treatment: the values of the sessions.
    sessions: BTreeMap<(String, String), Vec<f64>>,
}

impl History {
    /// Reads the earlier records of the same experiment, subcommand and machine as the new side. The compared records
    /// themselves do not count.
    pub(super) fn of(experiment: &Experiment, sides: &SessionSides, estimator: Estimator) -> Self {
        let mut sessions: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        let (Some((topic, _)), Some(new)) = (topic(&experiment.id), sides.new.first()) else {
            return Self { sessions };
        };
        let machine = new.machine.fingerprint();
        let is_compared = |record: &Record| {
            let mut compared = sides.baseline.iter().chain(sides.new);
            compared.any(|other| other.started == record.started && other.seed == record.seed)
        };
        let is_like = |record: &&&Record| {
            record.subcommand == new.subcommand
                && record.machine.fingerprint() == machine
                && !record.interrupted
                && !is_compared(record)
        };
        for record in sides.earlier.iter().filter(is_like) {
            let Some(other) = record.experiment(&experiment.id) else { continue };
            if same_work(topic, [experiment, other], [sides.baseline[0], record]).is_err() {
                continue;
            }
            for metric in metrics(other, topic) {
                add(&mut sessions, &metric, other, estimator);
            }
        }
        Self { sessions }
    }

    /// Returns the scatter of a figure: of the same metric, for the treatments that it compares.
    pub(super) fn spread(&self, figure: &Figure) -> Option<KnownSpread> {
        let mut names: Vec<&String> = figure.groups.iter().collect();
        names.dedup();
        let of = |name: &String| self.sessions.get(&(figure.metric.clone(), name.clone()));
        KnownSpread::of_groups(names.into_iter().filter_map(of).map(Vec::as_slice))
    }
}

fn add(
    sessions: &mut BTreeMap<(String, String), Vec<f64>>,
    metric: &SampleMetric,
    experiment: &Experiment,
    estimator: Estimator,
) {
    for (group, values) in metric.values(experiment) {
        let value = session_value(&values, estimator, worse_tail(metric.better)).map(|session| session.value);
        sessions.entry((metric.name.clone(), group)).or_default().extend(value);
    }
}

//! What a measurement leaves in the record: its parameters, and the samples of each count.

use super::Measurement;
use crate::{load::InstanceLoad, options::DensityVariant};
use manycore_experiment::{
    record::{Experiment, Method, Sample, Treatment, factor, id, parameter},
    session::Session,
};
use std::collections::BTreeMap;

/// Exit code of a sample at a count that failed.
const FAILED: i32 = 1;

impl Measurement<'_> {
    /// Returns the experiment without samples.
    pub(super) fn experiment(&self, session: &Session) -> Experiment {
        let options = self.options;
        let mut parameters = BTreeMap::from([
            (parameter::BOUND, options.bound.to_string()),
            (parameter::MOST_INSTANCES, self.most.to_string()),
            (parameter::PAIRS, options.pairs.to_string()),
            (parameter::REQUEST, options.request.clone()),
            (parameter::SERVICE, session.record.subject.clone()),
        ]);
        if !matches!(options.load, InstanceLoad::Clients(_)) {
            parameters.insert(parameter::RATE, format!("{:.1}", self.rate.0));
        }
        parameters.extend(self.rate.1.map(|capacity| (parameter::CAPACITY, format!("{capacity:.1}"))));
        parameters.extend(options.load.parameters());
        let limits = &options.service.limits;
        parameters.extend(limits.cpus.map(|cpus| (parameter::INSTANCE_CPUS, cpus.to_string())));
        parameters.extend(limits.memory.map(|bytes| (parameter::INSTANCE_MEMORY, bytes.to_string())));
        let original = self.switch.as_ref().map(|switch| switch.files().describe(&[]));
        parameters.extend(original.map(|settings| (parameter::ORIGINAL_SETTINGS, settings)));
        if !options.load_cpus.is_empty() {
            parameters.insert(parameter::LOAD_CPUS, options.load_cpus.to_string());
        }
        Experiment {
            id: id::DENSITY.to_owned(),
            method: Method::Slices {
                slice_ns: options.times.length.as_nanos() as u64,
                settle_ns: options.times.settle.as_nanos() as u64,
            },
            unit: "requests".to_owned(),
            parameters: parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            metrics: self.meter.metrics(options.bound.figure),
            treatments: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// Keeps a sample in the record.
    pub(super) fn keep(&mut self, session: &mut Session, index: usize, count: usize, sample: Sample) {
        let experiment = &mut session.record.experiments[0];
        let trial = &mut self.trials[index];
        let treatment = *trial.treatments.entry(count).or_insert_with(|| {
            experiment.treatments.push(treatment(&self.options.variants[index], &trial.label, count));
            experiment.treatments.len() - 1
        });
        experiment.samples.push(Sample { treatment, ..sample });
    }

    /// Keeps a sample of a count that failed, with the reason.
    pub(super) fn keep_failure(&mut self, session: &mut Session, index: usize, count: usize, why: &str) {
        let metrics = session.record.experiments[0].metrics.len();
        let sample = Sample {
            block: self.pairs,
            wall_ns: 1,
            values: vec![0.0; metrics],
            exit_codes: vec![FAILED],
            ..Sample::default()
        };
        self.keep(session, index, count, sample);
        let experiment = &mut session.record.experiments[0];
        let treatment = &mut experiment.treatments[self.trials[index].treatments[&count]];
        treatment.factors.insert(factor::FAILURE.to_owned(), why.to_owned());
    }
}

fn treatment(variant: &DensityVariant, label: &str, count: usize) -> Treatment {
    let mut factors = BTreeMap::from([(factor::VARIANT.to_owned(), label.to_owned())]);
    factors.extend(variant.name.clone().map(|name| (factor::NAME.to_owned(), name)));
    if !variant.description.is_empty() {
        factors.insert(factor::COMMAND.to_owned(), variant.description.clone());
    }
    Treatment { name: format!("{label}: {count}"), workers: count, factors, latency: None }
}

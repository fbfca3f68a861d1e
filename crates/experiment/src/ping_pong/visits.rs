//! The visits to a pair of CPUs in a record, and whether they suffice for a figure.

use crate::record::{Experiment, Sample};

/// Minimum length of a visit, with or without a figure. A shorter one was never begun, because the time was
/// over.
const MIN_VISIT_NS: u64 = 100_000;

/// The visits to a pair of CPUs that count.
#[derive(Clone, Debug, Default)]
pub struct Visits<'a> {
    /// Visits that gave a figure.
    pub with_figure: Vec<&'a Sample>,
    /// Number of visits without a figure, because the two CPUs never ran at the same time.
    pub without_figure: usize,
}

impl Visits<'_> {
    /// Returns the visits to each pair, in the order of the treatments.
    pub fn by_pair(experiment: &Experiment) -> Vec<Visits<'_>> {
        let mut visits = vec![Visits::default(); experiment.treatments.len()];
        for sample in
            experiment.samples.iter().filter(|sample| sample.counters.off_cpu_checks.unwrap_or(0) == 0)
        {
            let Some(visits) = visits.get_mut(sample.treatment) else { continue };
            if sample.values.len() >= 3 && sample.values[0] > 0.0 && sample.work > 0.0 {
                visits.with_figure.push(sample);
            } else if sample.counters.span_ns >= MIN_VISIT_NS {
                visits.without_figure += 1;
            }
        }
        visits
    }

    /// Returns whether most visits gave a figure. Otherwise those that did are a biased selection.
    pub fn suffice(&self) -> bool {
        self.with_figure.len() > self.without_figure
    }
}

//! Warnings about commands that failed in runs that ignore failures.

use super::{Finding, FindingKind};
use manycore_experiment::{
    Record,
    record::{Experiment, Treatment, id},
};
use manycore_text::{names::list, units::counted};
use std::collections::BTreeMap;

pub(super) fn find(record: &Record) -> Vec<Finding> {
    // A count of instances that failed is above the bound.
    let experiments = record.experiments.iter().filter(|experiment| experiment.id != id::DENSITY);
    experiments
        .flat_map(|experiment| {
            let treatments = experiment.treatments.iter().enumerate();
            treatments.filter_map(|(index, treatment)| failed(experiment, index, treatment))
        })
        .collect()
}

fn failed(experiment: &Experiment, index: usize, treatment: &Treatment) -> Option<Finding> {
    let runs = experiment.samples_of(index).count();
    let failed = experiment.samples_of(index).filter(|sample| experiment.is_failure(sample)).count();
    if failed == 0 {
        return None;
    }
    let mut ways: BTreeMap<i32, usize> = BTreeMap::new();
    for exit in experiment.samples_of(index).flat_map(|sample| &sample.exit_codes).filter(|&&exit| exit != 0)
    {
        *ways.entry(*exit).or_default() += 1;
    }
    let ways: Vec<String> =
        ways.into_iter().map(|(exit, count)| format!("{} ({count} times)", exit_description(exit))).collect();
    let variant = (experiment.id == id::COMPARE).then(|| treatment.title());
    let name = variant.map_or_else(|| format!("\"{}\"", treatment.name), ToOwned::to_owned);
    let (kind, text) = if experiment.all_failed(index) {
        let text = format!("All {} of {name} failed: it has no verdict.", counted(runs, "run"));
        (if variant.is_some() { FindingKind::Answer } else { FindingKind::Warning }, text)
    } else {
        let text = format!(
            "{failed} of {} of {name} failed; they are included in the figures.",
            counted(runs, "run")
        );
        (FindingKind::Warning, text)
    };
    Some(Finding::new(kind, "failures", text, vec![list(&ways)]))
}

/// Formats an exit status: `exit status 1`, `signal 9`.
fn exit_description(exit: i32) -> String {
    if exit > 128 { format!("signal {}", exit - 128) } else { format!("exit status {exit}") }
}

#[cfg(test)]
mod tests {
    use crate::Evaluation;
    use manycore_experiment::record::Sample;
    use manycore_testkit::SyntheticMachine;

    /// Regression test: the finding was "B is 80 % faster", because `false` ends at once.
    #[test]
    fn a_variant_that_always_fails_has_no_verdict() {
        let mut record = SyntheticMachine::guest().record();
        let mut experiment = record.experiments.swap_remove(0);
        experiment.id = "compare".to_owned();
        experiment.treatments.truncate(2);
        experiment.samples = (0..40)
            .map(|index| Sample {
                block: index / 2,
                treatment: index % 2,
                wall_ns: 1_000_000 * (10 - 9 * (index as u64 % 2)),
                work: 1.0,
                exit_codes: if index % 2 == 1 { vec![1] } else { Vec::new() },
                ..Sample::default()
            })
            .collect();
        record.experiments = vec![experiment];
        let evaluated = Evaluation::from_record(&record);
        assert!(evaluated.comparison.is_none());
        assert!(
            evaluated
                .findings
                .iter()
                .any(|finding| finding.text == "All 20 runs of B failed: it has no verdict.")
        );
        record.experiments[0].samples[1].exit_codes.clear();
        let evaluated = Evaluation::from_record(&record);
        assert!(evaluated.comparison.is_some());
        let warning = evaluated.findings.iter().find(|finding| finding.topic == "failures").unwrap();
        assert_eq!(warning.text, "19 of 20 runs of B failed; they are included in the figures.");
        assert_eq!(warning.evidence, ["exit status 1 (19 times)"]);
    }
}

use super::*;
use manycore_testkit::SyntheticMachine;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const MARGIN: f64 = 0.02;

fn between(first: &SyntheticMachine, second: &SyntheticMachine) -> RecordDifferences {
    RecordDifferences::between(&first.record(), &second.record(), MARGIN)
}

fn quiet(seed: u64) -> SyntheticMachine {
    SyntheticMachine { blocks: 40, noise: 0.01, steal: 0.0, seed, ..SyntheticMachine::guest() }
}

#[test]
fn two_runs_on_one_machine_differ_in_nothing() {
    let with_any =
        (0..40).filter(|seed| between(&quiet(seed * 2), &quiet(seed * 2 + 1)).changed().next().is_some());
    // One in twenty is allowed.
    assert!(with_any.count() <= 4);
    let differences = between(&quiet(1), &quiet(2));
    let scaling = differences.figures.iter().find(|figure| figure.what == "scaling, 2 workers").unwrap();
    assert_eq!((scaling.change, scaling.unit.as_str()), (Change::Equivalent, "events/s"));
    assert_eq!(scaling.stretches, [STRETCHES; 2]);
}

#[test]
fn a_slower_clock_is_found_and_comes_first() {
    let slow = SyntheticMachine { rate: quiet(2).rate * 0.8, ..quiet(2) };
    let differences = between(&quiet(1), &slow);
    let first = &differences.figures[0];
    assert_eq!((first.topic, first.change), ("scaling", Change::Worse), "{first:?}");
    let (low, high) = first.interval.unwrap();
    assert!(low < 0.8 && 0.8 < high && high < 0.82, "{first:?}");
    let ratios: Vec<f64> = differences.changed().map(|figure| figure.ratio.ln().abs()).collect();
    assert!(ratios.is_sorted_by(|a, b| a >= b), "{ratios:?}");
    // The other way round it is better, by the reciprocal.
    let back = between(&slow, &quiet(1)).figures.remove(0);
    assert_eq!((back.change, &back.what), (Change::Better, &first.what));
    assert!((back.ratio * first.ratio - 1.0).abs() < 1e-9);
}

#[test]
fn lower_is_better_for_a_latency() {
    let [mut first, mut second] = [1.0, 1.5].map(|scale| {
        let mut record = quiet(3).record();
        for sample in record.experiments.iter_mut().filter(|e| e.id == "latency").flat_map(|e| &mut e.samples)
        {
            sample.values.iter_mut().for_each(|value| *value *= scale);
        }
        record
    });
    for record in [&mut first, &mut second] {
        record.experiments.retain(|e| e.id == "latency");
    }
    let differences = RecordDifferences::between(&first, &second, MARGIN);
    let [latency] = &differences.figures[..] else { panic!("{:?}", differences.figures) };
    assert!((latency.ratio - 1.5).abs() < 1e-9 && latency.better == Direction::Lower, "{latency:?}");
    assert_ne!(latency.change, Change::Better);
}

#[test]
fn different_work_is_not_compared_and_listed() {
    let (first, mut second) = (quiet(1).record(), quiet(2).record());
    let scaling = second.experiments.iter_mut().find(|e| e.id == "scaling").unwrap();
    scaling.parameters.insert("max_prime".to_owned(), "7".to_owned());
    let differences = RecordDifferences::between(&first, &second, MARGIN);
    assert!(differences.figures.iter().all(|figure| !figure.what.starts_with("scaling,")));
    let [why] = &differences.not_compared[..] else { panic!("{:?}", differences.not_compared) };
    assert!(why.starts_with("scaling: max_prime differs: "), "{why}");
}

#[test]
fn disturbed_experiments_are_marked() {
    let stolen = SyntheticMachine { steal: 0.3, ..quiet(2) };
    let differences = between(&quiet(1), &stolen);
    let scaling = differences.figures.iter().find(|figure| figure.topic == "scaling").unwrap();
    assert!(
        scaling.disturbed.iter().any(|what| what.starts_with("second record: the hypervisor took")),
        "{scaling:?}"
    );
}

#[test]
fn records_without_common_experiments_have_no_differences() {
    let empty = Record::default();
    assert_eq!(RecordDifferences::between(&empty, &quiet(1).record(), MARGIN), RecordDifferences::default());
    let mut few = quiet(1).record();
    for experiment in &mut few.experiments {
        experiment.samples.truncate(3);
    }
    let differences = RecordDifferences::between(&few, &few, MARGIN);
    assert!(differences.figures.iter().all(|figure| figure.change == Change::Inconclusive));
}

/// A neighbour that works for some seconds disturbs many consecutive samples of one run. Single samples would make
/// nearly every pair of runs "different".
#[test]
fn correlated_noise_causes_few_false_differences() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let mut run = || -> Vec<f64> {
        let mut state = 0.0;
        let mut next = || {
            state = 0.7 * state + random.random::<f64>() - 0.5;
            (0.05 * state).exp()
        };
        (0..240).map(|_| next()).collect()
    };
    let different = (0..1000).filter(|_| {
        let [first, second] = [run(), run()].map(|values| stretch_medians(&values));
        rank_sum_p(&first, &second) <= FAMILY_LEVEL
    });
    let count = different.count();
    assert!(count <= 90, "{count} of 1000 false differences");
}

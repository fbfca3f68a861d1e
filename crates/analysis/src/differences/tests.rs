use super::*;
use manycore_experiment::record::{Treatment, parameter};
use manycore_testkit::SyntheticMachine;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::LazyLock;

const MARGIN: f64 = 0.02;

/// Compares two records, without anything known of earlier sessions.
fn alone(first: &Record, second: &Record) -> RecordDifferences {
    sides(&[first], &[second], &[])
}

fn sides(baseline: &[&Record], new: &[&Record], earlier: &[&Record]) -> RecordDifferences {
    sides_by(None, baseline, new, earlier)
}

fn sides_by(
    estimator: Option<Estimator>,
    baseline: &[&Record],
    new: &[&Record],
    earlier: &[&Record],
) -> RecordDifferences {
    let margin = MARGIN;
    RecordDifferences::between(&SessionSides { baseline, new, earlier, margin, estimator })
}

/// Compares two runs on a machine whose sessions are known from ten earlier ones.
fn between(first: &SyntheticMachine, second: &SyntheticMachine) -> RecordDifferences {
    static EARLIER: LazyLock<Vec<Record>> =
        LazyLock::new(|| (900..910).map(|seed| dated(&quiet(seed))).collect());
    let earlier: Vec<&Record> = EARLIER.iter().collect();
    sides(&[&dated(first)], &[&dated(second)], &earlier)
}

/// Returns a record that differs from others in its seed.
fn dated(machine: &SyntheticMachine) -> Record {
    Record { seed: machine.seed, ..machine.record() }
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
    let differences = alone(&first, &second);
    let [latency] = &differences.figures[..] else { panic!("{:?}", differences.figures) };
    assert!((latency.ratio - 1.5).abs() < 1e-9 && latency.better == Direction::Lower, "{latency:?}");
    assert_ne!(latency.change, Change::Better);
}

#[test]
fn different_work_is_not_compared_and_listed() {
    let (first, mut second) = (quiet(1).record(), quiet(2).record());
    let scaling = second.experiments.iter_mut().find(|e| e.id == "scaling").unwrap();
    scaling.parameters.insert("max_prime".to_owned(), "7".to_owned());
    let differences = alone(&first, &second);
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
    let none = RecordDifferences { sessions: [1, 1], ..RecordDifferences::default() };
    assert_eq!(alone(&empty, &quiet(1).record()), none);
    let mut few = quiet(1).record();
    for experiment in &mut few.experiments {
        experiment.samples.truncate(3);
    }
    let differences = alone(&few, &few);
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
    let history: Vec<f64> = (0..12).map(|_| median_of(&run()).unwrap().value).collect();
    let known = KnownSpread::of_groups([history.as_slice()]);
    let different = (0..1000).filter(|_| {
        let [first, second] = [run(), run()].map(|values| [median_of(&values).unwrap()]);
        SessionDifference::between(&first, &second, known).unwrap().p() <= FAMILY_LEVEL
    });
    let count = different.count();
    assert!(count <= 90, "{count} of 1000 false differences");
}

fn median_of(values: &[f64]) -> Option<SessionValue> {
    session_value(values, Estimator::Median, WorseTail::Upper)
}

/// A record of `compare` of one command, in a session that is slower by `slower`.
fn session(seed: u64, slower: f64) -> Record {
    let machine = SyntheticMachine { blocks: 12, noise: 0.01, steal: 0.0, seed, ..SyntheticMachine::guest() };
    let mut record = Record { seed, ..machine.compare(1.0) };
    for sample in &mut record.experiments[0].samples {
        sample.values.iter_mut().for_each(|value| *value *= slower);
    }
    record
}

/// Sessions of one build that scatter by 3 %.
fn sessions(seed: u64, slower: f64) -> Vec<Record> {
    let scatter = [0.97, 1.01, 1.0, 1.03, 0.99];
    (0..5).map(|nth| session(seed + nth, slower * scatter[nth as usize])).collect()
}

fn primary(differences: &RecordDifferences) -> &FigureDifference {
    differences.figures.iter().find(|figure| figure.is_primary).unwrap()
}

/// Regression test: 12 stretches of one session each "proved" a difference of 3 % that was one of two days.
#[test]
fn two_sessions_that_differ_by_their_day_are_inconclusive() {
    let found = alone(&session(1, 1.0), &session(2, 1.03));
    let figure = primary(&found);
    assert_eq!(figure.change, Change::Inconclusive, "{figure:?}");
    let spread = figure.spread.unwrap();
    assert_eq!((spread.source, spread.freedom), (SpreadSource::Assumed, None));
    assert!(spread.sentence([1, 1]).contains("which is assumed"));
}

/// Regression test: 1 ms of CPU time against 2 ms was "better" by the scatter that is assumed for the metric that decides.
#[test]
fn other_metrics_of_single_records_are_inconclusive() {
    let with_cpu = |mut record: Record, factor: f64| {
        let experiment = &mut record.experiments[0];
        experiment.metrics.truncate(1);
        experiment.metrics.push(manycore_experiment::record::Metric {
            name: "ticks".to_owned(),
            unit: "s".to_owned(),
            better: Direction::Lower,
        });
        for sample in &mut experiment.samples {
            sample.values.truncate(1);
            sample.values.push(0.001 * factor);
        }
        record
    };
    let of = |found: &RecordDifferences| {
        found.figures.iter().find(|figure| figure.metric == "ticks").cloned().unwrap()
    };
    let (old, new) = (with_cpu(session(1, 1.0), 2.0), with_cpu(session(2, 1.0), 1.0));
    let found = alone(&old, &new);
    let figure = of(&found);
    assert_eq!((figure.change, figure.interval, figure.spread), (Change::Inconclusive, None, None));
    assert!(figure.answer(MARGIN).contains("scatters between sessions is unknown"), "{figure:?}");
    assert!(primary(&found).interval.is_some());
    let gates = ["ticks > 5%".parse().unwrap()];
    let decided = crate::gate::decide(&gates, &crate::gate::GatedFigure::of_records(&found), true);
    assert!(decided.unwrap()[0].text.contains("five records of each side"));
    // Repeated records show the scatter of this metric.
    let side = |seed: u64, factor: f64| -> Vec<Record> {
        let scatter = [0.97, 1.01, 1.0, 1.03, 0.99];
        sessions(seed, 1.0).into_iter().zip(scatter).map(|(one, own)| with_cpu(one, factor * own)).collect()
    };
    let (old, new) = (side(10, 2.0), side(20, 1.0));
    let found = sides(&old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>(), &[]);
    assert_eq!(of(&found).change, Change::Better);
}

/// Regression test: `--by mean` was ignored for stored records, so that rare slow runs were not seen.
#[test]
fn stored_records_are_compared_by_the_estimator() {
    let with_slow_runs = |mut record: Record| {
        for sample in record.experiments[0].samples.iter_mut().filter(|sample| sample.block % 6 == 5) {
            sample.values[0] *= 5.0;
        }
        record
    };
    let (old, new) =
        (sessions(10, 1.0), sessions(20, 1.0).into_iter().map(with_slow_runs).collect::<Vec<_>>());
    let (a, b): (Vec<&Record>, Vec<&Record>) = (old.iter().collect(), new.iter().collect());
    assert_ne!(primary(&sides(&a, &b, &[])).change, Change::Worse);
    let by_mean = sides_by(Some(Estimator::Mean), &a, &b, &[]);
    let figure = primary(&by_mean);
    assert_eq!((figure.change, figure.estimator), (Change::Worse, Estimator::Mean), "{figure:?}");
    assert!(figure.answer(MARGIN).contains("longer by the mean"), "{}", figure.answer(MARGIN));
    assert!((figure.values[1] / figure.values[0] - 5.0 / 3.0).abs() < 0.1, "{figure:?}");
    // Without the option, it is what the records were decided by.
    let decided_by_mean = |record: &Record| {
        let mut record = record.clone();
        let parameters = &mut record.experiments[0].parameters;
        parameters.insert(parameter::ESTIMATOR.to_owned(), "mean".to_owned());
        record
    };
    let [own_old, own_new] = [&old, &new].map(|side| side.iter().map(decided_by_mean).collect::<Vec<_>>());
    let own = sides(&own_old.iter().collect::<Vec<_>>(), &own_new.iter().collect::<Vec<_>>(), &[]);
    assert_eq!(primary(&own).ratio, figure.ratio);
}

/// The assumed scatter is that of a median, and a quantile needs runs beyond it.
#[test]
fn other_figures_of_single_records_are_inconclusive() {
    let (old, new) = (session(1, 1.0), session(2, 1.5));
    let by = |estimator| primary(&sides_by(Some(estimator), &[&old], &[&new], &[])).clone();
    let by_mean = by(Estimator::Mean);
    assert_eq!((by_mean.change, by_mean.interval), (Change::Inconclusive, None));
    assert!(by_mean.answer(MARGIN).contains("how the mean scatters"), "{}", by_mean.answer(MARGIN));
    assert!(by(Estimator::Max).answer(MARGIN).contains("how the worst of ten runs scatters"));
    let p99 = by(Estimator::P99);
    assert!(
        p99.answer(MARGIN).contains("p99 needs at least 100 samples in each record"),
        "{}",
        p99.answer(MARGIN)
    );
}

#[test]
fn repeated_records_show_a_slow_down_with_their_own_scatter() {
    let (old, new) = (sessions(10, 1.0), sessions(20, 1.15));
    let (a, b): (Vec<&Record>, Vec<&Record>) = (old.iter().collect(), new.iter().collect());
    let found = sides(&a, &b, &[]);
    assert_eq!(found.sessions, [5, 5]);
    let figure = primary(&found);
    assert_eq!((figure.change, figure.spread.unwrap().source), (Change::Worse, SpreadSource::Repeated));
    let answer = figure.answer(MARGIN);
    assert!(answer.starts_with("The new record is slower than the baseline: it "), "{answer}");
    let spread = figure.spread.unwrap().sentence(found.sessions);
    assert!(spread.contains("from the 5 and 5 records of the two sides"), "{spread}");
    // The same build on other days.
    let again: Vec<&Record> = b.iter().rev().copied().collect();
    assert_eq!(sides(&b, &again, &[]).changed().count(), 0);
}

#[test]
fn earlier_sessions_of_the_same_work_on_this_machine_give_the_scatter() {
    let earlier = sessions(30, 1.0);
    let earlier: Vec<&Record> = earlier.iter().collect();
    let (old, new) = (session(1, 1.0), session(2, 1.3));
    let found = sides(&[&old], &[&new], &earlier);
    let spread = primary(&found).spread.unwrap();
    assert_eq!(spread.source, SpreadSource::Known);
    assert!(spread.sentence(found.sessions).contains("earlier results of the same work on this machine"));
    // Those of another machine do not count, nor do the compared records themselves.
    let elsewhere = Record { machine: SyntheticMachine::server().record().machine, ..session(40, 1.0) };
    for others in [vec![&elsewhere; 6], vec![&old, &new, &old, &new, &old, &new]] {
        let found = sides(&[&old], &[&new], &others);
        assert_eq!(primary(&found).spread.unwrap().source, SpreadSource::Assumed);
    }
}

#[test]
fn variants_whose_command_changed_are_compared_in_their_order() {
    let old = session(1, 1.0);
    let mut new = session(2, 1.0);
    for treatment in &mut new.experiments[0].treatments {
        treatment.name = treatment.name.replace("gzip", "./new/gzip");
    }
    let figures = alone(&old, &new).figures;
    assert_eq!(figures.len(), 2, "{figures:?}");
    assert!(figures.iter().all(|figure| figure.what.starts_with("./new/gzip")));
}

/// Regression test: a variant without a counterpart was left out silently.
#[test]
fn variants_of_one_side_only_are_listed() {
    let (old, mut new) = (session(1, 1.0), session(2, 1.0));
    let treatments = &mut new.experiments[0].treatments;
    treatments[0].name = "zstd".to_owned();
    treatments.push(Treatment { name: "xz".to_owned(), ..treatments[1].clone() });
    let found = alone(&old, &new);
    assert!(found.figures.iter().all(|figure| figure.what.contains("gzip")));
    let said = found.not_compared.join("; ");
    assert!(said.contains("the new records have zstd and xz, and the baseline gzip"), "{said}");
}

#[test]
fn metrics_of_one_side_only_are_listed() {
    let machine = quiet(1);
    let (old, mut new) = (machine.compare_service(1.0), quiet(2).compare_service(1.0));
    for metric in &mut new.experiments[0].metrics[1..] {
        metric.name.push('2');
    }
    let found = alone(&old, &new);
    assert!(found.figures.iter().all(|figure| figure.metric == "requests" && figure.is_primary));
    assert!(
        found.not_compared.iter().any(|why| why.contains("not all records have the metric")),
        "{found:?}"
    );
}

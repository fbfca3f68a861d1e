use crate::{Evaluation, compare, is_conclusive_enough, rank_treatments};
use manycore_experiment::{
    Record,
    record::{Direction, Experiment, Method, Metric, Sample, Treatment, factor, id, parameter},
};
use manycore_stats::{
    Estimator,
    verdict::{Answer, parameter as rule},
};
use std::collections::BTreeMap;

/// Runs of A and B with these times, and noise of 1 %.
fn experiment(runs: usize, a: impl Fn(usize) -> f64, b: impl Fn(usize) -> f64) -> Experiment {
    let treatment = |label: &str| Treatment {
        name: label.to_owned(),
        workers: 1,
        factors: BTreeMap::from([(factor::VARIANT.to_owned(), label.to_owned())]),
        latency: None,
    };
    let sample = |block: usize, treatment: usize, time: f64| {
        let noise = ((block * 37 + treatment * 11) % 101) as f64 / 10_000.0;
        let value = time * (1.0 + noise);
        Sample {
            block,
            treatment,
            wall_ns: (value * 1e9) as u64,
            work: 1.0,
            values: vec![value],
            ..Sample::default()
        }
    };
    Experiment {
        id: id::COMPARE.to_owned(),
        method: Method::WholeRun,
        unit: "runs".to_owned(),
        parameters: BTreeMap::new(),
        metrics: vec![Metric { name: "wall".to_owned(), unit: "s".to_owned(), better: Direction::Lower }],
        treatments: vec![treatment("A"), treatment("B")],
        samples: (0..runs)
            .flat_map(|block| [sample(block, 0, a(block)), sample(block, 1, b(block))])
            .collect(),
    }
}

/// B is 3 % faster, and every fifth run of it takes five times as long.
fn sometimes_slow(block: usize) -> f64 {
    if block % 5 == 2 { 4.85 } else { 0.97 }
}

fn answer(experiment: &Experiment) -> String {
    let record = Record { experiments: vec![experiment.clone()], ..Record::default() };
    Evaluation::from_record(&record).findings[0].text.clone()
}

#[test]
fn a_faster_variant_with_a_worse_mean_is_a_trade_off() {
    let experiment = experiment(200, |_| 1.0, sometimes_slow);
    let comparison = compare(&experiment).unwrap();
    let other = &comparison.others[0];
    let found = other.trade_off.unwrap();
    assert_eq!((other.verdict.answer, found.estimator), (Answer::TradeOff, Estimator::Mean));
    assert!(found.is_proven && found.b_is_worse && (found.ratio.median - 1.746).abs() < 0.02, "{found:?}");
    assert_eq!(found.worse_runs.unwrap().runs, 40);
    let text = answer(&experiment);
    assert!(
        text.starts_with("A trade-off: B takes 2.9 % less time than A typically (0.971x; 95 %: "),
        "{text}"
    );
    assert!(text.contains(", but the mean of B is 75 % worse (95 %: "), "{text}");
    assert!(
        text.ends_with(": a fifth of the runs of B (40 of 200) take 5.0 times as long as the others."),
        "{text}"
    );
    assert!(is_conclusive_enough(&experiment, None));
    // Regression test: "p = 0.98" beside the interval of another test.
    let record = Record { experiments: vec![experiment], ..Record::default() };
    let evidence = &Evaluation::from_record(&record).findings[0].evidence;
    assert!(evidence.contains(&"200 pairs".to_owned()), "{evidence:?}");
}

/// Regression test: with few pairs, the estimate of the typical pair is pulled by the slow runs and inconclusive.
#[test]
fn a_trade_off_is_seen_in_few_pairs() {
    let experiment = experiment(50, |_| 1.0, sometimes_slow);
    let other = compare(&experiment).unwrap().others.remove(0);
    let found = other.trade_off.unwrap();
    assert_eq!((other.verdict.answer, other.pairs_needed), (Answer::TradeOff, None));
    // Regression test: the sentence had the median pair, and tables, gates and exports the inconclusive estimate.
    let (rates, values) = (found.median_pair.unwrap(), other.metrics[0].ratio.unwrap());
    assert!((rates.median - 1.0 / 0.971).abs() < 0.001, "{found:?}");
    assert_eq!((other.verdict.ratio, other.verdict.interval), (rates.median, rates.interval));
    assert!((values.median * rates.median - 1.0).abs() < 1e-9 && other.verdict.p < 1e-4, "{values:?}");
    let text = answer(&experiment);
    assert!(
        text.starts_with("A trade-off: B takes 2.9 % less time than A in the median pair (0.971x; 95 %: "),
        "{text}"
    );
    assert!(text.contains(", but the mean of B is 75 % worse (99.5 %: "), "{text}");
}

#[test]
fn a_slower_variant_with_a_better_mean_is_a_trade_off() {
    let comparison = compare(&experiment(200, sometimes_slow, |_| 1.0)).unwrap();
    let found = comparison.others[0].trade_off.unwrap();
    assert!(!found.b_is_worse && found.ratio.median < 0.6, "{found:?}");
    let text = answer(&experiment(200, sometimes_slow, |_| 1.0));
    assert!(
        text.contains("the mean of B is 43 % better") && text.contains("of the runs of A (40 of 200)"),
        "{text}"
    );
}

#[test]
fn a_difference_of_all_runs_is_none() {
    for b in [0.9, 1.0, 1.1] {
        let comparison = compare(&experiment(200, |_| 1.0, |_| b)).unwrap();
        assert_eq!(comparison.others[0].trade_off, None);
        assert_ne!(comparison.others[0].verdict.answer, Answer::TradeOff);
    }
}

#[test]
fn a_trade_off_that_is_only_likely_is_measured_further() {
    // Five of the runs are slow: in one of 16 experiments with identical variants, all of five are runs of one of them.
    let slow = [3, 11, 20, 29, 35];
    let experiment = experiment(40, |_| 1.0, |block| if slow.contains(&block) { 4.85 } else { 0.97 });
    let other = compare(&experiment).unwrap().others.remove(0);
    let found = other.trade_off.unwrap();
    assert!(!found.is_proven && other.verdict.answer == Answer::TradeOff, "{found:?}");
    assert!(!is_conclusive_enough(&experiment, None));
    assert!(answer(&experiment).contains("the mean of B is probably "), "{}", answer(&experiment));
}

#[test]
fn the_estimator_of_the_record_decides() {
    let mut by_mean = experiment(200, |_| 1.0, sometimes_slow);
    by_mean.parameters.insert(parameter::ESTIMATOR.to_owned(), "mean".to_owned());
    by_mean.parameters.insert(rule::MARGIN.to_owned(), "0.02".to_owned());
    let other = compare(&by_mean).unwrap().others.remove(0);
    assert_eq!((other.verdict.estimator, other.verdict.answer), (Estimator::Mean, Answer::TradeOff));
    let text = answer(&by_mean);
    assert!(
        text.starts_with("A trade-off: B takes 75 % longer than A by the mean (1.746x; 95 %: "),
        "{text}"
    );
    assert!(text.contains("the typical run of B is 2.9 % better"), "{text}");
    // Regression test: an odd run of A was named as the cause.
    assert!(text.contains("of the runs of B (40 of 200)"), "{text}");

    let slower = |by: &str| {
        let mut experiment = experiment(100, |_| 1.0, |_| 1.5);
        experiment.parameters.insert(parameter::ESTIMATOR.to_owned(), by.to_owned());
        answer(&experiment)
    };
    assert!(
        slower("mean").starts_with("B is slower than A: it takes 50 % longer by the mean"),
        "{}",
        slower("mean")
    );
    assert!(slower("p95").contains("longer by p95"), "{}", slower("p95"));
    assert!(slower("max").contains("longer by the worst of ten runs"), "{}", slower("max"));
    assert!(
        slower("p99")
            .starts_with("Inconclusive: 100 pairs are too few for p99, an answer needs at least 368")
    );
    assert_eq!(slower("unknown"), slower("median"));
}

/// Regression test: a race by the mean dropped variants by their typical run.
#[test]
fn a_race_drops_variants_by_the_estimator_of_the_record() {
    let mut experiment = experiment(10, |_| 1.0, sometimes_slow);
    let order = |experiment: &Experiment| {
        rank_treatments(experiment).into_iter().map(|(one, _)| one).collect::<Vec<_>>()
    };
    assert_eq!(order(&experiment), [1, 0]);
    for by in ["mean", "p90", "max"] {
        experiment.parameters.insert(parameter::ESTIMATOR.to_owned(), by.to_owned());
        assert_eq!(order(&experiment), [0, 1], "{by}");
    }
    // A block that was cut short does not count, and a variant that always failed is the last one.
    experiment.samples.push(Sample { block: 10, treatment: 0, values: vec![99.0], ..Sample::default() });
    assert_eq!(order(&experiment), [0, 1]);
    for sample in experiment.samples.iter_mut().filter(|sample| sample.treatment == 0) {
        sample.exit_codes = vec![1];
    }
    assert_eq!(rank_treatments(&experiment)[1], (0, f64::NEG_INFINITY));
    // Of rates, the larger figure is the better one.
    experiment.samples.iter_mut().for_each(|sample| sample.exit_codes.clear());
    experiment.metrics[0].better = Direction::Higher;
    experiment.parameters.insert(parameter::ESTIMATOR.to_owned(), "mean".to_owned());
    assert_eq!(order(&experiment), [1, 0]);
}

use super::*;
use manycore_experiment::record::{Method, Treatment, factor};
use std::collections::BTreeMap;

/// Runs of A and B with these values of a metric.
fn experiment(better: Direction, a: &[f64], b: &[f64]) -> Experiment {
    let treatment = |label: &str| Treatment {
        name: label.to_owned(),
        workers: 1,
        factors: BTreeMap::from([(factor::VARIANT.to_owned(), label.to_owned())]),
        latency: None,
    };
    let sample = |treatment: usize| {
        move |(block, value): (usize, &f64)| Sample {
            block,
            treatment,
            wall_ns: 1_000_000_000,
            values: vec![*value],
            ..Sample::default()
        }
    };
    let samples = a.iter().enumerate().map(sample(0)).chain(b.iter().enumerate().map(sample(1)));
    Experiment {
        id: "compare".to_owned(),
        method: Method::WholeRun,
        unit: "runs".to_owned(),
        parameters: BTreeMap::new(),
        metrics: vec![Metric { name: "wall".to_owned(), unit: "s".to_owned(), better }],
        treatments: vec![treatment("A"), treatment("B")],
        samples: samples.collect(),
    }
}

/// Times around 1, of which the order is neither a slope nor a cycle of few runs.
fn times(n: u32) -> Vec<f64> {
    (0..n).map(|index| 1.0 + f64::from(index * 37 % 101) / 5000.0).collect()
}

/// Every fifth run takes five times as long.
fn sometimes_slow(n: u32) -> Vec<f64> {
    times(n).iter().enumerate().map(|(index, time)| if index % 5 == 3 { 5.0 * time } else { *time }).collect()
}

#[test]
fn each_variant_has_its_figures() {
    let found = evaluate(&experiment(Direction::Lower, &[1.0, 2.0, 3.0, 6.0], &times(100)));
    let [a, b] = found.as_slice() else { unreachable!("{found:?}") };
    assert_eq!((a.label.as_str(), a.treatment, a.n, a.mean.value, a.median.value), ("A", 0, 4, 3.0, 2.5));
    assert_eq!((a.min, a.max, a.mean.interval, a.tail.as_slice()), (1.0, 6.0, None, &[][..]));
    assert!((a.standard_deviation - (14.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    let reached: Vec<Estimator> = b.tail.iter().map(|one| one.quantile).collect();
    assert_eq!(reached, [Estimator::P90, Estimator::P95, Estimator::P99]);
    assert!(b.quantile(Estimator::P95).unwrap().interval.is_some());
    assert_eq!(b.quantile(Estimator::P99).unwrap().interval, None);
    let (low, high) = b.mean.interval.unwrap();
    assert!(low < b.mean.value && b.mean.value < high);
    assert_eq!(b.shape, Shape::default());
}

#[test]
fn the_tail_is_that_of_the_worse_values() {
    let values: Vec<f64> = (1..=100).map(f64::from).collect();
    let of =
        |better| evaluate(&experiment(better, &values, &values))[0].quantile(Estimator::P90).unwrap().value;
    assert!((of(Direction::Lower) - 90.1).abs() < 1e-9 && (of(Direction::Higher) - 10.9).abs() < 1e-9);
}

#[test]
fn runs_that_take_five_times_as_long_are_a_group() {
    let slow = sometimes_slow(100);
    let found = evaluate(&experiment(Direction::Lower, &times(100), &slow)).remove(1).shape;
    let group = found.worse_runs.unwrap();
    assert!(found.has_modes && group.runs == 20 && (group.share - 0.2).abs() < 1e-9, "{found:?}");
    assert!((group.ratio - 5.0).abs() < 0.1, "{group:?}");
    let rates: Vec<f64> = slow.iter().map(|time| 1.0 / time).collect();
    let found = evaluate(&experiment(Direction::Higher, &rates, &rates)).remove(0).shape;
    assert!((found.worse_runs.unwrap().ratio - 0.2).abs() < 0.01, "{found:?}");
}

#[test]
fn a_difference_within_the_margin_is_no_flag() {
    let mut values = times(40);
    values[9] = 1.9;
    assert_eq!(evaluate(&experiment(Direction::Lower, &values, &values))[0].shape.worse_outliers, 1);
    let drifting: Vec<f64> = (0..40).map(|index| 1.0 + f64::from(index) * 1e-4).collect();
    assert_eq!(evaluate(&experiment(Direction::Lower, &drifting, &drifting))[0].shape.drift, None);
    let more: Vec<f64> = (0..40).map(|index| 1.0 + f64::from(index) * 1e-2).collect();
    assert!(evaluate(&experiment(Direction::Lower, &more, &more))[0].shape.drift.unwrap() > 1.2);
}

use super::*;
use crate::compare;
use manycore_experiment::record::{Direction, Experiment, Method, Metric, Sample, Treatment};
use manycore_stats::verdict::parameter;
use std::collections::BTreeMap;

/// Returns pairs whose values of one metric have these ratios of B over A.
fn experiment(name: &str, unit: &str, better: Direction, ratios: &[f64]) -> Experiment {
    let side = |side: &str| Treatment {
        name: side.to_owned(),
        workers: 1,
        factors: BTreeMap::from([("variant".to_owned(), side.to_owned())]),
        latency: None,
    };
    let sample = |(block, treatment, value): (usize, usize, f64)| Sample {
        block,
        treatment,
        wall_ns: 1_000_000_000,
        work: if better == Direction::Higher { value } else { 1.0 / value },
        values: vec![value],
        ..Sample::default()
    };
    Experiment {
        id: "compare".to_owned(),
        method: Method::WholeRun,
        unit: "runs".to_owned(),
        parameters: BTreeMap::new(),
        metrics: vec![Metric { name: name.to_owned(), unit: unit.to_owned(), better }],
        treatments: ["A", "B"].map(side).to_vec(),
        samples: ratios
            .iter()
            .enumerate()
            .flat_map(|(block, ratio)| [(block, 0, 3.0), (block, 1, 3.0 * ratio)])
            .map(sample)
            .collect(),
    }
}

fn around(ratio: f64, spread: f64) -> Vec<f64> {
    (0..20).map(|index| ratio * (1.0 + spread * (f64::from(index) - 9.5) / 10.0)).collect()
}

fn text(experiment: &Experiment) -> String {
    find(&compare(experiment).unwrap()).text
}

#[test]
fn a_time_takes_longer_and_a_rate_does_less() {
    assert_eq!(
        text(&experiment("wall", "s", Direction::Lower, &around(2.0, 0.01))),
        "B is slower than A: it takes 100 % longer (2.000x; 95 %: 99 to 101 % longer)."
    );
    assert_eq!(
        text(&experiment("requests", "requests/s", Direction::Higher, &around(0.5, 0.01))),
        "B is worse than A: it does 50 % less in requests (0.500x; 95 %: 50 to 50 % less)."
    );
}

#[test]
fn the_ratio_of_the_headline_is_that_of_the_table() {
    // Skewed, so that the median, the pseudo-median and the median of the inverse differ.
    let ratios: Vec<f64> = (0..21).map(|index| 1.05 + f64::from(index * index) / 500.0).collect();
    for better in [Direction::Lower, Direction::Higher] {
        let comparison = compare(&experiment("figure", "s", better, &ratios)).unwrap();
        let table = comparison.metrics[0].ratio.unwrap().median;
        let headline = find(&comparison).text;
        assert!(headline.contains(&format!("({table:.3}x;")), "{headline} beside {table}");
        let of_verdict = if better == Direction::Lower {
            1.0 / comparison.verdict.ratio
        } else {
            comparison.verdict.ratio
        };
        assert!((of_verdict / table - 1.0).abs() < 1e-12);
        assert_eq!(comparison.metrics[0].answer, comparison.verdict.answer);
    }
}

#[test]
fn small_differences_are_equivalent_or_real_and_within_the_margin() {
    let same = text(&experiment("wall", "s", Direction::Lower, &around(1.0, 0.01)));
    assert!(same.starts_with("A and B are equivalent within 2.0 %: B takes "), "{same}");
    let small = text(&experiment("wall", "s", Direction::Lower, &around(1.01, 0.002)));
    assert!(small.starts_with("B is slower than A: it takes 1.0 % longer (1.010x; "), "{small}");
    assert!(small.ends_with("real and within the margin of 2.0 %: too small to matter."), "{small}");
    let mut wide = experiment("wall", "s", Direction::Lower, &around(1.03, 0.002));
    assert!(!text(&wide).contains("margin"));
    wide.parameters.insert(parameter::MARGIN.to_owned(), "0.05".to_owned());
    assert!(text(&wide).contains("within the margin of 5.0 %"), "{}", text(&wide));
}

#[test]
fn an_inconclusive_comparison_reports_possible_differences_and_pairs_needed() {
    let text = text(&experiment("wall", "s", Direction::Lower, &around(1.02, 0.4)));
    assert!(text.starts_with("Inconclusive: B may take "), "{text}");
    assert!(text.contains("% less time to ") && text.contains(" pairs in total ("), "{text}");
    let few = self::text(&experiment("wall", "s", Direction::Lower, &[1.1; 5]));
    assert!(few.contains("5 pairs; an interval needs at least six"), "{few}");
}

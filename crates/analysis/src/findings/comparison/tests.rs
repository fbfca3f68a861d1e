use super::*;
use crate::compare;
use manycore_experiment::record::{Direction, Experiment, Method, Metric, SAME_NAME, Sample, Treatment};
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

fn found(experiment: &Experiment) -> Finding {
    let record = Record { experiments: vec![experiment.clone()], ..Record::default() };
    find(&record, &compare(experiment).unwrap())
}

fn text(experiment: &Experiment) -> String {
    found(experiment).text
}

/// Returns the lines of evidence that contain `words`.
fn evidence(experiment: &Experiment, words: &str) -> Vec<String> {
    found(experiment).evidence.into_iter().filter(|line| line.contains(words)).collect()
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
        let experiment = experiment("figure", "s", better, &ratios);
        let comparison = compare(&experiment).unwrap();
        let table = comparison.others[0].metrics[0].ratio.unwrap().median;
        let headline = text(&experiment);
        assert!(headline.contains(&format!("({table:.3}x;")), "{headline} beside {table}");
        let of_verdict = if better == Direction::Lower {
            1.0 / comparison.others[0].verdict.ratio
        } else {
            comparison.others[0].verdict.ratio
        };
        assert!((of_verdict / table - 1.0).abs() < 1e-12);
        assert_eq!(comparison.others[0].metrics[0].answer, comparison.others[0].verdict.answer);
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
}

/// Regression test: "B may take 35 % less time than A of 2 pairs; an interval needs at least six."
#[test]
fn too_few_pairs_are_named_with_how_many_an_answer_needs() {
    let of = |ratios: &[f64]| text(&experiment("wall", "s", Direction::Lower, ratios));
    assert_eq!(
        of(&[1.1; 5]),
        "Inconclusive: 5 pairs are too few, an answer needs at least 6 (--pairs 6, about 1 s). So far, B takes 10 % \
         longer."
    );
    let one = of(&[1.1]);
    assert!(
        one.starts_with("Inconclusive: 1 pair is too few, an answer needs at least 6 (--pairs 6, "),
        "{one}"
    );
}

#[test]
fn a_clearly_shorter_time_says_how_many_times_as_fast_b_is() {
    assert_eq!(
        text(&experiment("wall", "s", Direction::Lower, &around(0.625, 0.01))),
        "B is faster than A: it takes 38 % less time and is 1.60 times as fast (0.625x; 95 %: 37 to 38 % less time)."
    );
}

/// Regression test: a comparison of a command with itself reported that B is better.
#[test]
fn a_variant_compared_with_itself_has_no_winner() {
    let mut twice = experiment("wall", "s", Direction::Lower, &around(0.9, 0.01));
    twice.treatments[1].name = format!("A{SAME_NAME}");
    let found = found(&twice);
    assert!(
        found.text.starts_with("A and B are the same, so their true ratio is 1. Measured: 0.900x; 95 %: ")
    );
    assert!(
        found.text.ends_with(" The difference is chance: about one of 20 such runs shows one."),
        "{}",
        found.text
    );
    assert_eq!(found.evidence[0], "A and B: A");
    let mut even = experiment("wall", "s", Direction::Lower, &around(1.0, 0.2));
    even.parameters.insert("same_variants".to_owned(), "yes".to_owned());
    assert!(text(&even).ends_with("What remains is the noise of this machine."), "{}", text(&even));
    even.samples.truncate(4);
    assert!(text(&even).starts_with("Inconclusive: 2 pairs are too few"), "{}", text(&even));
}

/// Returns an experiment with a variant for each of these functions of the block.
fn variants(values: &[fn(usize) -> f64], blocks: usize) -> Experiment {
    let mut all = experiment("wall", "s", Direction::Lower, &[]);
    all.treatments = (0..values.len())
        .map(|index| {
            let label = manycore_experiment::record::variant_label(index);
            Treatment {
                name: label.clone(),
                workers: 1,
                factors: BTreeMap::from([("variant".to_owned(), label)]),
                latency: None,
            }
        })
        .collect();
    for block in 0..blocks {
        for (treatment, of) in values.iter().enumerate() {
            let value = of(block);
            let (values, work, wall_ns) = (vec![value], 1.0 / value, 1_000_000_000);
            all.samples.push(Sample { block, treatment, values, work, wall_ns, ..Sample::default() });
        }
    }
    all
}

/// Regression test: a race that was interrupted had no answer at all.
#[test]
fn a_race_that_was_interrupted_is_inconclusive() {
    let one: fn(usize) -> f64 = |_| 1.0;
    let mut race = variants(&[one; 9], 1);
    race.id = "compare-race-1".to_owned();
    let record = Record { experiments: vec![race], interrupted: true, ..Record::default() };
    assert_eq!(
        crate::Evaluation::from_record(&record).findings[0].text,
        "Inconclusive: the measurement ended during the race of 9 variants, before the best ones were compared with A."
    );
}

/// Regression test: "about 110000 rounds in total (4 days) would give an answer".
#[test]
fn more_than_a_day_is_no_advice() {
    let mut noisy = experiment("wall", "s", Direction::Lower, &around(1.001, 0.9));
    let said = text(&noisy);
    assert!(said.contains(" would give an answer"), "{said}");
    for sample in &mut noisy.samples {
        sample.start_ns = sample.block as u64 * 60_000_000_000;
    }
    let said = text(&noisy);
    assert!(said.contains("an answer would take more than a day"), "{said}");
}

fn noise(block: usize, size: f64) -> f64 {
    1.0 + size * (((block * 37) % 101) as f64 / 50.0 - 1.0)
}

/// Regression test: variants that were proven to be worse than the reference were in one tie with it, because another one
/// was undecided.
#[test]
fn a_partial_order_is_not_a_tie() {
    let three = variants(
        &[|block| noise(block, 0.01), |block| noise(block * 3, 0.9), |block| 1.2 * noise(block * 7, 0.01)],
        20,
    );
    let comparison = compare(&three).unwrap();
    assert_eq!((comparison.ordered.as_slice(), comparison.ranking.len()), (&[(0, 2)][..], 1));
    assert_eq!([0, 1, 2].map(|treatment| comparison.place(treatment)), [1, 1, 2]);
    let said = text(&three);
    assert!(said.starts_with("The order is proven in part: A is faster than C."), "{said}");
}

/// Regression test: seven variants that clearly differ "tied" in eight rounds, which cannot prove an order of so many.
#[test]
fn too_few_rounds_for_an_order_are_no_tie() {
    let steps: [fn(usize) -> f64; 7] = [
        |block| noise(block, 0.01),
        |block| 2.0 * noise(block, 0.01),
        |block| 3.0 * noise(block, 0.01),
        |block| 4.0 * noise(block, 0.01),
        |block| 5.0 * noise(block, 0.01),
        |block| 6.0 * noise(block, 0.01),
        |block| 7.0 * noise(block, 0.01),
    ];
    let said = text(&variants(&steps, 8));
    assert!(
        said.contains("(order open). To order all 7 variants takes at least 10 rounds (--pairs 10)."),
        "{said}"
    );
    let said = text(&variants(&steps, 10));
    assert!(said.starts_with("Fastest: A; then B; then C; then D; then E; then F; then G."), "{said}");
}

/// Regression test: beside an effect that was found, the minimum detectable effect was shown as well.
#[test]
fn the_minimum_detectable_effect_is_shown_without_a_found_effect_only() {
    for (ratio, spread, lines) in [(0.6, 0.01, 0), (1.0, 0.01, 0), (1.02, 0.4, 1)] {
        let experiment = experiment("wall", "s", Direction::Lower, &around(ratio, spread));
        assert_eq!(evidence(&experiment, "minimum detectable").len(), lines, "{ratio} {spread}");
    }
}

/// Regression test: "interim analysis 1 of 2, level 0.0052; the interval holds" for a run without an interval.
#[test]
fn the_end_at_a_planned_analysis_is_told_in_words() {
    let mut planned = experiment("wall", "s", Direction::Lower, &around(0.6, 0.01));
    planned.parameters.insert(parameter::ANALYSES.to_owned(), "3".to_owned());
    let mut end = |analysis: &str| {
        planned.parameters.insert(parameter::ANALYSIS.to_owned(), analysis.to_owned());
        evidence(&planned, "analys")
    };
    assert_eq!(
        end("1"),
        ["ended early, at analysis 1 of the 3 planned ones; the 95 % interval allows for all of them"]
    );
    assert_eq!(
        end("3"),
        ["ended at the last of 3 planned analyses; the 95 % interval allows for all of them"]
    );
    planned.samples.truncate(4);
    let record = Record { experiments: vec![planned.clone()], interrupted: true, ..Record::default() };
    let found = find(&record, &compare(&planned).unwrap());
    assert!(
        found.evidence.contains(&"interrupted before analysis 3 of the 3 planned ones".to_owned()),
        "{found:?}"
    );
}

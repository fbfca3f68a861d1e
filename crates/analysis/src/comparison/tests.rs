use super::*;
use manycore_experiment::record::{Method, Sample, Treatment, factor, variant_label};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// Returns blocks in which the variants have these rates, each with some noise.
fn experiment(rates: &[f64], noise: f64, blocks: usize, seed: u64) -> Experiment {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let treatment = |index: usize| Treatment {
        name: format!("command {index}"),
        workers: 1,
        factors: BTreeMap::from([(factor::VARIANT.to_owned(), variant_label(index))]),
        latency: None,
    };
    let mut samples = Vec::new();
    for block in 0..blocks {
        for (treatment, rate) in rates.iter().enumerate() {
            let work = rate * (1.0 + noise * (rng.random::<f64>() - 0.5));
            samples.push(Sample { block, treatment, wall_ns: 1_000_000_000, work, ..Sample::default() });
        }
    }
    Experiment {
        id: "compare".to_owned(),
        method: Method::WholeRun,
        unit: "runs".to_owned(),
        parameters: BTreeMap::new(),
        metrics: Vec::new(),
        treatments: (0..rates.len()).map(treatment).collect(),
        samples,
    }
}

#[test]
fn all_variants_are_compared_with_the_reference_and_ranked() {
    let mut experiment = experiment(&[1.0, 1.2, 0.8, 1.2], 0.02, 40, 1);
    let compared = evaluate(&experiment).unwrap();
    assert_eq!(compared.reference, 0);
    let answers: Vec<Answer> = compared.others.iter().map(|other| other.verdict.answer).collect();
    assert_eq!(answers, [Answer::BBetter, Answer::ABetter, Answer::BBetter]);
    let tied: Vec<BTreeSet> = compared.ranking.iter().map(|group| group.iter().copied().collect()).collect();
    assert_eq!(tied, [BTreeSet::from([1, 3]), [0].into(), [2].into()]);
    assert_eq!((compared.title(2), compared.name(2)), ("C", "command 2"));
    experiment.parameters.insert(parameter::REFERENCE.to_owned(), "C".to_owned());
    let compared = evaluate(&experiment).unwrap();
    assert_eq!(compared.reference, 2);
    assert!(compared.others.iter().all(|other| other.verdict.answer == Answer::BBetter));
    experiment.parameters.insert(parameter::REFERENCE.to_owned(), "Q".to_owned());
    assert_eq!(evaluate(&experiment), None);
}

type BTreeSet = std::collections::BTreeSet<usize>;

#[test]
fn levels_are_divided_among_the_variants() {
    let compared = evaluate(&experiment(&[1.0; 5], 0.1, 30, 2)).unwrap();
    assert!(compared.others.iter().all(|other| (other.verdict.rule.level - 0.05 / 4.0).abs() < 1e-12));
    let two = evaluate(&experiment(&[1.0; 2], 0.1, 30, 2)).unwrap();
    assert_eq!(two.only_other().unwrap().verdict.rule, DecisionRule::default());
}

#[test]
fn five_identical_variants_rarely_give_any_claim() {
    let is_claimed = |seed: u64| {
        let compared = evaluate(&experiment(&[1.0; 5], 0.1, 24, seed)).unwrap();
        compared.ranking.len() > 1 || compared.others.iter().any(|other| other.verdict.is_different())
    };
    let claimed = (0..400).filter(|&seed| is_claimed(seed)).count();
    assert!(claimed <= 24, "{claimed} of 400 at 5 %");
}

#[test]
fn a_variant_that_always_fails_is_neither_compared_nor_ranked() {
    let mut experiment = experiment(&[1.0, 1.2, 1.4], 0.02, 20, 3);
    for sample in experiment.samples.iter_mut().filter(|sample| sample.treatment == 2) {
        sample.exit_codes = vec![1];
    }
    let compared = evaluate(&experiment).unwrap();
    assert_eq!((compared.variants.len(), compared.others.len()), (3, 1));
    assert_eq!(compared.ranking, [[1], [0]]);
    assert!(compared.only_other().is_none(), "three variants are not a pair");
    assert_eq!(compared.others[0].verdict.rule, DecisionRule::default());
}

#[test]
fn a_run_ends_early_when_every_comparison_is_conclusive() {
    let clear = experiment(&[1.0, 1.2, 0.8], 0.02, 20, 4);
    assert!(is_conclusive_enough(&clear, None));
    assert!(is_conclusive_enough(&clear, Some(0.05)) && !is_conclusive_enough(&clear, Some(0.0001)));
    assert!(!is_conclusive_enough(&experiment(&[1.0, 1.2, 1.01], 0.4, 20, 4), None));
    assert!(!is_conclusive_enough(&experiment(&[1.0], 0.1, 20, 4), None));
}

use super::*;
use manycore_experiment::record::{Method, Sample, Treatment, factor, id};

/// An experiment with variants A and B: the latency of half of the requests in each run.
fn experiment(blocks: &[(f64, f64)]) -> Experiment {
    let treatment = |name: &str| Treatment {
        name: name.to_owned(),
        workers: 1,
        factors: [(factor::VARIANT.to_owned(), name.to_owned())].into(),
        latency: None,
    };
    let times = |typical: f64| {
        let points = [(0.5, 1.0), (0.75, 1.2), (0.9, 1.5), (0.99, 2.0), (1.0, 30.0)];
        let points = points.iter().map(|(share, factor)| (typical * factor, share * 1e5)).collect();
        RequestTimes::new("", "ms", 1e5, points).unwrap()
    };
    let sample = |block: usize, treatment: usize, typical: f64| Sample {
        block,
        treatment,
        wall_ns: 1_000_000_000,
        work: 1.0,
        requests: vec![times(typical)],
        ..Sample::default()
    };
    Experiment {
        id: id::COMPARE.to_owned(),
        method: Method::WholeRun,
        unit: "requests".to_owned(),
        parameters: BTreeMap::new(),
        metrics: Vec::new(),
        treatments: vec![treatment("A"), treatment("B")],
        samples: blocks
            .iter()
            .enumerate()
            .flat_map(|(block, &(a, b))| [sample(block, 0, a), sample(block, 1, b)])
            .collect(),
    }
}

#[test]
fn a_variant_whose_requests_take_longer_is_worse_in_every_quantile() {
    let blocks: Vec<(f64, f64)> =
        (0..12).map(|at| (1.0 + f64::from(at) / 100.0, 1.3 + f64::from(at) / 80.0)).collect();
    let [a, b] = evaluate(&experiment(&blocks)).try_into().unwrap();
    assert_eq!((a.runs, a.requests, a.unresolved.as_slice()), (12, 1_200_000, &["p99.9".to_owned()][..]));
    assert!(a.quantiles.iter().all(|quantile| quantile.ratio.is_none() && quantile.answer.is_none()));
    for quantile in &b.quantiles {
        assert_eq!(quantile.answer, Some(Answer::ABetter), "{quantile:?}");
        let ratio = quantile.ratio.unwrap();
        assert!((1.29..1.32).contains(&ratio.median), "{ratio:?}");
    }
}

/// A million requests in each of five runs are five runs.
#[test]
fn few_runs_with_many_requests_prove_nothing() {
    let all = evaluate(&experiment(&[(1.0, 2.0), (1.1, 2.2), (1.0, 2.1), (1.0, 2.0), (1.2, 2.4)]));
    for quantile in &all[1].quantiles {
        assert_eq!((quantile.answer, quantile.per_run.interval), (Some(Answer::Inconclusive), None));
    }
}

#[test]
fn an_experiment_without_requests_has_none() {
    let mut without = experiment(&[(1.0, 2.0); 8]);
    without.samples.iter_mut().for_each(|sample| sample.requests.clear());
    assert_eq!(evaluate(&without), []);
}

/// Runs differ by a factor of their own (30 %) and one in five stalls. With identical variants, any of the quantiles is
/// claimed to differ in at most 5 % of 1000 experiments, up to chance, and the interval of a run's typical
/// p99 covers the true one in at least 95 %.
#[test]
fn identical_variants_are_claimed_to_differ_in_at_most_one_of_twenty() {
    let mut state = 17_u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let mut run = || {
        let noise: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        (0.3 * noise).exp() * if uniform() < 0.2 { 5.0 } else { 1.0 }
    };
    let mut draws: Vec<f64> = (0..20_001).map(|_| run()).collect();
    draws.sort_by(f64::total_cmp);
    let (mut claims, mut covered) = (0, 0);
    for _ in 0..1000 {
        let blocks: Vec<(f64, f64)> = (0..10).map(|_| (run(), run())).collect();
        let all = evaluate(&experiment(&blocks));
        let differs =
            |quantile: &RequestQuantile| matches!(quantile.answer, Some(Answer::ABetter | Answer::BBetter));
        claims += usize::from(all[1].quantiles.iter().any(differs));
        let p99 = all[0].quantiles.iter().find(|quantile| quantile.name == "p99").unwrap();
        let (low, high) = p99.per_run.interval.unwrap();
        covered += usize::from((low..=high).contains(&(draws[10_000] * 2.0)));
    }
    assert!(claims <= 64, "{claims} false claims in 1000");
    assert!(covered >= 935, "{covered} of 1000 intervals cover");
}

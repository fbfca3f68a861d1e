use super::*;
use manycore_stats::MAX_LOG_RATIO;

/// Returns an experiment in which A and B alternate, with one block for each pair of works.
fn experiment(pairs: &[(f64, f64)]) -> Experiment {
    let sample = |block, treatment, work| Sample {
        block,
        treatment,
        work,
        wall_ns: 1_000_000_000,
        ..Sample::default()
    };
    let samples = pairs.iter().enumerate();
    Experiment {
        id: "test".to_owned(),
        method: Method::WholeRun,
        unit: "events".to_owned(),
        parameters: BTreeMap::new(),
        metrics: Vec::new(),
        treatments: vec![Treatment { workers: 1, ..Treatment::default() }; 2],
        samples: samples.flat_map(|(block, &(a, b))| [sample(block, 0, a), sample(block, 1, b)]).collect(),
    }
}

/// Regression test: slices without work were left out, so a lock whose waiters mostly starve looked as
/// good as any.
#[test]
fn a_sample_without_work_is_a_sample() {
    let ratios = experiment(&[(1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.0, 0.0), (2.0, 0.0)]).log_ratios(0, 1);
    assert_eq!(ratios, [-MAX_LOG_RATIO, 0.0, MAX_LOG_RATIO, -MAX_LOG_RATIO]);
    assert!(ratios.iter().all(|ratio| ratio.is_finite()));
}

#[test]
fn values_without_a_ratio_are_skipped() {
    for (a, b) in [(0.0, 0.0), (1.0, -1.0), (f64::NAN, 1.0), (f64::INFINITY, f64::INFINITY)] {
        assert_eq!(log_ratio(a, b), None, "{a} {b}");
    }
}

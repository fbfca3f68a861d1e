use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[test]
fn the_least_numbers_of_samples_are_those_of_the_binomial_distribution() {
    assert_eq!([0.5, 0.9, 0.95, 0.99].map(|q| least_samples(q, 0.05)), [6, 36, 72, 368]);
    // At the first of three interim analyses.
    assert_eq!([0.9, 0.99].map(|q| least_samples(q, 0.0005)), [79, 826]);
    for q in [0.1, 0.5, 0.9, 0.95, 0.99] {
        for level in [0.05, 0.0141, 0.0005] {
            let least = least_samples(q, level);
            let both = |n: usize| {
                let values: Vec<f64> = (0..n).map(|value| value as f64).collect();
                let (low, high) = quantile_interval(&values, q, level);
                low.is_some() && high.is_some()
            };
            assert!(both(least) && !both(least - 1), "{q} at {level}: {least}");
        }
    }
}

/// Conover, table A3: n = 20 gives the 6th and the 15th for the median; exact sums of fractions give 84 and
/// 96 of 100 for the 90 % quantile.
#[test]
fn ranks_are_those_of_published_tables() {
    assert_eq!(ranks(20, 0.5, 0.05), (Some(5), Some(14)));
    assert_eq!(ranks(36, 0.9, 0.05).1, Some(35));
    assert_eq!(ranks(35, 0.9, 0.05).1, None);
    assert_eq!(ranks(0, 0.9, 0.05), (None, None));
    let (low, high) = ranks(100, 0.9, 0.05);
    assert_eq!((low.unwrap() + 1, high.unwrap() + 1), (84, 96));
}

#[test]
fn the_ends_of_two_known_intervals_are_combined() {
    // Each side: the 90 % quantile of 36 values 1, e, e^2, ..., between the 28th (index 27) and the last one.
    let sample = |shift: f64| (0..36).map(move |n| (f64::from(n) + shift).exp());
    let found = log_quantile_ratio(sample(0.0), sample(3.0), 0.9, 0.05).unwrap();
    let (low, high) = ranks(36, 0.9, 0.05);
    let (below, above) = (31.5 - low.unwrap() as f64, high.unwrap() as f64 - 31.5);
    let half = below.hypot(above);
    assert!((found.median - 3.0).abs() < 1e-9);
    let (from, to) = found.interval.unwrap();
    assert!((from - (3.0 - half)).abs() < 1e-9 && (to - (3.0 + half)).abs() < 1e-9);
}

#[test]
fn values_that_have_no_logarithm_are_refused_or_ranked_last() {
    let of = |values: &[f64]| log_quantile_ratio(values.iter().copied(), [1.0].into_iter(), 0.5, 0.05);
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[-1.0]), None);
    assert_eq!(of(&[f64::NAN]), None);
    assert_eq!(of(&[0.0]).unwrap().median, MAX_LOG);
}

#[test]
fn the_interval_of_a_quantile_holds_its_level() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    for (q, n) in [(0.9, 36), (0.95, 100), (0.99, 400)] {
        let covered = (0..1000)
            .filter(|_| {
                let sample: Vec<f64> = (0..n).map(|_| rng.random::<f64>()).collect();
                let (low, high) = quantile_interval(&sample, q, 0.05);
                low.is_some_and(|low| low <= q) && high.is_some_and(|high| q <= high)
            })
            .count();
        assert!(covered >= 935, "{q} of {n}: {covered} of 1000");
    }
}

proptest! {
    #[test]
    fn interval_and_p_agree(
        pairs in prop::collection::vec((0.5f64..2.0, 0.5f64..2.5), 40..120), level in 0.001f64..0.5,
    ) {
        let (a, b) = (pairs.iter().map(|pair| pair.0), pairs.iter().map(|pair| pair.1));
        let interval = log_quantile_ratio(a, b, 0.9, level).unwrap().interval;
        let p = quantile_ratio_p(&pairs, 0.9);
        prop_assume!((p - level).abs() > 1e-4);
        prop_assert_eq!(p < level, interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0));
    }

    #[test]
    fn the_quantile_of_reciprocals_is_the_reciprocal(values in prop::collection::vec(0.1f64..10.0, 2..60)) {
        let side = |values: Vec<f64>| Side::new(values.into_iter()).unwrap();
        let inverse: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
        prop_assert!((side(values).quantile(0.9) + side(inverse).quantile(0.1)).abs() < 1e-9);
    }
}

use super::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn brute_force_p(differences: &[f64]) -> f64 {
    let mut sorted = differences.to_vec();
    sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = sorted.len() as u32;
    let total = n * (n + 1) / 2;
    let seen: u32 = sorted.iter().zip(1..).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let tail = seen.min(total - seen);
    let extreme = (0..1u32 << n)
        .filter(|signs| (0..n).filter(|i| signs >> i & 1 == 1).map(|i| i + 1).sum::<u32>() <= tail)
        .count();
    (2.0 * extreme as f64 / f64::from(1u32 << n)).min(1.0)
}

#[test]
fn signed_rank_equals_enumeration() {
    for differences in [
        vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        vec![-1.0, 2.0, 3.0, -4.0, 5.0, 6.0, 7.0],
        vec![1.0, 1.1, -1.2, 2.0, 2.1, 3.0, -3.1, 3.2],
        vec![0.5; 9],
    ] {
        let p = signed_rank_p(&differences);
        assert!((p - brute_force_p(&differences)).abs() < 1e-12, "{differences:?}: {p}");
    }
}

#[test]
fn signed_rank_matches_textbook_values() {
    // R: wilcox.test(c(1,2,3,4,5,6), exact = TRUE)$p.value
    assert_eq!(signed_rank_p(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 0.03125);
    assert_eq!(signed_rank_p(&[]), 1.0);
    assert_eq!(signed_rank_p(&[0.0, 0.0]), 1.0);
}

/// Hollander, Wolfe and Chicken, example 3.1 (Hamilton depression scale factor IV): estimate -0.46,
/// interval of 96.1 % from -0.786 to -0.010, p = 0.039.
#[test]
#[allow(clippy::approx_constant, reason = "a measured value of the example")]
fn the_textbook_example_is_reproduced() {
    let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
    let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
    let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    let estimate = Estimate::from_differences(&differences, 0.04).unwrap();
    assert!((estimate.median + 0.46).abs() < 1e-9, "{estimate:?}");
    let (low, high) = estimate.interval.unwrap();
    assert!((low + 0.786).abs() < 1e-9 && (high + 0.010).abs() < 1e-9, "{estimate:?}");
    assert!((signed_rank_p(&differences) - 0.039_062_5).abs() < 1e-12);
}

#[test]
fn the_approximation_continues_the_exact_distribution() {
    for level in [0.0005, 0.0142, 0.05, 0.5] {
        let exact = SignedRank::new(EXACT_LIMIT);
        let approximate = SignedRank { n: EXACT_LIMIT, exact: Vec::new() };
        let (exact, approximate) = (exact.critical(level).unwrap(), approximate.critical(level).unwrap());
        assert!((exact as f64 / approximate as f64 - 1.0).abs() < 0.01, "{level}: {exact}, {approximate}");
    }
}

/// Regression test for the defect that this procedure fixed: a sign-test interval next to a signed-rank p.
#[test]
fn interval_and_test_never_contradict_each_other() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    for case in 0..4000 {
        let n = 6 + case % 140;
        let level = [0.0005, 0.0142, 0.0451, 0.05][case % 4];
        // Rounded, so that there are ties and zeros; in every tenth case one difference is infinite.
        let mut differences: Vec<f64> =
            (0..n).map(|_| ((rng.random::<f64>() - 0.45) * 20.0).round() / 100.0).collect();
        if case % 10 == 0 {
            differences[0] = f64::INFINITY;
        }
        let p = signed_rank_p(&differences);
        let excludes = Estimate::from_differences(&differences, level)
            .and_then(|estimate| estimate.interval)
            .is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        assert_eq!(excludes, p <= level, "{differences:?}: p = {p} at {level}");
    }
}

#[test]
fn the_interval_holds_its_level_for_small_and_heavy_tailed_samples() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for n in [6, 9, 12, 20, 31] {
        let covered = (0..4000)
            .filter(|_| {
                // Cauchy distribution: no mean, no variance.
                let draw = |uniform: f64| (std::f64::consts::PI * (uniform - 0.5)).tan();
                let sample: Vec<f64> = (0..n).map(|_| draw(rng.random())).collect();
                let (low, high) = Estimate::from_differences(&sample, 0.05).unwrap().interval.unwrap();
                (low..=high).contains(&0.0)
            })
            .count();
        assert!(covered as f64 / 4000.0 >= 0.943, "n = {n}: covered {covered} of 4000");
    }
}

#[test]
fn the_interval_needs_pairs_enough_for_its_level() {
    let of = |n: usize, level| Estimate::from_differences(&vec![0.1; n], level).unwrap().interval;
    assert_eq!((of(5, 0.05), of(6, 0.05)), (None, Some((0.1, 0.1))));
    assert_eq!((of(11, 0.0005), of(12, 0.0005).is_some()), (None, true));
    assert_eq!(Estimate::from_differences(&[], 0.05), None);
    assert_eq!(Estimate::from_differences(&[f64::NAN], 0.05), None);
}

#[test]
fn hundreds_of_thousands_of_pairs_are_fast() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let many: Vec<f64> = (0..300_000).map(|_| 0.01 + rng.random::<f64>() - 0.5).collect();
    let (low, high) = Estimate::from_differences(&many, 0.05).unwrap().interval.unwrap();
    assert!(low > 0.008 && high < 0.012 && low < high, "{low} {high}");
}

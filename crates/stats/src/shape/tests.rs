use super::*;
use crate::normal::random;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Times of 1 with this deviation of their logarithm.
fn times(n: usize, deviation: f64, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    (0..n).map(|_| (deviation * random(rng)).exp()).collect()
}

/// Counts of 400 samples of `n` values for which the rule holds.
fn flagged(
    n: usize,
    seed: u64,
    sample: impl Fn(usize, &mut Xoshiro256PlusPlus) -> Vec<f64>,
    rule: fn(&[f64]) -> bool,
) -> usize {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..400).filter(|_| rule(&sample(n, &mut rng))).count()
}

/// A rule and its name.
type Rule = (&'static str, fn(&[f64]) -> bool);

const RULES: [Rule; 4] = [
    ("outliers", |values| outliers(values).is_some_and(|(low, high)| !low.is_empty() || !high.is_empty())),
    ("modes", |values| modes(values).is_some()),
    ("drift", |values| drift(values).is_some()),
    ("slow start", |values| slow_start(values).is_some()),
];

/// At most 5 % of 400, and three standard deviations.
#[test]
fn false_flags_are_rare() {
    let normal = |n: usize, rng: &mut Xoshiro256PlusPlus| (0..n).map(|_| 1.0 + 0.02 * random(rng)).collect();
    let skewed = |n: usize, rng: &mut Xoshiro256PlusPlus| times(n, 0.5, rng);
    for n in [10, 20, 36, 100, 300] {
        for (name, rule) in RULES {
            let found = [flagged(n, 1, normal, rule), flagged(n, 2, skewed, rule)];
            assert!(found.iter().all(|&count| count <= 33), "{name} of {n}: {found:?} of 400");
        }
    }
    let uniform =
        |n: usize, rng: &mut Xoshiro256PlusPlus| (0..n).map(|_| 1.0 + rng.random::<f64>()).collect();
    for n in [20, 100, 300] {
        let found = flagged(n, 3, uniform, |values| modes(values).is_some());
        assert!(found <= 33, "modes of {n} uniform values: {found} of 400");
    }
}

#[test]
fn what_is_there_is_flagged() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
    let mut values = times(40, 0.01, &mut rng);
    values[7] = 1.2;
    values[30] = 0.7;
    assert_eq!(outliers(&values), Some((vec![30], vec![7])));

    let slow: Vec<f64> = times(100, 0.02, &mut rng)
        .iter()
        .enumerate()
        .map(|(n, time)| if n % 5 == 0 { 5.0 * time } else { *time })
        .collect();
    let found = modes(&slow).unwrap();
    assert!((found.upper_share - 0.2).abs() < 1e-9, "{found:?}");
    assert!((found.upper_median / found.lower_median - 5.0).abs() < 0.2, "{found:?}");

    let growing: Vec<f64> = (0..60).map(|n| 1.0 + f64::from(n) / 300.0).collect();
    assert!((drift(&growing).unwrap() - 1.13).abs() < 0.02);
    assert_eq!(drift(&growing.iter().map(|_| 1.0).collect::<Vec<_>>()), None);

    let mut warm = times(40, 0.01, &mut rng);
    warm[0] = 2.0;
    assert_eq!(slow_start(&warm), Some(1));
    (warm[1], warm[2]) = (1.5, 1.2);
    assert_eq!(slow_start(&warm), Some(3));
    warm[20] = 3.0;
    assert_eq!(slow_start(&warm), None);
}

#[test]
fn nothing_is_flagged_where_it_cannot_be_known() {
    let few: Vec<f64> = (0..9).map(|n| f64::from(1 + n * n)).collect();
    assert_eq!((outliers(&few), modes(&few), drift(&few), slow_start(&few)), (None, None, None, None));
    // A clock of low resolution makes modes of its own.
    let coarse: Vec<f64> = (0..60).map(|n| if n % 2 == 0 { 0.01 } else { 0.02 }).collect();
    assert_eq!(modes(&coarse), None);
    let same = [1.0; 50];
    assert_eq!((outliers(&same), modes(&same), drift(&same), slow_start(&same)), (None, None, None, None));
    let rate_of_zero = [1.0, 0.0].repeat(10);
    assert_eq!((outliers(&rate_of_zero), modes(&rate_of_zero)), (None, None));
}

#[test]
fn the_dip_has_its_known_values() {
    // Evenly spaced values are as close to uniform as n values can be: 1 / (2 n).
    let even: Vec<f64> = (0..20).map(f64::from).collect();
    assert!((dip(&even) - 1.0 / 40.0).abs() < 1e-12);
    // Two points far apart, each with half of the mass: 1 / 4.
    let two: Vec<f64> =
        (0..200).map(|n| if n < 100 { f64::from(n) * 1e-9 } else { 1.0 + f64::from(n) * 1e-9 }).collect();
    assert!((dip(&two) - 0.25).abs() < 0.01, "{}", dip(&two));
    assert_eq!((dip(&[]), dip(&[1.0]), dip(&[2.0; 10])), (0.5, 0.5, 0.05));
}

proptest! {
    #[test]
    fn the_dip_is_in_its_range_and_mirrors(values in prop::collection::vec(-1e3f64..1e3, 2..120)) {
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let mirrored: Vec<f64> = sorted.iter().rev().map(|value| -value).collect();
        let found = dip(&sorted);
        prop_assert!(found >= 0.5 / sorted.len() as f64 - 1e-12 && found <= 0.25 + 1e-9, "{}", found);
        prop_assert!((found - dip(&mirrored)).abs() < 1e-9);
    }

    #[test]
    fn any_values_are_flagged_or_not(values in prop::collection::vec(prop_oneof![Just(f64::NAN), Just(0.0), -1.0f64..10.0], 0..60)) {
        let _ = (outliers(&values), modes(&values), drift(&values), slow_start(&values));
    }

    #[test]
    fn the_unit_of_the_values_does_not_change_their_outliers(
        values in prop::collection::vec(0.5f64..3.0, 10..60), scale in 0.001f64..1000.0,
    ) {
        let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
        let (found, same) = (outliers(&values), outliers(&scaled));
        prop_assert_eq!(found.is_some(), same.is_some());
        prop_assert_eq!(modes(&values).is_some(), modes(&scaled).is_some());
    }
}

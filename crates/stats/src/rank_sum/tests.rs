use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The p-value by trying all assignments of the values to the two samples.
fn brute_force_p(first: &[f64], second: &[f64]) -> f64 {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let below = |chosen: u32| {
        let (mut count, mut back) = (0, 0);
        for (a, low) in all.iter().enumerate().filter(|(index, _)| chosen >> index & 1 == 1) {
            for (_, high) in all.iter().enumerate().filter(|(b, _)| chosen >> b & 1 == 0 && *b != a) {
                count += usize::from(high < low);
                back += usize::from(high > low);
            }
        }
        count.min(back)
    };
    let assignments = (0..1u32 << all.len()).filter(|set| set.count_ones() as usize == first.len());
    let seen = below((1 << first.len()) - 1);
    let (extreme, total) = assignments
        .fold((0, 0), |(extreme, total), set| (extreme + usize::from(below(set) <= seen), total + 1));
    f64::from(extreme as u32) / f64::from(total)
}

#[test]
fn rank_sum_equals_enumeration() {
    for (first, second) in [
        (vec![1.0, 2.0, 3.0, 4.0], vec![5.0, 6.0, 7.0, 8.0]),
        (vec![1.0, 4.0, 6.0], vec![2.0, 3.0, 5.0, 7.0, 9.0]),
        (vec![3.1, 0.2, 5.5, 7.0, 1.0], vec![4.4, 2.2]),
    ] {
        let p = rank_sum_p(&first, &second);
        assert!((p - brute_force_p(&first, &second)).abs() < 1e-12, "{first:?} {second:?}: {p}");
    }
}

/// Hollander, Wolfe and Chicken, example 4.1 (permeability of membranes): estimate -0.305, the interval of 96 % from
/// -0.76 to 0.15, one-sided p = 0.127.
#[test]
fn the_textbook_example_is_reproduced() {
    let at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    let early = [1.15, 0.88, 0.90, 0.74, 1.21];
    let estimate = Estimate::from_independent(&at_term, &early, 0.05).unwrap();
    assert!((estimate.median + 0.305).abs() < 1e-9, "{estimate:?}");
    let (low, high) = estimate.interval.unwrap();
    assert!((low + 0.76).abs() < 1e-9 && (high - 0.15).abs() < 1e-9, "{estimate:?}");
    assert!((rank_sum_p(&at_term, &early) - 0.2544).abs() < 1e-4, "{}", rank_sum_p(&at_term, &early));
}

#[test]
fn the_approximation_continues_the_exact_distribution() {
    for level in [0.0005, 0.05, 0.5] {
        let critical = |exact: Vec<f64>| RankSum { m: 50, n: 50, exact }.critical(level).unwrap() as f64;
        let exact = critical(RankSum::new(EXACT_LIMIT, EXACT_LIMIT).exact);
        assert!((exact / critical(Vec::new()) - 1.0).abs() < 0.01, "{level}: {exact}");
    }
}

#[test]
fn too_few_values_have_no_interval_and_no_value_no_estimate() {
    let three = Estimate::from_independent(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0], 0.05).unwrap();
    assert_eq!((three.median, three.interval, three.n), (6.0, None, 3));
    assert!(Estimate::from_independent(&[], &[1.0], 0.05).is_none());
    assert_eq!(rank_sum_p(&[], &[1.0]), 1.0);
    assert_eq!(rank_sum_p(&[2.0; 5], &[2.0; 5]), 1.0);
}

#[test]
fn the_interval_contains_the_shift_as_often_as_it_claims() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut inside = 0;
    for _ in 0..2000 {
        let mut sample = |shift: f64| -> Vec<f64> {
            (0..12).map(|_| shift - (1.0 - random.random::<f64>()).ln()).collect()
        };
        let (first, second) = (sample(0.0), sample(0.5));
        let (low, high) = Estimate::from_independent(&first, &second, 0.05).unwrap().interval.unwrap();
        inside += u32::from(low <= 0.5 && 0.5 <= high);
    }
    assert!((1880..=1930).contains(&inside), "{inside} of 2000");
}

proptest! {
    /// Interval and test cannot contradict each other.
    #[test]
    fn the_interval_excludes_zero_exactly_where_the_test_rejects(
        first in prop::collection::vec(-20_i32..20, 4..15),
        second in prop::collection::vec(-10_i32..30, 4..15),
        level in 0.001_f64..0.2,
    ) {
        let [first, second] = [first, second].map(|s| s.into_iter().map(f64::from).collect::<Vec<_>>());
        let estimate = Estimate::from_independent(&first, &second, level).unwrap();
        let excludes = estimate.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        prop_assert_eq!(excludes, rank_sum_p(&first, &second) <= level);
    }

    #[test]
    fn exchanging_the_samples_changes_the_sign(
        first in prop::collection::vec(-9.0_f64..9.0, 1..12),
        second in prop::collection::vec(-9.0_f64..9.0, 1..12),
    ) {
        let there = Estimate::from_independent(&first, &second, 0.05).unwrap();
        let back = Estimate::from_independent(&second, &first, 0.05).unwrap();
        prop_assert!((there.median + back.median).abs() < 1e-12);
        prop_assert_eq!(there.interval.map(|(low, high)| (-high, -low)), back.interval);
        prop_assert_eq!(rank_sum_p(&first, &second), rank_sum_p(&second, &first));
    }
}

use super::*;
use crate::{
    holm_divisors, interim_level,
    verdict::{Answer, DecisionRule, Verdict},
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Pairs of A and B, where B has `factor` times the values, with noise of up to 10 %.
fn pairs(n: usize, factor: f64, seed: u64) -> Vec<(f64, f64)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut value = || 1.0 + 0.1 * rng.random::<f64>();
    (0..n).map(|_| (value(), factor * value())).collect()
}

#[test]
fn names_are_read_back_and_others_are_refused() {
    for estimator in Estimator::ALL {
        assert_eq!(estimator.to_string().parse(), Ok(estimator));
    }
    let refused = "p98".parse::<Estimator>().unwrap_err();
    assert_eq!(refused.to_string(), "\"p98\" is not one of median, mean, p90, p95, p99, max");
}

#[test]
fn each_estimator_has_an_interval_from_its_least_number_of_pairs_on() {
    assert_eq!(Estimator::ALL.map(|one| one.least_pairs(0.05)), [6, 6, 36, 72, 368, 60]);
    // At the first of three interim analyses.
    assert_eq!(Estimator::ALL.map(|one| one.least_pairs(0.0005)), [12, 12, 79, 162, 826, 120]);
    for estimator in Estimator::ALL {
        for level in [0.05, 0.0141] {
            let least = estimator.least_pairs(level);
            for (n, is_there) in [(least - 1, false), (least, true)] {
                let found = estimator.log_ratio(&pairs(n, 1.0, 1), WorseTail::Upper, level).unwrap();
                assert_eq!(found.interval.is_some(), is_there, "{estimator} with {n} pairs at {level}");
                assert_eq!(found.n, n);
                assert_eq!(estimator.standard_errors(n, level).is_some(), is_there);
            }
        }
    }
}

#[test]
fn every_estimator_finds_a_difference_of_all_runs() {
    for estimator in Estimator::ALL {
        let pairs = pairs(400, 1.5, 2);
        let found = estimator.log_ratio(&pairs, WorseTail::Upper, 0.05).unwrap().map(f64::exp);
        let (low, high) = found.interval.unwrap();
        assert!(low <= 1.5 && 1.5 <= high && low > 1.4 && high < 1.6, "{estimator}: {found:?}");
        // The least p-value of p99 with 400 pairs is 2 * 0.99^400 = 0.036.
        assert!(estimator.p(&pairs, WorseTail::Upper) < 0.04, "{estimator}");
    }
}

/// Four of five runs of B are 3 % faster, every fifth takes five times as long.
#[test]
fn the_figures_of_a_mixture_differ_as_they_should() {
    let times = |n: usize| if n % 5 == 4 { 5.0 } else { 0.97 };
    let pairs: Vec<(f64, f64)> =
        pairs(400, 1.0, 3).iter().enumerate().map(|(n, (a, b))| (*a, b * times(n))).collect();
    let ratio = |estimator: Estimator| {
        let found = estimator.log_ratio(&pairs, WorseTail::Upper, 0.05).unwrap().map(f64::exp);
        (found.median, found.interval.unwrap())
    };
    assert!(ratio(Estimator::Median).1.1 < 1.0, "{:?}", ratio(Estimator::Median));
    assert!((ratio(Estimator::Mean).0 - 1.776).abs() < 0.02 && ratio(Estimator::Mean).1.0 > 1.4);
    assert!(ratio(Estimator::P90).1.0 > 4.0 && ratio(Estimator::P99).1.0 > 4.5);
    assert!(ratio(Estimator::Max).1.0 > 4.5);
}

#[test]
fn the_figures_of_one_side_are_those_of_its_worse_tail() {
    let values: Vec<f64> = (0..=100).map(f64::from).collect();
    let of = |worse| Estimator::ALL.map(|one| one.of_values(&values, worse).unwrap());
    assert_eq!(of(WorseTail::Upper), [50.0, 50.0, 90.0, 95.0, 99.0, 100.0]);
    for (found, expected) in of(WorseTail::Lower).into_iter().zip([50.0, 50.0, 10.0, 5.0, 1.0, 0.0]) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert_eq!(Estimator::Max.of_session(&values[..9], WorseTail::Upper), None);
    assert_eq!(Estimator::P99.of_session(&values[..9], WorseTail::Upper), None);
    // The worst of each ten: 10, 20 and 30; the rest is no whole block.
    let rising: Vec<f64> = (1..=35).map(f64::from).collect();
    assert_eq!(Estimator::Max.of_session(&rising, WorseTail::Upper), Some(20.0));
    assert_eq!(Estimator::Max.of_session(&rising, WorseTail::Lower), Some(11.0));
    assert_eq!(Estimator::Mean.of_values(&[], WorseTail::Upper), None);
}

#[test]
fn a_verdict_by_an_estimator_is_about_rates() {
    let slower = pairs(100, 1.5, 4);
    let times =
        Verdict::by(Estimator::Mean, &slower, WorseTail::Upper, DecisionRule::default(), None).unwrap();
    assert_eq!((times.answer, times.estimator, times.pairs), (Answer::ABetter, Estimator::Mean, 100));
    assert!((times.ratio - 1.0 / 1.5).abs() < 0.01 && times.p < 0.05, "{times:?}");
    let rates =
        Verdict::by(Estimator::P90, &slower, WorseTail::Lower, DecisionRule::default(), None).unwrap();
    assert!(rates.answer == Answer::BBetter && rates.ratio > 1.4, "{rates:?}");
    let few = Verdict::by(Estimator::P99, &slower, WorseTail::Upper, DecisionRule::default(), None).unwrap();
    assert_eq!((few.answer, few.interval), (Answer::Inconclusive, None));
    assert_eq!(Verdict::by(Estimator::Mean, &[], WorseTail::Upper, DecisionRule::default(), None), None);
}

/// The median of pairs is the same procedure as from logarithms of ratios.
#[test]
fn the_median_by_name_is_that_of_the_log_ratios() {
    let pairs = pairs(40, 1.02, 5);
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
    let rule = DecisionRule::at_analysis(2, 3);
    let by = Verdict::by(Estimator::Median, &pairs, WorseTail::Upper, rule, None).unwrap();
    let plain = Verdict::new(&logs, rule, None).unwrap();
    assert_eq!((by.answer, by.pairs, by.p), (plain.answer, plain.pairs, plain.p));
    assert!((by.ratio - plain.ratio).abs() < 1e-12);
}

#[test]
fn rates_of_zero_are_ranked_last() {
    let pairs = vec![(1.0, 0.0); 100];
    for estimator in [Estimator::Median, Estimator::P90, Estimator::Max] {
        let found = estimator.log_ratio(&pairs, WorseTail::Lower, 0.05).unwrap();
        assert_eq!(found.median, -MAX_LOG_RATIO, "{estimator}");
    }
    assert_eq!(Estimator::Mean.log_ratio(&pairs, WorseTail::Lower, 0.05), None);
    assert_eq!(Estimator::P90.log_ratio(&[(1.0, -1.0)], WorseTail::Upper, 0.05), None);
}

/// Any claim at one of three planned analyses of five identical variants, each against the first with Holm's procedure.
#[test]
fn interim_analyses_and_several_variants_hold_the_level_together() {
    for (estimator, n) in [(Estimator::Mean, 60), (Estimator::P90, 300)] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
        let runs = 200;
        let claimed = (0..runs)
            .filter(|_| {
                let sides: Vec<Vec<f64>> = (0..5)
                    .map(|_| (0..n).map(|_| (0.5 * crate::normal::random(&mut rng)).exp()).collect())
                    .collect();
                (1..=3).any(|which| {
                    let of = |other: &Vec<f64>| -> Vec<(f64, f64)> {
                        sides[0].iter().copied().zip(other.iter().copied()).take(n * which / 3).collect()
                    };
                    let p: Vec<f64> =
                        sides[1..].iter().map(|other| estimator.p(&of(other), WorseTail::Upper)).collect();
                    let level = interim_level(which, 3);
                    holm_divisors(&p, level).iter().zip(&p).any(|(divisor, p)| p * *divisor as f64 <= level)
                })
            })
            .count();
        // 5 % of 200, and three standard deviations.
        assert!(claimed <= 19, "{estimator}: {claimed} of {runs}");
    }
}

fn estimators() -> impl Strategy<Value = Estimator> {
    prop::sample::select(&Estimator::ALL[..])
}

proptest! {
    #[test]
    fn swapped_sides_give_the_inverse_and_units_do_not_matter(
        pairs in prop::collection::vec((0.5f64..2.0, 0.5f64..2.0), 70..140),
        estimator in estimators(),
        scale in 0.001f64..1000.0,
    ) {
        let of = |pairs: &[(f64, f64)]| estimator.log_ratio(pairs, WorseTail::Upper, 0.05).unwrap();
        let found = of(&pairs);
        let swapped = of(&pairs.iter().map(|&(a, b)| (b, a)).collect::<Vec<_>>());
        let scaled = of(&pairs.iter().map(|&(a, b)| (a * scale, b * scale)).collect::<Vec<_>>());
        prop_assert!((found.median + swapped.median).abs() < 1e-9);
        prop_assert!((found.median - scaled.median).abs() < 1e-9);
        prop_assert_eq!(found.interval.is_some(), swapped.interval.is_some());
        if let (Some(ends), Some(other), Some(same)) = (found.interval, swapped.interval, scaled.interval) {
            prop_assert!((ends.0 + other.1).abs() < 1e-9 && (ends.1 + other.0).abs() < 1e-9);
            prop_assert!((ends.0 - same.0).abs() < 1e-9 && (ends.1 - same.1).abs() < 1e-9);
            prop_assert!(ends.0 <= ends.1);
        }
    }

    #[test]
    fn a_lower_level_gives_a_wider_interval(
        pairs in prop::collection::vec((0.5f64..2.0, 0.5f64..2.0), 130..200), estimator in estimators(),
    ) {
        let at = |level| estimator.log_ratio(&pairs, WorseTail::Upper, level).unwrap().interval;
        if let (Some(wide), Some(narrow)) = (at(0.0141), at(0.2)) {
            prop_assert!(wide.0 <= narrow.0 && narrow.1 <= wide.1);
        }
    }

    #[test]
    fn any_values_give_finite_figures_or_none(
        pairs in prop::collection::vec((-1.0f64..1e300, prop_oneof![Just(0.0), Just(1e-310), 0.0f64..1e3]), 0..80),
        estimator in estimators(),
        is_upper in any::<bool>(),
    ) {
        let worse = if is_upper { WorseTail::Upper } else { WorseTail::Lower };
        if let Some(found) = estimator.log_ratio(&pairs, worse, 0.05) {
            prop_assert!(found.median.is_finite());
            prop_assert!(found.interval.is_none_or(|(low, high)| low.is_finite() && high.is_finite()));
        }
        prop_assert!((0.0..=1.0).contains(&estimator.p(&pairs, worse)));
    }
}

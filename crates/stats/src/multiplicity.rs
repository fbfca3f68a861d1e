//! Significance levels for several tests that must hold jointly: interim analyses of growing data, and
//! several comparisons.

/// Two-sided level of all analyses jointly: 1 - [`super::CONFIDENCE`].
pub const FAMILY_LEVEL: f64 = 0.05;

/// Returns the two-sided level of one of the planned interim analyses, by O'Brien and Fleming (1979). The
/// critical value falls with the square root of the information, so early analyses stop only for large
/// effects and the last one loses almost nothing. `which` counts from 1; the last one is at the planned
/// end. Valid for up to three analyses at equal distances; for more, the level is divided evenly
/// (Bonferroni).
pub fn interim_level(which: usize, analyses: usize) -> f64 {
    match (analyses, which) {
        (0 | 1, _) => FAMILY_LEVEL,
        (2, 0 | 1) => 0.0052,
        (2, _) => 0.0480,
        (3, 0 | 1) => 0.0005,
        (3, 2) => 0.0141,
        (3, _) => 0.0451,
        (many, _) => FAMILY_LEVEL / many as f64,
    }
}

/// Returns the divisor of `level` for each of several tests so that all hold jointly, by Holm's step-down
/// procedure. The smallest p-value is tested at the level divided by the number of tests, the next at the
/// level divided by one less, and so on; after the first that fails, the divisor stays the same (Holm
/// 1979). At an interim analysis, `level` is that of the analysis.
pub fn holm_divisors(p_values: &[f64], level: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut divisors = vec![p_values.len().max(1); p_values.len()];
    let mut failed = None;
    for (step, &test) in order.iter().enumerate() {
        divisors[test] = failed.unwrap_or(p_values.len() - step);
        if failed.is_none() && p_values[test] * divisors[test] as f64 > level {
            failed = Some(divisors[test]);
        }
    }
    divisors
}

/// Returns the largest p-value that is rejected when the expected share of wrong rejections among all is to be at most
/// `level` (Benjamini and Hochberg 1995): all p-values up to it are. `None` where none is rejected.
///
/// It holds for independent tests, and for those that depend positively on each other (Benjamini and Yekutieli 2001). NaN
/// counts as a test that is not rejected.
pub fn benjamini_hochberg(p_values: &[f64], level: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = p_values.iter().copied().filter(|p| !p.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let tests = p_values.len() as f64;
    let allowed = |rank: usize| level * (rank + 1) as f64 / tests;
    let last = (0..sorted.len()).rev().find(|&rank| sorted[rank] <= allowed(rank))?;
    Some(sorted[last])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn holm_divides_the_level_step_by_step_until_one_fails() {
        assert_eq!(holm_divisors(&[0.001, 0.03, 0.02], 0.05), [3, 1, 2]);
        assert_eq!(holm_divisors(&[0.2, 0.02, 0.04], 0.05), [3, 3, 3]);
        assert_eq!(holm_divisors(&[0.04], 0.05), [1]);
        assert!(holm_divisors(&[], 0.05).is_empty());
    }

    /// Regression test: the level was 5 % at every analysis, so the second finalist was tested at a level
    /// that the first had not reached.
    #[test]
    fn holm_at_an_interim_analysis_uses_its_level() {
        assert_eq!(holm_divisors(&[0.01, 0.012], interim_level(2, 3)), [2, 2]);
        assert_eq!(holm_divisors(&[0.005, 0.012], interim_level(2, 3)), [2, 1]);
    }

    /// The example of Benjamini and Hochberg (1995), section 3.2: fifteen tests, of which their procedure rejects four.
    #[test]
    fn the_published_example_of_false_discoveries() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        assert_eq!(benjamini_hochberg(&p, 0.05), Some(0.0095));
        assert_eq!(benjamini_hochberg(&p[4..], 0.05), None);
        assert_eq!(benjamini_hochberg(&[], 0.05), None);
        assert_eq!(benjamini_hochberg(&[f64::NAN, 0.02], 0.05), Some(0.02));
        assert_eq!(benjamini_hochberg(&[f64::NAN, 0.03], 0.05), None);
    }

    /// A larger p-value that passes takes the smaller ones with it, though those fail at their own rank.
    #[test]
    fn rejection_steps_up_from_the_largest() {
        assert_eq!(benjamini_hochberg(&[0.04, 0.045, 0.049], 0.05), Some(0.049));
    }

    #[test]
    fn false_discoveries_keep_the_level() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
        let proportion = |rng: &mut Xoshiro256PlusPlus| {
            let mut p: Vec<f64> = (0..200).map(|_| rng.random::<f64>()).collect();
            p.iter_mut().take(20).for_each(|p| *p *= 1e-3);
            let limit = benjamini_hochberg(&p, 0.1).unwrap_or(-1.0);
            let wrong = p[20..].iter().filter(|p| **p <= limit).count();
            let all = p.iter().filter(|p| **p <= limit).count();
            wrong as f64 / all.max(1) as f64
        };
        let mean = (0..2000).map(|_| proportion(&mut rng)).sum::<f64>() / 2000.0;
        // Of 200 tests, 180 are true: the rate is exactly 0.1 * 180 / 200.
        assert!((0.08..0.1).contains(&mean), "{mean}");
    }

    #[test]
    fn all_analyses_together_hold_the_level() {
        for analyses in 1..=3 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
            let claimed = (0..4000)
                .filter(|_| {
                    let pairs: Vec<f64> = (0..36).map(|_| rng.random::<f64>() - 0.5).collect();
                    (1..=analyses).any(|which| {
                        let so_far = &pairs[..36 * which / analyses];
                        let level = interim_level(which, analyses);
                        let interval = Estimate::from_differences(so_far, level).unwrap().interval;
                        interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
                    })
                })
                .count();
            assert!((130..=225).contains(&claimed), "{analyses} analyses: {claimed} of 4000 at 5 %");
        }
    }
}

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

//! Where a series of values changes its level.
//!
//! The moment is where the energy distance between both sides is largest, as in the E-divisive algorithm (Matteson and
//! James 2014). Whether it is a change is decided by Student's t test of both sides, corrected for the number of moments
//! that could have been chosen, as Apache Otava (formerly Hunter; Fleming and others 2023) does: permutations need many runs
//! for small p-values. Further changes are searched on both sides of one that was found. Of a level that went back, neither
//! change stands out over the whole series: such a series is found only where one of its levels is much the longer.

use manycore_stats::student_tail;

/// Least number of values on either side of a change.
pub(crate) const LEAST_SIDE: usize = 3;

/// A possible change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// Index of the first value after it.
    pub at: usize,
    /// Mean after minus mean before, within the segment.
    pub difference: f64,
    /// Standard error of the difference, and its degrees of freedom.
    pub error: (f64, f64),
    /// p-value, corrected for the choice of the moment.
    pub p: f64,
}

/// Returns the most probable change of a series. `None` below twice [`LEAST_SIDE`] values, and where all are equal.
pub(crate) fn most_probable(values: &[f64]) -> Option<Step> {
    let count = values.len();
    let moments = (count + 1).checked_sub(2 * LEAST_SIDE).filter(|moments| *moments > 0)?;
    let at = (LEAST_SIDE..=count - LEAST_SIDE)
        .map(|at| (at, energy(&values[..at], &values[at..])))
        .max_by(|a, b| a.1.total_cmp(&b.1))?
        .0;
    let (before, after) = values.split_at(at);
    let [(m, mean_before, squares_before), (n, mean_after, squares_after)] = [before, after].map(moments_of);
    let freedom = m + n - 2.0;
    let variance = (squares_before + squares_after) / freedom;
    let error = (variance * (1.0 / m + 1.0 / n)).sqrt();
    let difference = mean_after - mean_before;
    // Printed figures have a resolution: without scatter, everything would be a change.
    let error = error.max(1e-4);
    let p = (student_tail(difference / error, freedom) * moments as f64).min(1.0);
    (difference != 0.0).then_some(Step { at, difference, error: (error, freedom), p })
}

/// Returns all changes with at most the p-value `limit`, in their order.
pub(crate) fn steps(values: &[f64], limit: f64) -> Vec<Step> {
    let Some(step) = most_probable(values).filter(|step| step.p <= limit) else { return Vec::new() };
    let (before, after) = values.split_at(step.at);
    let later = steps(after, limit).into_iter().map(|later| Step { at: later.at + step.at, ..later });
    steps(before, limit).into_iter().chain([step]).chain(later).collect()
}

/// Returns the number, the mean, and the sum of squared deviations.
fn moments_of(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (count, mean, values.iter().map(|value| (value - mean).powi(2)).sum())
}

/// Returns the energy distance of two samples with its weight: twice the mean distance between both, minus those within each.
fn energy(a: &[f64], b: &[f64]) -> f64 {
    let (m, n) = (a.len() as f64, b.len() as f64);
    let distances = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().map(|one| b.iter().map(|other| (one - other).abs()).sum::<f64>()).sum()
    };
    let within = |values: &[f64], count: f64| distances(values, values) / (count * (count - 1.0));
    let between = 2.0 * distances(a, b) / (m * n);
    m * n / (m + n) * (between - within(a, m) - within(b, n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn series(rng: &mut Xoshiro256PlusPlus, count: usize, level: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..count).map(|index| level(index) + 0.01 * normal(rng)).collect()
    }

    #[test]
    fn false_changes_keep_the_level() {
        for count in [6, 10, 30] {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(count as u64);
            let found = (0..2000)
                .filter(|_| {
                    most_probable(&series(&mut rng, count, |_| 0.0)).is_some_and(|step| step.p <= 0.05)
                })
                .count();
            // The correction is that of Bonferroni, which is strict for neighbouring moments.
            assert!((20..=120).contains(&found), "{count} values: {found} of 2000 at 5 %");
        }
    }

    #[test]
    fn the_moment_of_a_change_is_found() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let near = (0..200)
            .filter(|_| {
                let values = series(&mut rng, 20, |index| if index < 12 { 0.0 } else { 0.04 });
                steps(&values, 0.001).iter().any(|step| (11..=13).contains(&step.at))
            })
            .count();
        assert!(near >= 190, "{near} of 200");
    }

    #[test]
    fn two_changes_are_two() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
        let level = |index: usize| [0.0, 0.1, 0.2][index / 10];
        let found: Vec<usize> =
            steps(&series(&mut rng, 30, level), 0.001).into_iter().map(|step| step.at).collect();
        assert_eq!(found, [10, 20]);
    }

    #[test]
    fn few_or_equal_values_have_no_change() {
        assert_eq!(most_probable(&[0.0, 0.0, 0.0, 1.0, 1.0]), None);
        assert_eq!(most_probable(&[1.0; 12]), None);
        assert!(most_probable(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]).unwrap().p < 0.001);
    }
}

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
    let at = energies(values).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?.0;
    let (before, after) = values.split_at(at);
    let (difference, error) = difference(before, after);
    let p = (student_tail(difference / error.0, error.1) * moments as f64).min(1.0);
    (difference != 0.0).then_some(Step { at, difference, error, p })
}

/// Returns by how much the mean after exceeds that before, and its standard error with its degrees of freedom.
fn difference(before: &[f64], after: &[f64]) -> (f64, (f64, f64)) {
    let [(m, mean_before, squares_before), (n, mean_after, squares_after)] = [before, after].map(moments_of);
    let freedom = m + n - 2.0;
    let variance = (squares_before + squares_after) / freedom;
    let error = (variance * (1.0 / m + 1.0 / n)).sqrt();
    // Printed figures have a resolution: without scatter, everything would be a change.
    (mean_after - mean_before, (error.max(1e-4), freedom))
}

/// Returns all changes with at most the p-value `limit`, in their order. Their differences are those of the levels next to them.
pub(crate) fn steps(values: &[f64], limit: f64) -> Vec<Step> {
    let found = found_steps(values, limit);
    let ends: Vec<usize> =
        [0].into_iter().chain(found.iter().map(|step| step.at)).chain([values.len()]).collect();
    let of_levels = |(step, ends): (&Step, &[usize])| {
        let (difference, error) = difference(&values[ends[0]..ends[1]], &values[ends[1]..ends[2]]);
        Step { difference, error, ..*step }
    };
    found.iter().zip(ends.windows(3)).map(of_levels).collect()
}

fn found_steps(values: &[f64], limit: f64) -> Vec<Step> {
    let Some(step) = most_probable(values).filter(|step| step.p <= limit) else { return Vec::new() };
    let (before, after) = values.split_at(step.at);
    let later = found_steps(after, limit).into_iter().map(|later| Step { at: later.at + step.at, ..later });
    found_steps(before, limit).into_iter().chain([step]).chain(later).collect()
}

/// Returns the number, the mean, and the sum of squared deviations.
fn moments_of(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (count, mean, values.iter().map(|value| (value - mean).powi(2)).sum())
}

/// Returns the possible moments, each with the energy distance of both sides and its weight: twice the mean distance between
/// both, minus those within each. Each moment is computed from the one before: the effort is the square of the length.
fn energies(values: &[f64]) -> Vec<(usize, f64)> {
    let distances =
        |one: f64, others: &[f64]| -> f64 { others.iter().map(|other| (one - other).abs()).sum() };
    let count = values.len();
    // Sums over pairs: within the side before, between both, within the side after.
    let (mut within_before, mut between) = (0.0, 0.0);
    let mut within_after: f64 = (0..count).map(|at| distances(values[at], &values[at + 1..])).sum();
    let mut found = Vec::new();
    for at in 1..count {
        let (before, one, after) = (&values[..at - 1], values[at - 1], &values[at..]);
        let (to_before, to_after) = (distances(one, before), distances(one, after));
        within_before += to_before;
        within_after -= to_after;
        between += to_after - to_before;
        if at >= LEAST_SIDE && at <= count - LEAST_SIDE {
            let (m, n) = (at as f64, (count - at) as f64);
            let means =
                2.0 * (between / (m * n) - within_before / (m * (m - 1.0)) - within_after / (n * (n - 1.0)));
            found.push((at, m * n / (m + n) * means));
        }
    }
    found
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
        let found = steps(&series(&mut rng, 30, level), 0.001);
        assert_eq!(found.iter().map(|step| step.at).collect::<Vec<_>>(), [10, 20]);
        // Regression: the first one that was found had the mean of both levels on its other side, 0.15.
        for step in &found {
            assert!((step.difference - 0.1).abs() < 0.02, "{found:?}");
        }
    }

    #[test]
    fn the_energy_distance_is_that_of_its_definition() {
        let values = series(&mut Xoshiro256PlusPlus::seed_from_u64(8), 9, |index| (index % 4) as f64);
        let mean = |a: &[f64], b: &[f64], pairs: usize| -> f64 {
            a.iter().flat_map(|one| b.iter().map(move |other| (one - other).abs())).sum::<f64>()
                / pairs as f64
        };
        for (at, energy) in energies(&values) {
            let ((a, b), (m, n)) = (values.split_at(at), (at, 9 - at));
            let means = 2.0 * mean(a, b, m * n) - mean(a, a, m * (m - 1)) - mean(b, b, n * (n - 1));
            assert!((energy - (m * n) as f64 / 9.0 * means).abs() < 1e-9, "at {at}");
        }
        assert_eq!(energies(&values).len(), 4);
    }

    #[test]
    fn few_or_equal_values_have_no_change() {
        assert_eq!(most_probable(&[0.0, 0.0, 0.0, 1.0, 1.0]), None);
        assert_eq!(most_probable(&[1.0; 12]), None);
        assert!(most_probable(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]).unwrap().p < 0.001);
    }
}

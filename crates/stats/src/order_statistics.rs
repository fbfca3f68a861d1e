//! The interval of a median from order statistics, for samples that are not paired differences.

/// Returns the interval of the median at `confidence` or more, from order statistics: the narrowest
/// symmetric pair whose exact binomial coverage reaches the level (Conover, "Practical Nonparametric
/// Statistics", 3.2).
///
/// It makes no assumption about the distribution. `None` where even the range of the sample does not reach
/// the level: below six samples at 95 %.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let mut log_mass = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut depth = 0;
    while depth < n / 2 {
        below += log_mass.exp();
        if 2.0 * below > 1.0 - confidence {
            break;
        }
        log_mass += ((n - depth) as f64 / (depth + 1) as f64).ln();
        depth += 1;
    }
    (depth > 0).then(|| (sorted[depth - 1], sorted[n - depth]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn the_interval_holds_its_level_for_small_and_skewed_samples() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        for n in [6, 9, 12, 20, 31] {
            let covered = (0..4000)
                .filter(|_| {
                    let sample: Vec<f64> = (0..n).map(|_| -rng.random::<f64>().ln()).collect();
                    let (low, high) = median_interval(&sample, 0.95).unwrap();
                    (low..=high).contains(&std::f64::consts::LN_2)
                })
                .count();
            assert!(covered as f64 / 4000.0 >= 0.945, "n = {n}: covered {covered} of 4000");
        }
    }

    #[test]
    fn the_interval_needs_six_samples() {
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95), None);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95), Some((1.0, 6.0)));
        // Conover, table A3: n = 20 gives the 6th and the 15th.
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(median_interval(&twenty, 0.95), Some((6.0, 15.0)));
    }

    #[test]
    fn the_interval_is_there_for_thousands_of_samples() {
        let many: Vec<f64> = (0..5001).map(f64::from).collect();
        let (low, high) = median_interval(&many, 0.95).unwrap();
        assert!((2400.0..2500.0).contains(&low) && (2500.0..2600.0).contains(&high));
    }
}

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

/// Returns the two-sided p-value of the sign test that the median of `differences` is 0: the smallest level at which the
/// interval of [`median_interval`] excludes 0. Differences of 0 count against a rejection. 1 for no differences.
pub fn sign_p(differences: &[f64]) -> f64 {
    let known = || differences.iter().filter(|difference| !difference.is_nan());
    let n = known().count();
    let positive = known().filter(|difference| **difference > 0.0).count();
    let negative = known().filter(|difference| **difference < 0.0).count();
    // The probability of at most so many of the other sign among n.
    let others = n - positive.max(negative);
    let mut log_mass = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for count in 0..=others {
        tail += log_mass.exp();
        log_mass += ((n - count) as f64 / (count + 1) as f64).ln();
    }
    (2.0 * tail).min(1.0)
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
    fn the_sign_test_and_the_interval_agree() {
        // Twice the probability of at most one head in ten tosses: 2 (1 + 10) / 1024.
        let nine: Vec<f64> = (1..=10).map(|value| f64::from(value) - 1.5).collect();
        assert!((sign_p(&nine) - 22.0 / 1024.0).abs() < 1e-12);
        assert_eq!((sign_p(&[]), sign_p(&[1.0]), sign_p(&[0.0; 9])), (1.0, 1.0, 1.0));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
        for n in 6..60 {
            let values: Vec<f64> = (0..n).map(|_| rng.random::<f64>() - 0.3).collect();
            let (low, high) = median_interval(&values, 0.95).unwrap();
            assert_eq!(sign_p(&values) <= 0.05, low > 0.0 || high < 0.0, "{n}");
        }
    }

    #[test]
    fn the_interval_is_there_for_thousands_of_samples() {
        let many: Vec<f64> = (0..5001).map(f64::from).collect();
        let (low, high) = median_interval(&many, 0.95).unwrap();
        assert!((2400.0..2500.0).contains(&low) && (2500.0..2600.0).contains(&high));
    }
}

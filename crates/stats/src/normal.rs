//! The normal distribution and Student's t-distribution.

/// Returns the upper tail of the standard normal distribution, with an absolute error below 7.5e-8
/// (Abramowitz and Stegun 26.2.17).
pub fn upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - upper_tail(-z);
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Returns the point above which `tail` of the standard normal distribution lies, for tails from 1e-5 to
/// one half.
pub fn upper_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 5.0);
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if upper_tail(middle) > tail { low = middle } else { high = middle }
    }
    high
}

/// Returns the point above which `tail` of Student's t-distribution lies, for five or more degrees of
/// freedom: the expansion of Fisher and Cornish (Abramowitz and Stegun 26.7.5).
pub fn student_quantile(tail: f64, freedom: f64) -> f64 {
    let z = upper_quantile(tail);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// Returns a normal random number (Box and Muller), for simulations.
#[cfg(test)]
pub(crate) fn random(rng: &mut impl rand::RngExt) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match_published_tables() {
        assert!((upper_tail(1.959_964) - 0.025).abs() < 1e-6);
        assert!((upper_tail(-1.0) - 0.841_345).abs() < 1e-6);
        assert!((upper_quantile(0.2) - 0.841_621).abs() < 1e-5);
        assert!((upper_quantile(0.000_25) - 3.480_756).abs() < 1e-3);
        for (tail, freedom, table) in [(0.025, 11.0, 2.201), (0.025, 5.0, 2.571), (0.005, 30.0, 2.750)] {
            assert!((student_quantile(tail, freedom) - table).abs() < 0.01, "{tail} {freedom}");
        }
    }
}

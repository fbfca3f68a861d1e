//! Student's t-distribution: with a whole number of degrees of freedom exactly, and with any number.

use crate::gamma::incomplete_beta;

/// Returns the two-sided tail of Student's t-distribution: the probability of a value beyond `t` or beyond `-t`
/// (Abramowitz and Stegun 26.7.3 and 26.7.4). 1 for no degrees of freedom.
pub(crate) fn two_sided_tail(t: f64, freedom: usize) -> f64 {
    if freedom == 0 || t.is_nan() {
        return 1.0;
    }
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    // The powers of the cosine, up to freedom - 2; each factor is (k - 1) / k for the next power k.
    let (mut term, mut power) = if is_odd { (cosine, 1) } else { (1.0, 0) };
    let mut sum = if is_odd && freedom == 1 { 0.0 } else { term };
    while power + 2 <= freedom.saturating_sub(2) && term > f64::EPSILON * sum {
        power += 2;
        term *= cosine * cosine * (power - 1) as f64 / power as f64;
        sum += term;
    }
    let within = if is_odd { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum };
    (1.0 - within).clamp(0.0, 1.0)
}

/// Returns the same for any positive number of degrees of freedom, which may be infinite. Small probabilities keep their
/// relative precision, except with infinite degrees of freedom, where their absolute error is below 1.5e-7.
pub fn tail(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom.is_nan() || freedom <= 0.0 {
        return 1.0;
    }
    if freedom > 1e7 {
        return 2.0 * crate::upper_tail(t.abs());
    }
    // Abramowitz and Stegun 26.7.1 with 26.5.27.
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Returns the value that Student's t with `freedom` degrees of freedom, whole or not, exceeds on either side with the probability
/// `level` in total. Infinite for no degrees of freedom.
pub fn critical(level: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high, freedom) > level {
        if high > 1e12 {
            return f64::INFINITY;
        }
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if tail(middle, freedom) > level { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_match_published_tables() {
        for (level, freedom, table) in [
            (0.05, 1.0, 12.706),
            (0.05, 2.0, 4.303),
            (0.05, 3.0, 3.182),
            (0.05, 5.0, 2.571),
            (0.05, 11.0, 2.201),
            (0.01, 30.0, 2.750),
            (0.001, 11.0, 4.437),
            (0.05, 100_000.0, 1.960),
        ] {
            assert!((critical(level, freedom) - table).abs() < 6e-4, "{level} {freedom}");
        }
        assert!((two_sided_tail(2.0, 4) - 0.116_117).abs() < 1e-6);
        assert!((tail(12.0, 9.0) / two_sided_tail(12.0, 9) - 1.0).abs() < 1e-8);
        assert!((tail(1.959_964, f64::INFINITY) - 0.05).abs() < 1e-6);
        assert_eq!((tail(3.0, 0.0), tail(f64::NAN, 3.0)), (1.0, 1.0));
        assert_eq!((critical(0.05, 0.0), two_sided_tail(3.0, 0)), (f64::INFINITY, 1.0));
    }

    proptest! {
        #[test]
        fn both_tails_agree_for_whole_numbers(t in -20.0f64..20.0, freedom in 1usize..400) {
            let exact = two_sided_tail(t, freedom);
            prop_assert!((tail(t, freedom as f64) - exact).abs() < 1e-11, "{} {}", tail(t, freedom as f64), exact);
        }

        #[test]
        fn the_critical_value_has_its_level(level in 1e-4f64..0.9, freedom in 1usize..200) {
            let tail = two_sided_tail(critical(level, freedom as f64), freedom);
            prop_assert!((tail - level).abs() < 1e-9, "{} {}", tail, level);
        }
    }
}

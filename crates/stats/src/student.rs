//! Student's t-distribution with a whole number of degrees of freedom, exactly.

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

/// Returns the value that Student's t with `freedom` degrees of freedom exceeds on either side with the probability `level`
/// in total. Infinite for no degrees of freedom.
pub fn critical(level: f64, freedom: usize) -> f64 {
    if freedom == 0 {
        return f64::INFINITY;
    }
    let mut high = 1.0;
    while two_sided_tail(high, freedom) > level && high < 1e12 {
        high *= 2.0;
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if two_sided_tail(middle, freedom) > level { low = middle } else { high = middle }
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
            (0.05, 1, 12.706),
            (0.05, 2, 4.303),
            (0.05, 3, 3.182),
            (0.05, 5, 2.571),
            (0.05, 11, 2.201),
            (0.01, 30, 2.750),
            (0.001, 11, 4.437),
            (0.05, 100_000, 1.960),
        ] {
            assert!((critical(level, freedom) - table).abs() < 6e-4, "{level} {freedom}");
        }
        assert!((two_sided_tail(2.0, 4) - 0.116_117).abs() < 1e-6);
        assert_eq!((critical(0.05, 0), two_sided_tail(3.0, 0)), (f64::INFINITY, 1.0));
    }

    proptest! {
        #[test]
        fn the_critical_value_has_its_level(level in 1e-4f64..0.9, freedom in 1usize..200) {
            let tail = two_sided_tail(critical(level, freedom), freedom);
            prop_assert!((tail - level).abs() < 1e-9, "{} {}", tail, level);
        }
    }
}

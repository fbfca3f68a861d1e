//! Centre and spread of values with errors of their own, of which a part may be outliers.
//!
//! The model: value i is `centre + between + error`, with a standard deviation `tau` between nodes and its own standard error
//! `s_i`. `tau` solves Paule and Mandel's equation in a robust form, with Tukey's bisquare in place of the square: the
//! mean of `rho((m_i - centre) / sqrt(tau^2 + s_i^2))` is what it is for normal values. A quarter of the values may be
//! anything. Where the values scatter less than their errors say, the errors are too large, and all are reduced by one
//! factor: the distribution of the standardised values is then the same, however the spread divides into both parts.

/// Tuning constant of the bisquare scale, and its mean for normal values relative to the largest: a breakdown point of 25 %
/// (Rousseeuw and Yohai 1984).
const SCALE: (f64, f64) = (2.937, 0.25);

/// The same with a breakdown point of 50 %, for fewer values than this: one of four is a quarter.
const FEW: (usize, (f64, f64)) = (5, (1.548, 0.5));

/// Tuning constant of the bisquare centre: 95 % efficiency for normal values (Beaton and Tukey 1974).
const CENTRE: f64 = 4.685;

/// Standard error that is never undercut, as a share: figures are printed with three to five digits.
pub(crate) const LEAST_ERROR: f64 = 1e-4;

/// The distribution of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    /// Robust centre.
    pub centre: f64,
    /// Standard error of the centre.
    pub centre_error: f64,
    /// Standard deviation between nodes, without their errors.
    pub tau: f64,
    /// Factor of the errors, at most 1.
    pub shrink: f64,
}

impl Spread {
    /// Fits at least two values with their standard errors, which are positive. Without values, all is 0.
    pub fn fit(values: &[f64], errors: &[f64]) -> Self {
        let Some(centre) = manycore_stats::median(values) else { return Self::default() };
        let mut spread = Self { centre, centre_error: 0.0, tau: 0.0, shrink: 1.0 };
        for _ in 0..3 {
            spread.fit_scale(values, errors);
            spread.fit_centre(values, errors);
        }
        let information: f64 = errors.iter().map(|&error| spread.deviation(error).powi(-2)).sum();
        spread.centre_error = 1.03 / information.sqrt();
        spread
    }

    /// Returns the standard deviation of the value of a node with this standard error.
    pub fn deviation(&self, error: f64) -> f64 {
        self.tau.hypot(self.shrink * error)
    }

    fn fit_scale(&mut self, values: &[f64], errors: &[f64]) {
        let residuals: Vec<(f64, f64)> = values
            .iter()
            .zip(errors)
            .map(|(value, error)| (value - self.centre, error.max(LEAST_ERROR)))
            .collect();
        let (tuning, mean) = if values.len() < FEW.0 { FEW.1 } else { SCALE };
        let excess = |tau: f64, shrink: f64| {
            let rho = |(residual, error): &(f64, f64)| {
                let u = residual / (tuning * tau.hypot(shrink * error));
                1.0 - (1.0 - u * u).max(0.0).powi(3)
            };
            residuals.iter().map(rho).sum::<f64>() / residuals.len() as f64 - mean
        };
        (self.tau, self.shrink) = (0.0, 1.0);
        if excess(0.0, 1.0) > 0.0 {
            let largest = residuals.iter().map(|(residual, _)| residual.abs()).fold(0.0, f64::max);
            self.tau = root(LEAST_ERROR / 100.0, 4.0 * largest, |tau| excess(tau, 1.0));
        } else {
            let smallest = residuals.iter().map(|(_, error)| LEAST_ERROR / error).fold(1.0, f64::min);
            self.shrink = root(smallest, 1.0, |shrink| excess(0.0, shrink));
        }
    }

    fn fit_centre(&mut self, values: &[f64], errors: &[f64]) {
        for _ in 0..20 {
            let (mut sum, mut weights) = (0.0, 0.0);
            for (value, &error) in values.iter().zip(errors) {
                let deviation = self.deviation(error.max(LEAST_ERROR));
                let u = (value - self.centre) / (CENTRE * deviation);
                let weight = (1.0 - u * u).max(0.0).powi(2) / deviation.powi(2);
                sum += weight * value;
                weights += weight;
            }
            if weights <= 0.0 {
                return;
            }
            let before = std::mem::replace(&mut self.centre, sum / weights);
            if (self.centre - before).abs() < LEAST_ERROR * 1e-3 {
                return;
            }
        }
    }
}

/// Returns where a falling function crosses 0 between positive bounds, to a relative precision of 1e-5.
fn root(low: f64, high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high.max(low));
    while high > low * (1.0 + 1e-5) {
        let middle = (low * high).sqrt();
        if function(middle) > 0.0 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::normal;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn both_parts_of_the_spread_are_found() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        for (tau, error) in [(0.01, 0.003), (0.004, 0.004), (0.0, 0.01)] {
            let values: Vec<f64> =
                (0..4000).map(|_| 2.0 + tau * normal(&mut rng) + error * normal(&mut rng)).collect();
            let found = Spread::fit(&values, &vec![error; 4000]);
            assert!((found.centre - 2.0).abs() < 0.001, "{found:?}");
            assert!((found.tau - tau).abs() < 0.002, "{found:?}");
            assert!((found.deviation(error) - tau.hypot(error)).abs() < 0.0005, "{found:?}");
        }
    }

    #[test]
    fn a_tenth_of_outliers_moves_neither() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        let outlier = |index: usize| if index < 100 { 0.2 } else { 0.0 };
        let values: Vec<f64> = (0..1000).map(|index| outlier(index) + 0.01 * normal(&mut rng)).collect();
        let found = Spread::fit(&values, &vec![0.001; 1000]);
        assert!(found.centre.abs() < 0.001, "{found:?}");
        // Twice as large a deviation would be the usual one.
        assert!((0.009..0.0145).contains(&found.tau), "{found:?}");
    }

    #[test]
    fn equal_values_have_the_least_spread() {
        let found = Spread::fit(&[1.0; 6], &[0.01; 6]);
        assert_eq!(found.centre, 1.0);
        assert!(found.deviation(0.01) <= 1.1 * LEAST_ERROR, "{found:?}");
        assert_eq!(Spread::fit(&[], &[]), Spread::default());
    }

    proptest! {
        #[test]
        fn a_constant_moves_only_the_centre(values in prop::collection::vec(-0.1f64..0.1, 5..40), by in -5.0f64..5.0) {
            let errors = vec![0.01; values.len()];
            let moved: Vec<f64> = values.iter().map(|value| value + by).collect();
            let (a, b) = (Spread::fit(&values, &errors), Spread::fit(&moved, &errors));
            prop_assert!((b.centre - a.centre - by).abs() < 1e-5);
            prop_assert!((b.deviation(0.01) - a.deviation(0.01)).abs() < 1e-5);
        }

        #[test]
        fn the_order_does_not_matter(mut values in prop::collection::vec(-0.1f64..0.1, 5..40)) {
            let errors = vec![0.01; values.len()];
            let a = Spread::fit(&values, &errors);
            values.reverse();
            let b = Spread::fit(&values, &errors);
            prop_assert!((a.centre - b.centre).abs() < 1e-6 && (a.tau - b.tau).abs() < 1e-6);
        }
    }
}

//! Isotonic regression: the non-decreasing values that are nearest to noisy ones.

/// Returns the non-decreasing values with the least weighted sum of squared distances to those of `points`, each a value
/// with its weight above 0, in their order (pool adjacent violators; Ayer et al. 1955).
pub fn isotonic_fit(points: &[(f64, f64)]) -> Vec<f64> {
    // Blocks of equal fitted values: value, weight, number of points.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for &(value, weight) in points {
        let mut block = (value, weight, 1);
        while let Some(before) = blocks.pop_if(|before| before.0 > block.0) {
            let weight = before.1 + block.1;
            block = ((before.0 * before.1 + block.0 * block.1) / weight, weight, before.2 + block.2);
        }
        blocks.push(block);
    }
    blocks.into_iter().flat_map(|(value, _, count)| std::iter::repeat_n(value, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn violators_are_pooled_by_their_weights() {
        assert_eq!(isotonic_fit(&[]), Vec::<f64>::new());
        assert_eq!(isotonic_fit(&[(1.0, 1.0), (2.0, 5.0)]), [1.0, 2.0]);
        assert_eq!(isotonic_fit(&[(1.0, 1.0), (4.0, 1.0), (1.0, 2.0), (3.0, 1.0)]), [1.0, 2.0, 2.0, 3.0]);
        assert_eq!(isotonic_fit(&[(3.0, 1.0), (2.0, 1.0), (1.0, 1.0)]), [2.0, 2.0, 2.0]);
    }

    proptest! {
        /// The fit is non-decreasing, keeps the weighted mean, does not change a second time, and is nearer than the
        /// constant mean.
        #[test]
        fn laws_of_the_fit(points in prop::collection::vec((-10f64..10.0, 0.1f64..5.0), 1..40)) {
            let fit = isotonic_fit(&points);
            let weight: f64 = points.iter().map(|point| point.1).sum();
            let mean = |values: &[f64]| {
                values.iter().zip(&points).map(|(value, point)| value * point.1).sum::<f64>() / weight
            };
            let distance = |values: &[f64]| {
                let square = |(value, point): (&f64, &(f64, f64))| (value - point.0).powi(2) * point.1;
                values.iter().zip(&points).map(square).sum::<f64>()
            };
            prop_assert!(fit.windows(2).all(|pair| pair[0] <= pair[1]));
            let given: Vec<f64> = points.iter().map(|point| point.0).collect();
            prop_assert!((mean(&fit) - mean(&given)).abs() < 1e-9);
            let again: Vec<(f64, f64)> = fit.iter().zip(&points).map(|(value, point)| (*value, point.1)).collect();
            prop_assert!(isotonic_fit(&again).iter().zip(&fit).all(|(a, b)| (a - b).abs() < 1e-9));
            prop_assert!(distance(&fit) <= distance(&vec![mean(&given); points.len()]) + 1e-9);
        }
    }
}

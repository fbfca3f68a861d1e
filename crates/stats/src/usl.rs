//! The Universal Scalability Law (Gunther 2007): X(N) = g N / (1 + a (N - 1) + b N (N - 1)).

use serde::{Deserialize, Serialize};

/// Measured throughput at a number of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UslPoint {
    /// Number of workers, at least 1.
    pub workers: f64,
    /// Work per second, above 0.
    pub rate: f64,
}

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usl {
    /// Work per second of one worker (gamma).
    pub rate_of_one: f64,
    /// Contention: the serialised share of the work (alpha).
    pub contention: f64,
    /// Coherence: the cost of coordination between every two workers (beta).
    pub coherence: f64,
}

/// Coefficients 1/g, a/g, b/g of N/X, in the order of [`basis`].
type Coefficients = [f64; 3];

/// Number of distinct worker counts below which no law is fitted.
const MIN_POINTS: usize = 5;

impl Usl {
    /// Fits N/X = (1/g) (1 + a (N - 1) + b N (N - 1)), which is linear in its coefficients, by least
    /// squares weighted with X/N and with no coefficient below 0. `None` below five distinct worker counts,
    /// for which a coherence term would be arbitrary.
    pub fn fit(points: &[UslPoint]) -> Option<Self> {
        let mut counts: Vec<u64> = points.iter().map(|point| point.workers as u64).collect();
        counts.sort_unstable();
        counts.dedup();
        if counts.len() < MIN_POINTS {
            return None;
        }
        // In units of the highest rate per worker, so that the solver works with numbers near 1.
        let unit = points.iter().map(|point| point.rate / point.workers).fold(0.0, f64::max);
        let points: Vec<UslPoint> =
            points.iter().map(|point| UslPoint { rate: point.rate / unit, ..*point }).collect();
        // Of the eight subsets of the three coefficients that may differ from 0, the best feasible one is
        // used.
        (1..8_usize)
            .filter_map(|active| least_squares(&points, active))
            .filter(|coefficients| coefficients[0] > 0.0 && coefficients.iter().all(|&c| c >= 0.0))
            .min_by(|a, b| sum_of_squares(&points, a).total_cmp(&sum_of_squares(&points, b)))
            .map(|[base, contention, coherence]| Self {
                rate_of_one: unit / base,
                contention: contention / base,
                coherence: coherence / base,
            })
    }

    /// Returns the work per second that the law predicts for `workers`.
    pub fn rate(&self, workers: f64) -> f64 {
        let delay = self.contention * (workers - 1.0) + self.coherence * workers * (workers - 1.0);
        self.rate_of_one * workers / (1.0 + delay)
    }

    /// Returns the number of workers with the highest throughput. `None` where there is none.
    pub fn peak(&self) -> Option<f64> {
        (self.coherence > 0.0).then(|| ((1.0 - self.contention).max(0.0) / self.coherence).sqrt().max(1.0))
    }
}

fn basis(workers: f64) -> Coefficients {
    [1.0, workers - 1.0, workers * (workers - 1.0)]
}

fn sum_of_squares(points: &[UslPoint], coefficients: &Coefficients) -> f64 {
    points
        .iter()
        .map(|point| {
            let fitted: f64 = basis(point.workers).iter().zip(coefficients).map(|(x, c)| x * c).sum();
            let weight = point.rate / point.workers;
            (weight * (fitted - point.workers / point.rate)).powi(2)
        })
        .sum()
}

/// Solves the weighted least squares over the coefficients whose bit in `active` is set, by Gaussian
/// elimination of the normal equations. `None` where they are singular.
fn least_squares(points: &[UslPoint], active: usize) -> Option<Coefficients> {
    let mut matrix = [[0.0; 4]; 3];
    for point in points {
        let weight = (point.rate / point.workers).powi(2);
        let x = basis(point.workers);
        for row in 0..3 {
            for column in 0..3 {
                matrix[row][column] += weight * x[row] * x[column];
            }
            matrix[row][3] += weight * x[row] * point.workers / point.rate;
        }
    }
    for index in (0..3).filter(|index| active >> index & 1 == 0) {
        for row in &mut matrix {
            row[index] = 0.0;
        }
        matrix[index] = [0.0; 4];
        matrix[index][index] = 1.0;
    }
    solve(matrix)
}

fn solve(mut matrix: [[f64; 4]; 3]) -> Option<Coefficients> {
    for pivot in 0..3 {
        let best = (pivot..3).max_by(|&a, &b| matrix[a][pivot].abs().total_cmp(&matrix[b][pivot].abs()))?;
        matrix.swap(pivot, best);
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        let pivot_row = matrix[pivot];
        for (_, row) in matrix.iter_mut().enumerate().filter(|(index, _)| *index != pivot) {
            let factor = row[pivot] / pivot_row[pivot];
            row.iter_mut().zip(pivot_row).for_each(|(value, above)| *value -= factor * above);
        }
    }
    Some([0, 1, 2].map(|row| matrix[row][3] / matrix[row][row]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(law: Usl, counts: &[u32]) -> Vec<UslPoint> {
        counts.iter().map(|&n| UslPoint { workers: f64::from(n), rate: law.rate(f64::from(n)) }).collect()
    }

    proptest! {
        #[test]
        fn the_coefficients_of_a_law_are_recovered(rate_of_one in 1e-6f64..1e12, contention in 0.0f64..0.3, coherence in 0.0f64..0.01) {
            let law = Usl { rate_of_one, contention, coherence };
            let fit = Usl::fit(&points(law, &[1, 2, 4, 8, 16, 32])).unwrap();
            prop_assert!((fit.rate_of_one / rate_of_one - 1.0).abs() < 1e-6);
            prop_assert!((fit.contention - contention).abs() < 1e-6);
            prop_assert!((fit.coherence - coherence).abs() < 1e-6);
        }
    }

    #[test]
    fn superlinear_points_give_no_negative_term() {
        let mut seen = points(Usl { rate_of_one: 100.0, contention: 0.0, coherence: 0.0 }, &[1, 2, 4, 8, 16]);
        seen[0].rate = 90.0;
        let fit = Usl::fit(&seen).unwrap();
        assert!(fit.contention >= 0.0 && fit.coherence >= 0.0);
    }

    #[test]
    fn four_points_are_too_few() {
        let law = Usl { rate_of_one: 100.0, contention: 0.1, coherence: 0.001 };
        assert_eq!(Usl::fit(&points(law, &[1, 2, 4, 8])), None);
        assert_eq!(Usl::fit(&points(law, &[1, 1, 2, 2, 4, 4, 8])), None);
    }

    #[test]
    fn the_peak_is_where_the_rate_is_highest() {
        let law = Usl { rate_of_one: 100.0, contention: 0.05, coherence: 0.002 };
        let peak = law.peak().unwrap();
        assert!(law.rate(peak) > law.rate(peak - 1.0) && law.rate(peak) > law.rate(peak + 1.0));
        assert_eq!(Usl { coherence: 0.0, ..law }.peak(), None);
    }
}

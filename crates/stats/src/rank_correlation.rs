//! Spearman's rank correlation, with an exact test for few values.

use crate::student;

/// Maximum number of pairs for which all orders are enumerated (40,320).
const EXACT_LIMIT: usize = 8;

/// Returns Spearman's rank correlation of the pairs (`a[i]`, `b[i]`), and the two-sided p-value that their order is random.
/// Equal values have the mean of their ranks.
///
/// The p-value is exact up to eight pairs: the share of all orders of `b` whose correlation is at least as far from 0.
/// Beyond, it is that of Student's t with two degrees of freedom less than pairs, and no smaller than that of the two
/// extreme orders (Kendall and Stuart, "The Advanced Theory of Statistics", 31.19).
///
/// `None` for fewer than three pairs, for slices of different lengths, for values that are not numbers, and where all
/// values of a slice are the same.
pub fn spearman(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let n = a.len();
    if n < 3 || b.len() != n || a.iter().chain(b).any(|value| value.is_nan()) {
        return None;
    }
    let (a, b) = (centred_ranks(a), centred_ranks(b));
    let rho = correlation(&a, &b)?;
    let p = if n <= EXACT_LIMIT { exact_p(&a, &b) } else { approximate_p(rho, n) };
    Some((rho, p))
}

/// Returns Spearman's correlation of the values with their order; 0 where all are the same.
pub(crate) fn with_order(values: &[f64]) -> f64 {
    let order: Vec<f64> = (0..values.len()).map(|at| at as f64).collect();
    correlation(&centred_ranks(&order), &centred_ranks(values)).unwrap_or(0.0)
}

/// Returns twice the difference of each rank and the mean rank, which is a whole number also for the mean of two ranks.
fn centred_ranks(values: &[f64]) -> Vec<i64> {
    let n = values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0; n];
    let mut from = 0;
    while from < n {
        let same = (from..n).take_while(|&at| values[order[at]] <= values[order[from]]).count();
        for &index in &order[from..from + same] {
            ranks[index] = (2 * from + same) as i64 - n as i64;
        }
        from += same;
    }
    ranks
}

fn product(a: &[i64], b: &[i64]) -> i64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn correlation(a: &[i64], b: &[i64]) -> Option<f64> {
    let (squares_a, squares_b) = (product(a, a), product(b, b));
    let scale = (squares_a as f64).sqrt() * (squares_b as f64).sqrt();
    (squares_a > 0 && squares_b > 0).then(|| (product(a, b) as f64 / scale).clamp(-1.0, 1.0))
}

/// Returns the share of the orders of `b` whose product with `a` is at least as far from 0 as the one given.
fn exact_p(a: &[i64], b: &[i64]) -> f64 {
    let given = product(a, b).abs();
    let mut order = b.to_vec();
    let mut swaps = vec![0; order.len()];
    let (mut as_far, mut all) = (1_u32, 1_u32);
    // Heap's algorithm: each order differs from the one before by one swap.
    let mut at = 1;
    while at < order.len() {
        if swaps[at] < at {
            order.swap(if at % 2 == 0 { 0 } else { swaps[at] }, at);
            all += 1;
            as_far += u32::from(product(a, &order).abs() >= given);
            swaps[at] += 1;
            at = 1;
        } else {
            swaps[at] = 0;
            at += 1;
        }
    }
    f64::from(as_far) / f64::from(all)
}

fn approximate_p(rho: f64, n: usize) -> f64 {
    let freedom = n - 2;
    let t = rho * (freedom as f64 / (1.0 - rho * rho)).sqrt();
    let extreme = 2.0 / (1..=n.min(100)).map(|factor| factor as f64).product::<f64>();
    student::two_sided_tail(t, freedom).max(extreme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn correlation_and_exact_p_match_published_tables() {
        let order: Vec<f64> = (0..7).map(f64::from).collect();
        for (values, rho, p) in [
            (&[1.0, 2.0, 3.0, 4.0][..], 1.0, 2.0 / 24.0),
            (&[4.0, 3.0, 2.0, 1.0], -1.0, 2.0 / 24.0),
            (&[1.0, 2.0, 3.0, 5.0, 4.0], 0.9, 10.0 / 120.0),
            // Zar, table B.20: 0.786 is the critical value at 0.05 for seven pairs, with an exact tail of 0.048.
            (&[1.0, 3.0, 2.0, 6.0, 4.0, 7.0, 5.0], 0.785_714, 0.048),
        ] {
            let (found, found_p) = spearman(&order[..values.len()], values).unwrap();
            assert!((found - rho).abs() < 1e-6, "{found} {rho}");
            assert!((found_p - p).abs() < 1e-3, "{found_p} {p}");
        }
    }

    #[test]
    fn without_an_order_there_is_no_correlation() {
        assert_eq!(spearman(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[5.0, 5.0, 5.0]), None);
        assert_eq!(spearman(&[1.0, 2.0, f64::NAN], &[1.0, 2.0, 3.0]), None);
    }

    /// The p-value is at most `level` in at most that share of random orders, for exact and approximate ones.
    #[test]
    fn random_orders_have_the_level() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        for n in [5, 7, 9, 12, 30] {
            let mut rejected = 0;
            for _ in 0..2000 {
                let mut values = || -> Vec<f64> { (0..n).map(|_| rng.random()).collect() };
                let (a, b) = (values(), values());
                rejected += u32::from(spearman(&a, &b).unwrap().1 <= 0.05);
            }
            assert!(rejected <= 130, "{n}: {rejected} of 2000 at 5 %");
        }
    }

    proptest! {
        #[test]
        fn laws(pairs in prop::collection::vec((-4i8..5, -4i8..5), 3..12)) {
            let (a, b): (Vec<f64>, Vec<f64>) =
                pairs.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).unzip();
            let found = spearman(&a, &b);
            prop_assert_eq!(found, spearman(&b, &a));
            // Only ranks matter, and a reversed order changes the sign.
            let cubes: Vec<f64> = a.iter().map(|a| a.powi(3)).collect();
            prop_assert_eq!(found, spearman(&cubes, &b));
            let reversed: Vec<f64> = a.iter().map(|a| -a).collect();
            prop_assert_eq!(found.map(|(rho, p)| (-rho, p)), spearman(&reversed, &b));
            if let Some((rho, p)) = found {
                prop_assert!(rho.abs() <= 1.0 && p > 0.0 && p <= 1.0, "{} {}", rho, p);
            }
        }
    }
}

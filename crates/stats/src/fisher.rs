//! Fisher's exact test of a table of two rows and two columns.

use crate::gamma::ln_gamma;

/// Returns the two-sided p-value of Fisher's exact test: the probability, with the sums of rows and columns as they are, of
/// tables that are at most as probable as `[[a, b], [c, d]]`. 1 where a row or a column is empty.
pub fn fisher_exact([[a, b], [c, d]]: [[usize; 2]; 2]) -> f64 {
    let (row, column, all) = (a + b, a + c, a + b + c + d);
    let ln_choose = |n: usize, k: usize| {
        let ln_factorial = |n: usize| ln_gamma(n as f64 + 1.0);
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    };
    let whole = ln_choose(all, column);
    let mass = |in_row: usize| (ln_choose(row, in_row) + ln_choose(all - row, column - in_row) - whole).exp();
    // Equal probabilities are computed with rounding errors.
    let observed = mass(a) * (1.0 + 1e-9);
    let least = (row + column).saturating_sub(all);
    (least..=row.min(column)).map(mass).filter(|mass| *mass <= observed).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_match_published_ones() {
        // Fisher's tea: 17/35 for three of four cups on both sides, 1/35 for all.
        assert!((fisher_exact([[3, 1], [1, 3]]) - 34.0 / 70.0).abs() < 1e-9);
        assert!((fisher_exact([[4, 0], [0, 4]]) - 2.0 / 70.0).abs() < 1e-9);
        // Agresti 1990, and R's `fisher.test`: convictions of twins.
        assert!((fisher_exact([[2, 15], [10, 3]]) - 0.000_536_7).abs() < 1e-7);
        assert_eq!(fisher_exact([[0, 0], [3, 4]]), 1.0);
    }

    proptest! {
        #[test]
        fn rows_and_columns_may_be_exchanged(a in 0usize..30, b in 0usize..30, c in 0usize..30, d in 0usize..30) {
            let p = fisher_exact([[a, b], [c, d]]);
            prop_assert!((0.0..=1.0).contains(&p));
            for other in [[[b, a], [d, c]], [[c, d], [a, b]], [[a, c], [b, d]]] {
                prop_assert!((fisher_exact(other) - p).abs() < 1e-9);
            }
        }
    }
}

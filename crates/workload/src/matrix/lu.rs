//! LU factorisation with partial pivoting, and the inverse from it, recursively by halves.
//!
//! Halving leaves almost all arithmetic to products of large blocks (S. Toledo, "Locality of Reference in LU
//! Decomposition with Partial Pivoting", SIAM J. Matrix Anal. Appl. 18, 1997). The inverse of A = P^-1 L U is
//! that of LAPACK's `dgetri`, with as many operations: 4/3 n^3 after the factorisation's 2/3 n^3.

use super::view::{View, ViewMut, subtract_product};

/// Columns that are factored one by one.
const PANEL: usize = 16;

/// Rows of a triangle that are solved one by one.
const TRIANGLE: usize = 16;

/// Right-hand sides that are solved together, as many as fill vector registers.
const LANES: usize = 8;

/// Columns of the unit matrix that are solved together: the zeros above them are left out.
const UNIT_COLUMNS: usize = 64;

/// Replaces an invertible matrix by its factors: U on and above the diagonal, L (without its ones) below.
/// Row i was exchanged with row `pivots[i]`, in this order.
pub(super) fn factor(mut matrix: ViewMut, pivots: &mut [usize]) {
    let columns = matrix.columns();
    if columns <= PANEL {
        return factor_panel(matrix, pivots);
    }
    let half = half(columns);
    let (mut left, mut right) = matrix.reborrow().split_columns(half);
    let (first, second) = pivots.split_at_mut(half);
    factor(left.reborrow(), first);
    exchange_rows(&mut right, first);
    let (top_left, mut bottom_left) = left.split_rows(half);
    let (mut top_right, mut bottom_right) = right.split_rows(half);
    solve_lower(top_left.as_view(), top_right.reborrow());
    subtract_product(&mut bottom_right, bottom_left.as_view(), top_right.as_view());
    factor(bottom_right, second);
    exchange_rows(&mut bottom_left, second);
    for pivot in second {
        *pivot += half;
    }
}

/// Factors a few columns, one after the other.
fn factor_panel(mut panel: ViewMut, pivots: &mut [usize]) {
    for (index, pivot) in pivots.iter_mut().enumerate() {
        let column = &panel.column_mut(index)[index..];
        let largest = column.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        *pivot = index + largest.map_or(0, |(offset, _)| offset);
        for column in 0..panel.columns() {
            panel.column_mut(column).swap(index, *pivot);
        }
        let (mut done, mut right) = panel.reborrow().split_columns(index + 1);
        let (head, factors) = done.column_mut(index).split_at_mut(index + 1);
        let reciprocal = 1.0 / head[index];
        for factor in &mut *factors {
            *factor *= reciprocal;
        }
        for column in 0..right.columns() {
            let (head, rest) = right.column_mut(column).split_at_mut(index + 1);
            subtract_multiple(rest, head[index], factors);
        }
    }
}

/// Computes `values -= factor * other`.
fn subtract_multiple(values: &mut [f64], factor: f64, other: &[f64]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value -= factor * other;
    }
}

fn exchange_rows(matrix: &mut ViewMut, pivots: &[usize]) {
    for column in 0..matrix.columns() {
        let values = matrix.column_mut(column);
        for (row, &pivot) in pivots.iter().enumerate() {
            values.swap(row, pivot);
        }
    }
}

/// Stores in `inverse` the inverse of the matrix whose factors [`factor`] left.
pub(super) fn invert(factors: View, pivots: &[usize], mut inverse: ViewMut) {
    invert_lower(factors, inverse.reborrow());
    solve_upper(factors, inverse.reborrow());
    // The rows that were exchanged are columns of the inverse.
    for (column, &pivot) in pivots.iter().enumerate().rev() {
        if column != pivot {
            let (mut left, mut right) = inverse.reborrow().split_columns(pivot);
            left.column_mut(column).swap_with_slice(right.column_mut(0));
        }
    }
}

/// Stores the inverse of the unit lower triangle of `lower` in `inverse`.
fn invert_lower(lower: View, mut inverse: ViewMut) {
    let size = lower.rows();
    for column in 0..size {
        let values = inverse.column_mut(column);
        values.fill(0.0);
        values[column] = 1.0;
    }
    for first in (0..size).step_by(UNIT_COLUMNS) {
        let (rows, columns) = (size - first, UNIT_COLUMNS.min(size - first));
        let (_, below) = inverse.reborrow().split_rows(first);
        let (block, _) = below.split_columns(first).1.split_columns(columns);
        solve_lower(lower.part(first, first, rows, rows), block);
    }
}

/// Replaces `values` by the solution X of L X = `values`, for the unit lower triangle L of `lower`.
fn solve_lower(lower: View, mut values: ViewMut) {
    let size = lower.rows();
    if size <= TRIANGLE {
        for_each_lane(lower, values, |triangle, rows| {
            for row in 1..rows.len() {
                eliminate(triangle, rows, row, 0..row);
            }
        });
        return;
    }
    let half = half(size);
    let (mut top, mut bottom) = values.reborrow().split_rows(half);
    solve_lower(lower.part(0, 0, half, half), top.reborrow());
    subtract_product(&mut bottom, lower.part(half, 0, size - half, half), top.as_view());
    solve_lower(lower.part(half, half, size - half, size - half), bottom);
}

/// Replaces `values` by the solution X of U X = `values`, for the upper triangle U of `upper`.
fn solve_upper(upper: View, mut values: ViewMut) {
    let size = upper.rows();
    if size <= TRIANGLE {
        for_each_lane(upper, values, |triangle, rows| {
            for row in (0..rows.len()).rev() {
                eliminate(triangle, rows, row, row + 1..rows.len());
                let reciprocal = 1.0 / triangle[row][row];
                for value in &mut rows[row] {
                    *value *= reciprocal;
                }
            }
        });
        return;
    }
    let half = half(size);
    let (mut top, mut bottom) = values.reborrow().split_rows(half);
    solve_upper(upper.part(half, half, size - half, size - half), bottom.reborrow());
    subtract_product(&mut top, upper.part(0, half, half, size - half), bottom.as_view());
    solve_upper(upper.part(0, 0, half, half), top);
}

/// Some columns of right-hand sides, side by side: one array per row.
type Lanes = [f64; LANES];

/// Calls `solve` with the rows of a small triangle and, in turns, with all columns of `values`.
fn for_each_lane(
    triangle: View,
    mut values: ViewMut,
    solve: impl Fn(&[[f64; TRIANGLE]; TRIANGLE], &mut [Lanes]),
) {
    let size = triangle.rows();
    let mut by_row = [[0.0; TRIANGLE]; TRIANGLE];
    for (row, values) in by_row.iter_mut().take(size).enumerate() {
        for (column, value) in values.iter_mut().take(size).enumerate() {
            *value = triangle.column(column)[row];
        }
    }
    let mut lanes = [[0.0; LANES]; TRIANGLE];
    let lanes = &mut lanes[..size];
    for first in (0..values.columns()).step_by(LANES) {
        let count = LANES.min(values.columns() - first);
        for lane in 0..count {
            let column = values.column_mut(first + lane);
            column.iter().zip(&mut *lanes).for_each(|(value, row)| row[lane] = *value);
        }
        solve(&by_row, lanes);
        for lane in 0..count {
            let column = values.column_mut(first + lane);
            column.iter_mut().zip(&*lanes).for_each(|(value, row)| *value = row[lane]);
        }
    }
}

/// Subtracts the products of the known rows with their coefficients from a row.
#[inline]
fn eliminate(
    triangle: &[[f64; TRIANGLE]; TRIANGLE],
    rows: &mut [Lanes],
    row: usize,
    known: std::ops::Range<usize>,
) {
    let mut sum = rows[row];
    for other in known {
        let coefficient = triangle[row][other];
        sum.iter_mut().zip(&rows[other]).for_each(|(value, other)| *value -= coefficient * other);
    }
    rows[row] = sum;
}

/// Returns about half of `size`, a multiple of the vector length where possible.
fn half(size: usize) -> usize {
    (size / 2).next_multiple_of(LANES).min(size - 1)
}

#[cfg(test)]
mod tests {
    use super::super::Matrix;
    use super::*;
    use proptest::prelude::*;

    /// Gauss-Jordan elimination with partial pivoting, row by row: the reference.
    fn reference(matrix: &Matrix) -> Vec<Vec<f64>> {
        let size = matrix.size;
        let unit = |row: usize, column: usize| f64::from(u8::from(row == column));
        let row_of = |row: usize| {
            let own = (0..size).map(|column| matrix.at(row, column));
            own.chain((0..size).map(|column| unit(row, column))).collect()
        };
        let mut rows: Vec<Vec<f64>> = (0..size).map(row_of).collect();
        for step in 0..size {
            let largest = (step..size).max_by(|&a, &b| rows[a][step].abs().total_cmp(&rows[b][step].abs()));
            rows.swap(step, largest.unwrap());
            let pivot = rows[step][step];
            rows[step].iter_mut().for_each(|value| *value /= pivot);
            let done = rows[step].clone();
            for (_, row) in rows.iter_mut().enumerate().filter(|(row, _)| *row != step) {
                let factor = row[step];
                row.iter_mut().zip(&done).for_each(|(value, done)| *value -= factor * done);
            }
        }
        rows.into_iter().map(|row| row[size..].to_vec()).collect()
    }

    fn largest(values: impl Iterator<Item = f64>) -> f64 {
        values.map(f64::abs).fold(0.0, f64::max)
    }

    fn inverse_of(matrix: &Matrix) -> Matrix {
        let size = matrix.size;
        let mut factors = Matrix::from_fn(size, |row, column| matrix.at(row, column));
        let mut inverse = Matrix::from_fn(size, |_, _| f64::NAN);
        let mut pivots = vec![0; size];
        factor(factors.view_mut(), &mut pivots);
        invert(factors.view(), &pivots, inverse.view_mut());
        inverse
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// All sizes around those at which blocks are split.
        #[test]
        fn the_inverse_is_that_of_the_reference(size in 1_usize..150, salt in 0_u64..1000) {
            let matrix = Matrix::pseudorandom(size, salt);
            let inverse = inverse_of(&matrix);
            let reference = reference(&matrix);
            // Rounding errors grow with the size and with the condition of the matrix.
            let condition = size as f64 * largest(matrix.values.iter().copied()) * largest(inverse.values.iter().copied());
            let tolerance = 1e-15 * size as f64 * condition;
            for row in 0..size {
                for column in 0..size {
                    let unit: f64 = (0..size).map(|k| matrix.at(row, k) * inverse.at(k, column)).sum();
                    let wanted = f64::from(u8::from(row == column));
                    prop_assert!((unit - wanted).abs() < tolerance, "{row} {column}: {unit}");
                    let difference = (inverse.at(row, column) - reference[row][column]).abs();
                    let scale = largest(reference.iter().flatten().copied());
                    prop_assert!(difference < tolerance * scale, "{row} {column}: {difference}");
                }
            }
        }
    }

    #[test]
    fn a_zero_on_the_diagonal_is_exchanged() {
        let size = 70;
        // Ones below the diagonal, and one in the corner: every elimination step needs an exchange.
        let shifted = |row: usize, column: usize| f64::from(u8::from(row == (column + 1) % size));
        let inverse = inverse_of(&Matrix::from_fn(size, shifted));
        for row in 0..size {
            for column in 0..size {
                assert_eq!(inverse.at(row, column), shifted(column, row));
            }
        }
    }
}

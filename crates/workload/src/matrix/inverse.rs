//! The inverse of M times its transpose, through an LU factorisation with partial pivoting, on one thread.

use super::{Matrix, lu, view::multiply_transposed};
use crate::Load;
use std::hint::black_box;

/// M, its symmetric product, and the inverse of that. One tick is one product and one inversion.
#[derive(Default)]
pub(crate) struct Inverse {
    matrix: Matrix,
    /// The product; after a tick, its factors.
    square: Matrix,
    pivots: Vec<usize>,
    result: Matrix,
}

impl Load for Inverse {
    fn prepare(&mut self, size: u64) {
        let size = size as usize;
        self.matrix = Matrix::pseudorandom(size, 3);
        self.square = Matrix::from_fn(size, |_, _| 0.0);
        self.pivots = vec![0; size];
        self.result = Matrix::from_fn(size, |_, _| 0.0);
    }

    fn ticks_per_event(&self) -> u64 {
        1
    }

    fn tick(&mut self) {
        let matrix = black_box(&self.matrix).view();
        multiply_transposed(&mut self.square.view_mut(), matrix, matrix);
        lu::factor(self.square.view_mut(), &mut self.pivots);
        lu::invert(self.square.view(), &self.pivots, self.result.view_mut());
        black_box(&self.result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_inverts() {
        let mut load = Inverse::default();
        load.prepare(20);
        load.tick();
        let matrix = &load.matrix;
        let square = |row, column| -> f64 { (0..20).map(|k| matrix.at(row, k) * matrix.at(column, k)).sum() };
        for row in 0..20 {
            for column in 0..20 {
                let unit: f64 = (0..20).map(|k| square(row, k) * load.result.at(k, column)).sum();
                assert!((unit - f64::from(u8::from(row == column))).abs() < 1e-8);
            }
        }
    }
}

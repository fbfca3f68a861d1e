//! The inverse of M times its transpose, computed by the faer library on one thread.

use crate::{
    Load,
    product::{filled, matrix},
};
use faer::{Accum, Mat, Par, linalg::matmul::matmul, linalg::solvers::DenseSolveCore};
use std::hint::black_box;

/// M and its symmetric product. One tick is one product and one inversion.
pub(crate) struct Inverse {
    matrix: Mat<f64>,
    square: Mat<f64>,
}

impl Default for Inverse {
    fn default() -> Self {
        Self { matrix: Mat::new(), square: Mat::new() }
    }
}

impl Inverse {
    fn inverse(&mut self) -> Mat<f64> {
        let matrix = black_box(&self.matrix);
        matmul(&mut self.square, Accum::Replace, matrix, matrix.transpose(), 1.0, Par::Seq);
        self.square.partial_piv_lu().inverse()
    }
}

impl Load for Inverse {
    fn prepare(&mut self, size: u64) {
        // faer's parallelism is a global setting; a worker has one thread.
        faer::set_global_parallelism(Par::Seq);
        self.matrix = matrix(size as usize, 3);
        self.square = filled(size as usize, |_, _| 0.0);
    }

    fn ticks_per_event(&self) -> u64 {
        1
    }

    fn tick(&mut self) {
        black_box(self.inverse());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_inverts() {
        let mut load = Inverse::default();
        load.prepare(20);
        let inverse = load.inverse();
        let unit = &load.square * &inverse;
        for row in 0..20 {
            for column in 0..20 {
                let wanted = f64::from(u8::from(row == column));
                assert!((unit[(row, column)] - wanted).abs() < 1e-8);
            }
        }
    }
}

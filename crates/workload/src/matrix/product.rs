//! The product of two square matrices, computed on one thread.

use super::{Matrix, view::multiply};
use crate::Load;
use std::hint::black_box;

/// Returns the floating-point operations of one product of `size` x `size` matrices: a multiplication and an
/// addition for each of size^3 terms.
pub const fn operations(size: u64) -> u64 {
    2 * size * size * size
}

/// The factors and the result. One tick is one product.
#[derive(Default)]
pub(crate) struct Product {
    left: Matrix,
    right: Matrix,
    result: Matrix,
}

impl Load for Product {
    fn prepare(&mut self, size: u64) {
        let size = size as usize;
        self.left = Matrix::pseudorandom(size, 1);
        self.right = Matrix::pseudorandom(size, 2);
        // Filled, so that its pages are allocated before the first product.
        self.result = Matrix::pseudorandom(size, 3);
    }

    fn ticks_per_event(&self) -> u64 {
        1
    }

    fn tick(&mut self) {
        let (left, right) = (black_box(&self.left).view(), black_box(&self.right).view());
        multiply(&mut self.result.view_mut(), left, right);
        black_box(&self.result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_the_product() {
        let mut load = Product::default();
        load.prepare(7);
        load.tick();
        for row in 0..7 {
            for column in 0..7 {
                let wanted: f64 = (0..7).map(|k| load.left.at(row, k) * load.right.at(k, column)).sum();
                assert!((load.result.at(row, column) - wanted).abs() < 1e-12);
            }
        }
        assert_eq!(operations(1000), 2_000_000_000);
    }
}

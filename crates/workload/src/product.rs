//! The product of two square matrices of 64-bit floats, computed by the gemm library on one thread.

use crate::Load;
use faer::Mat;
use gemm::{Parallelism, gemm};
use rustix::mm::{Advice, madvise};
use std::hint::black_box;

/// Returns the floating-point operations of one product of `size` x `size` matrices: a multiplication and an
/// addition for each of size^3 terms.
pub const fn operations(size: u64) -> u64 {
    2 * size * size * size
}

/// The factors and the result. One tick is one product.
pub(crate) struct Product {
    left: Mat<f64>,
    right: Mat<f64>,
    result: Mat<f64>,
}

impl Default for Product {
    fn default() -> Self {
        Self { left: Mat::new(), right: Mat::new(), result: Mat::new() }
    }
}

impl Load for Product {
    fn prepare(&mut self, size: u64) {
        let size = size as usize;
        self.left = matrix(size, 1);
        self.right = matrix(size, 2);
        // Filled, so that its pages are allocated before the first product.
        self.result = matrix(size, 3);
    }

    fn ticks_per_event(&self) -> u64 {
        1
    }

    fn tick(&mut self) {
        multiply(black_box(&mut self.result), black_box(&self.left), black_box(&self.right));
    }
}

/// Computes `result = left * right`; all three are square and have the same size.
///
/// faer's own product reached only five sixths of the speed of this library on a CPU with AVX-512.
#[allow(unsafe_code, reason = "the library takes addresses")]
fn multiply(result: &mut Mat<f64>, left: &Mat<f64>, right: &Mat<f64>) {
    let size = result.nrows();
    assert!([left, right].iter().all(|factor| (factor.nrows(), factor.ncols()) == (size, size)));
    let (column, left_column, right_column) = (result.col_stride(), left.col_stride(), right.col_stride());
    // SAFETY: the three matrices are square and have the same size, each with a row stride of one and its own
    // column stride, and the result is borrowed exclusively.
    unsafe {
        gemm(
            size,
            size,
            size,
            result.as_ptr_mut(),
            column,
            1,
            false,
            left.as_ptr(),
            left_column,
            1,
            right.as_ptr(),
            right_column,
            1,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Returns a square matrix for whose memory huge pages are requested from the kernel, as NumPy does.
/// Otherwise address translation, and not arithmetic, limits the speed of large products.
#[allow(unsafe_code, reason = "advice to the kernel takes an address")]
pub(crate) fn filled(size: usize, value: impl FnMut(usize, usize) -> f64) -> Mat<f64> {
    const HUGE_PAGE: usize = 2 << 20;
    let mut matrix = Mat::<f64>::with_capacity(size, size);
    let memory = matrix.as_ptr_mut();
    let end = memory.addr() + size * size * size_of::<f64>();
    let start = memory.addr().next_multiple_of(HUGE_PAGE);
    if start < end {
        let whole_pages = (end - start) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies within the matrix's allocation, and this advice changes no contents. A
        // kernel without huge pages returns an error, which does no harm.
        let _ = unsafe { madvise(memory.with_addr(start).cast(), whole_pages, Advice::LinuxHugepage) };
    }
    // The pages are touched only now.
    matrix.resize_with(size, size, value);
    matrix
}

/// Returns a well-conditioned matrix of values in (-0.5, 0.5), the same on every machine.
pub(crate) fn matrix(size: usize, salt: u64) -> Mat<f64> {
    // The finaliser of SplitMix64: pseudorandom bits that depend on the position only.
    let scramble = |position: u64| {
        let mut bits = (position ^ salt << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    };
    filled(size, |row, column| {
        (scramble((row * size + column) as u64) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    })
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
                let wanted: f64 = (0..7).map(|k| load.left[(row, k)] * load.right[(k, column)]).sum();
                assert!((load.result[(row, column)] - wanted).abs() < 1e-12);
            }
        }
        assert_eq!(operations(1000), 2_000_000_000);
    }
}

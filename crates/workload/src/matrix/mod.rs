//! The loads on square matrices of 64-bit floats: the product and the inverse, each on one thread.
//!
//! All arithmetic that counts happens in gemm's kernel for 64-bit floats, which chooses the vector
//! instructions at run time. Around it, `lu` has the blocked factorisation and inversion, and `view` the
//! rectangular blocks that they work on.

pub(crate) mod inverse;
mod lu;
pub(crate) mod product;
mod view;

use rustix::mm::{Advice, madvise};
use view::{View, ViewMut};

/// A square matrix, column by column.
#[derive(Default)]
struct Matrix {
    size: usize,
    values: Vec<f64>,
}

impl Matrix {
    /// Creates a matrix from the value at each row and column. All its pages are allocated afterwards.
    fn from_fn(size: usize, mut value: impl FnMut(usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(size * size);
        advise_huge_pages(&mut values);
        values.extend((0..size * size).map(|index| value(index % size, index / size)));
        Self { size, values }
    }

    /// Creates a well-conditioned matrix of values in (-0.5, 0.5), the same on every machine.
    fn pseudorandom(size: usize, salt: u64) -> Self {
        // The finaliser of SplitMix64: pseudorandom bits that depend on the position only.
        let scramble = |position: u64| {
            let mut bits = (position ^ salt << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^ bits >> 31
        };
        Self::from_fn(size, |row, column| {
            (scramble((row * size + column) as u64) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        })
    }

    fn view(&self) -> View<'_> {
        View::new(&self.values, self.size)
    }

    fn view_mut(&mut self) -> ViewMut<'_> {
        ViewMut::new(&mut self.values, self.size)
    }

    #[cfg(test)]
    fn at(&self, row: usize, column: usize) -> f64 {
        self.values[column * self.size + row]
    }
}

/// Requests huge pages from the kernel for memory that is not touched yet, as NumPy does. Otherwise address
/// translation, and not arithmetic, limits the speed of large products.
#[allow(unsafe_code, reason = "advice to the kernel takes an address")]
fn advise_huge_pages(values: &mut Vec<f64>) {
    const HUGE_PAGE: usize = 2 << 20;
    let memory = values.as_mut_ptr();
    let end = memory.addr() + values.capacity() * size_of::<f64>();
    let start = memory.addr().next_multiple_of(HUGE_PAGE);
    if start < end {
        let whole_pages = (end - start) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: the range lies within the vector's allocation, and this advice changes no contents. A
        // kernel without huge pages returns an error, which does no harm.
        let _ = unsafe { madvise(memory.with_addr(start).cast(), whole_pages, Advice::LinuxHugepage) };
    }
}

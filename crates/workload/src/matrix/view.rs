//! Rectangular blocks of a matrix that is stored column by column, and products of blocks.
//!
//! Blocks that lie side by side interleave in memory, so slices cannot describe them. A block is an address,
//! two dimensions and the distance between columns. A mutable block can be split only into parts that do not
//! overlap.

use gemm_common::Parallelism;
use gemm_f64::gemm::f64::get_gemm_fn;
use std::{marker::PhantomData, slice};

/// A block that is read.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    start: *const f64,
    rows: usize,
    columns: usize,
    /// Elements from one column to the next.
    stride: usize,
    matrix: PhantomData<&'a [f64]>,
}

/// A block that is written. No other view of its elements exists.
pub(super) struct ViewMut<'a> {
    start: *mut f64,
    rows: usize,
    columns: usize,
    stride: usize,
    matrix: PhantomData<&'a mut [f64]>,
}

impl<'a> View<'a> {
    /// Returns the whole of a square matrix.
    pub fn new(values: &'a [f64], size: usize) -> Self {
        assert_eq!(values.len(), size * size);
        Self { start: values.as_ptr(), rows: size, columns: size, stride: size, matrix: PhantomData }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the part from `row` and `column` on, of that many rows and columns.
    pub fn part(&self, row: usize, column: usize, rows: usize, columns: usize) -> Self {
        assert!(row + rows <= self.rows && column + columns <= self.columns);
        Self { start: self.start.wrapping_add(column * self.stride + row), rows, columns, ..*self }
    }

    /// Returns the elements of a column.
    #[allow(unsafe_code, reason = "columns of a block are no slices of one another")]
    pub fn column(&self, column: usize) -> &'a [f64] {
        assert!(column < self.columns);
        // SAFETY: the column lies within the matrix, which is borrowed for 'a, and is not written meanwhile.
        unsafe { slice::from_raw_parts(self.start.wrapping_add(column * self.stride), self.rows) }
    }
}

impl<'a> ViewMut<'a> {
    /// Returns the whole of a square matrix.
    pub fn new(values: &'a mut [f64], size: usize) -> Self {
        assert_eq!(values.len(), size * size);
        Self { start: values.as_mut_ptr(), rows: size, columns: size, stride: size, matrix: PhantomData }
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the block for reading. It cannot be written meanwhile.
    pub fn as_view(&self) -> View<'_> {
        let (start, rows, columns, stride) = (self.start.cast_const(), self.rows, self.columns, self.stride);
        View { start, rows, columns, stride, matrix: PhantomData }
    }

    /// Returns the same block for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { matrix: PhantomData, ..*self }
    }

    /// Returns the elements of a column.
    #[allow(unsafe_code, reason = "columns of a block are no slices of one another")]
    pub fn column_mut(&mut self, column: usize) -> &mut [f64] {
        assert!(column < self.columns);
        // SAFETY: the column lies within the matrix, of which this block is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.wrapping_add(column * self.stride), self.rows) }
    }

    /// Returns the first `rows` rows and the rest.
    pub fn split_rows(self, rows: usize) -> (Self, Self) {
        assert!(rows <= self.rows);
        let below = Self { start: self.start.wrapping_add(rows), rows: self.rows - rows, ..self };
        (Self { rows, ..self }, below)
    }

    /// Returns the first `columns` columns and the rest.
    pub fn split_columns(self, columns: usize) -> (Self, Self) {
        assert!(columns <= self.columns);
        let start = self.start.wrapping_add(columns * self.stride);
        let right = Self { start, columns: self.columns - columns, ..self };
        (Self { columns, ..self }, right)
    }
}

/// Computes `result = left * right`.
pub(super) fn multiply(result: &mut ViewMut, left: View, right: View) {
    assert_eq!((right.rows, right.columns), (left.columns, result.columns));
    gemm(result, Sum::Replace, left, right, Layout::Columns);
}

/// Computes `result = left * right`, with `right` transposed.
pub(super) fn multiply_transposed(result: &mut ViewMut, left: View, right: View) {
    assert_eq!((right.columns, right.rows), (left.columns, result.columns));
    gemm(result, Sum::Replace, left, right, Layout::Rows);
}

/// Computes `result -= left * right`.
pub(super) fn subtract_product(result: &mut ViewMut, left: View, right: View) {
    assert_eq!((right.rows, right.columns), (left.columns, result.columns));
    gemm(result, Sum::Subtract, left, right, Layout::Columns);
}

/// What happens to the former values of the result.
#[derive(Clone, Copy, PartialEq)]
enum Sum {
    Replace,
    Subtract,
}

/// How the right factor is read: as it is, or transposed.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Columns,
    Rows,
}

#[allow(unsafe_code, reason = "the library takes addresses")]
fn gemm(result: &mut ViewMut, sum: Sum, left: View, right: View, layout: Layout) {
    assert_eq!(result.rows, left.rows);
    let subtract = sum == Sum::Subtract;
    let (right_column, right_row) =
        if layout == Layout::Columns { (right.stride as isize, 1) } else { (1, right.stride as isize) };
    // SAFETY: the callers compared the columns, and the rows are compared above: each factor has the
    // dimensions that are passed. Each block lies within its matrix, and the result is borrowed exclusively.
    unsafe {
        get_gemm_fn()(
            result.rows,
            result.columns,
            left.columns,
            result.start,
            result.stride as isize,
            1,
            subtract,
            left.start,
            left.stride as isize,
            1,
            right.start,
            right_column,
            right_row,
            if subtract { 1.0 } else { 0.0 },
            if subtract { -1.0 } else { 1.0 },
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

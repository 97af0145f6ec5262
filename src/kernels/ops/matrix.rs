//! Strided matrices inside plain buffers, and their products on one thread.
//!
//! Attention reads queries, keys and values of each head in place from one packed buffer:
//! strides replace every transposition and concatenation.

use std::mem::MaybeUninit;

use super::bf16::{self, Panels};
pub use crate::products::Matrix;
use crate::products::{self, Target};

/// Summand of a product.
pub(super) type Onto<'a> = products::Onto<&'a [f32]>;

/// Precision to which a CPU rounds the factors of a matrix product. Sums are always `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// No rounding.
    #[default]
    F32,
    /// Rounding to 8 significant bits: twice as fast on CPUs with AVX512-BF16, slower on others.
    Bf16,
}

/// Writable `(rows, columns)` view of a buffer, and the precision of products that are written to it.
pub struct MatrixMut<'a> {
    target: Target<'a>,
    precision: Precision,
}

impl<'a> MatrixMut<'a> {
    /// Returns a view of consecutive rows of `columns` values.
    pub fn dense(data: &'a mut [f32], rows: usize, columns: usize) -> Self {
        MatrixMut::strided(data, rows, columns, columns)
    }

    /// Returns a view of rows of `columns` values that start `row_stride` values apart.
    pub fn strided(data: &'a mut [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        let target = Target::strided(data, rows, columns, row_stride);
        MatrixMut { target, precision: Precision::F32 }
    }

    /// Returns a view of uninitialized rows, which can be set but not added to.
    pub(super) fn unwritten(
        data: &'a mut [MaybeUninit<f32>],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        let target = Target::unwritten(data, rows, columns, row_stride);
        MatrixMut { target, precision: Precision::F32 }
    }

    /// Returns the same view for products of another precision.
    pub(super) fn at(self, precision: Precision) -> Self {
        MatrixMut { precision, ..self }
    }

    /// Writes `scale * a b` to the view.
    pub fn set(self, scale: f32, a: Matrix<'_>, b: Matrix<'_>) {
        self.multiply(Onto::Nothing, scale, a, b);
    }

    /// Adds `scale * a b` to the view.
    pub fn add(self, scale: f32, a: Matrix<'_>, b: Matrix<'_>) {
        self.multiply(Onto::Itself, scale, a, b);
    }

    fn multiply(self, onto: Onto<'_>, scale: f32, a: Matrix<'_>, b: Matrix<'_>) {
        match self.precision {
            Precision::F32 => self.target.multiply(onto, scale, a, b),
            Precision::Bf16 => bf16::multiply(self.target, onto, scale, a, b),
        }
    }
}

/// Right factor of one product or of many.
pub(super) enum RightFactor<'a> {
    /// Matrix as it is in memory.
    Plain(Matrix<'a>),
    /// Matrix in the order in which products in `bf16` read it.
    Packed(Panels<'a>),
}

impl<'a> RightFactor<'a> {
    /// Returns a factor for many products of a precision. `buffer` may hold its packed form.
    pub(super) fn new(matrix: Matrix<'a>, precision: Precision, buffer: &'a mut Vec<u32>) -> Self {
        match precision {
            Precision::F32 => RightFactor::Plain(matrix),
            Precision::Bf16 => RightFactor::Packed(Panels::pack(matrix, buffer)),
        }
    }

    fn columns(&self) -> usize {
        match self {
            RightFactor::Plain(matrix) => matrix.columns(),
            RightFactor::Packed(panels) => panels.columns(),
        }
    }
}

/// Appends `a b`, plus `row` if given, row by row. Packed factors are multiplied in `bf16`.
pub(super) fn append_product(
    values: &mut Vec<f32>,
    precision: Precision,
    row: Option<&[f32]>,
    a: Matrix<'_>,
    b: &RightFactor<'_>,
) {
    let (rows, columns) = (a.rows(), b.columns());
    let to = values.len() + rows * columns;
    values.reserve(rows * columns);
    let data = &mut values.spare_capacity_mut()[..rows * columns];
    let onto = row.map_or(Onto::Nothing, Onto::Row);
    let target = Target::unwritten(data, rows, columns, columns);
    match b {
        RightFactor::Plain(b) => MatrixMut { target, precision }.multiply(onto, 1.0, a, *b),
        RightFactor::Packed(b) => bf16::multiply_packed(target, onto, 1.0, a, b),
    }
    // SAFETY: the product has written every one of them.
    unsafe { values.set_len(to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_products_agree_with_the_definition() {
        // A is the middle two columns of a 3 x 4 buffer, B the transpose of a dense 2 x 2.
        let a: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let b = [1f32, 2.0, 3.0, 4.0];
        let mut out = vec![100f32; 9]; // 3 x 2 inside rows of 3
        MatrixMut::strided(&mut out, 3, 2, 3).add(
            2.0,
            Matrix::strided(&a[1..], 3, 2, 4),
            Matrix::dense(&b, 2, 2).t(),
        );
        // row 0: (1, 2) . (1, 2) = 5, (1, 2) . (3, 4) = 11, doubled and added to 100
        assert_eq!(out, [110.0, 122.0, 100.0, 134.0, 178.0, 100.0, 158.0, 234.0, 100.0]);
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_view_beyond_its_buffer_is_refused() {
        Matrix::strided(&[0.0; 5], 2, 3, 3);
    }
}

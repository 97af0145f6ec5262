//! Strided matrices inside plain buffers and their product on one thread.
//!
//! Attention reads queries, keys and values of each head in place from one packed buffer:
//! strides replace every transposition and concatenation.

use std::mem::MaybeUninit;

use gemm::Parallelism;

use super::bf16::{self, Panels};

/// What the factors of a product are rounded to on a CPU; sums are `f32` always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Nothing.
    #[default]
    F32,
    /// 8 significant bits: twice as fast on CPUs with AVX512-BF16, slower on others.
    Bf16,
}

/// A `(rows, columns)` view of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(super) data: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Consecutive rows of `columns` values.
    pub(crate) fn dense(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Matrix::strided(data, rows, columns, columns)
    }

    /// Rows of `columns` values that start `row_stride` values apart.
    pub(crate) fn strided(data: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert_inside(data.len(), rows, columns, row_stride);
        Matrix { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// Some of the rows.
    pub(super) fn rows(self, first: usize, rows: usize) -> Self {
        Matrix { data: &self.data[first * self.row_stride..], rows, ..self }
    }

    /// The transpose, without moving anything.
    pub(crate) fn t(self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// What a product is added to.
#[derive(Clone, Copy)]
pub(super) enum Onto<'a> {
    Nothing,
    /// What the target holds.
    Itself,
    /// A row, for every row of the product.
    Row(&'a [f32]),
}

impl Onto<'_> {
    /// The same for the columns from this one on.
    pub(super) fn from(self, column: usize) -> Self {
        match self {
            Onto::Row(row) => Onto::Row(&row[column..]),
            other => other,
        }
    }
}

/// A `(rows, columns)` view to write to.
pub(crate) struct MatrixMut<'a> {
    pub(super) data: &'a mut [MaybeUninit<f32>],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    /// Whether there are values to be added to.
    written: bool,
    precision: Precision,
}

impl<'a> MatrixMut<'a> {
    /// Consecutive rows of `columns` values.
    pub(crate) fn dense(data: &'a mut [f32], rows: usize, columns: usize) -> Self {
        MatrixMut::strided(data, rows, columns, columns)
    }

    /// Rows of `columns` values that start `row_stride` values apart.
    pub(crate) fn strided(
        data: &'a mut [f32],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        // SAFETY: the layout is the same, and nothing here writes anything but numbers.
        let data = unsafe { &mut *(std::ptr::from_mut(data) as *mut [MaybeUninit<f32>]) };
        MatrixMut { written: true, ..MatrixMut::unwritten(data, rows, columns, row_stride) }
    }

    /// Rows that can be set and not be added to.
    pub(super) fn unwritten(
        data: &'a mut [MaybeUninit<f32>],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        assert_inside(data.len(), rows, columns, row_stride);
        let precision = Precision::F32;
        MatrixMut { data, rows, columns, row_stride, written: false, precision }
    }

    /// The same view, for products of this precision.
    pub(super) fn at(self, precision: Precision) -> Self {
        MatrixMut { precision, ..self }
    }

    /// `self = scale * a b`.
    pub(crate) fn set(self, scale: f32, a: Matrix<'_>, b: Matrix<'_>) {
        self.multiply(Onto::Nothing, scale, a, b);
    }

    /// `self += scale * a b`.
    pub(crate) fn add(self, scale: f32, a: Matrix<'_>, b: Matrix<'_>) {
        assert!(self.written, "there is nothing to be added to");
        self.multiply(Onto::Itself, scale, a, b);
    }

    fn multiply(self, onto: Onto<'_>, scale: f32, a: Matrix<'_>, b: Matrix<'_>) {
        assert!(a.rows == self.rows && b.columns == self.columns && a.columns == b.rows);
        if let Onto::Row(row) = onto {
            assert_eq!(row.len(), self.columns);
        }
        if self.precision == Precision::Bf16 {
            return bf16::multiply(self, onto, scale, a, b);
        }
        if let Onto::Row(row) = onto {
            for at in 0..self.rows {
                self.data[at * self.row_stride..][..self.columns].write_copy_of_slice(row);
            }
        }
        // Safety: every view was checked to lie inside its buffer when it was made, and the
        // shapes agree; `self` is borrowed exclusively, and holds values where it is read.
        unsafe {
            gemm::gemm(
                self.rows,
                self.columns,
                a.columns,
                self.data.as_mut_ptr().cast::<f32>(),
                1,
                self.row_stride as isize,
                !matches!(onto, Onto::Nothing),
                a.data.as_ptr(),
                a.column_stride as isize,
                a.row_stride as isize,
                b.data.as_ptr(),
                b.column_stride as isize,
                b.row_stride as isize,
                1.0,
                scale,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

/// A right factor, for one product or for many.
pub(super) enum Factor<'a> {
    /// As it lies in memory.
    Plain(Matrix<'a>),
    /// As products in `bf16` read it.
    Packed(Panels<'a>),
}

impl<'a> Factor<'a> {
    /// For many products of a precision; `buffer` is where it may lie.
    pub(super) fn new(matrix: Matrix<'a>, precision: Precision, buffer: &'a mut Vec<u32>) -> Self {
        match precision {
            Precision::F32 => Factor::Plain(matrix),
            Precision::Bf16 => Factor::Packed(Panels::pack(matrix, buffer)),
        }
    }

    fn columns(&self) -> usize {
        match self {
            Factor::Plain(matrix) => matrix.columns,
            Factor::Packed(panels) => panels.columns(),
        }
    }
}

/// Appends `a b`, and this row to every row, row behind row; what is packed already is multiplied in `bf16`.
pub(super) fn append_product(
    values: &mut Vec<f32>,
    precision: Precision,
    row: Option<&[f32]>,
    a: Matrix<'_>,
    b: &Factor<'_>,
) {
    let (rows, columns) = (a.rows, b.columns());
    let to = values.len() + rows * columns;
    values.reserve(rows * columns);
    let data = &mut values.spare_capacity_mut()[..rows * columns];
    if a.columns == 0 {
        // Whatever a kernel does where nothing is multiplied.
        data.fill(MaybeUninit::new(0.0));
    }
    let onto = row.map_or(Onto::Nothing, Onto::Row);
    let target = MatrixMut::unwritten(data, rows, columns, columns).at(precision);
    match b {
        Factor::Plain(b) => target.multiply(onto, 1.0, a, *b),
        Factor::Packed(b) => bf16::multiply_packed(target, onto, 1.0, a, b),
    }
    // SAFETY: the product has written every one of them.
    unsafe { values.set_len(to) }
}

fn assert_inside(len: usize, rows: usize, columns: usize, row_stride: usize) {
    let end = if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_stride + columns };
    assert!(end <= len, "a {rows} x {columns} view does not fit into {len} values");
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

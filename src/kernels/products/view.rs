//! Views of plain buffers as matrices, with strides instead of copies and transpositions.

use std::mem::MaybeUninit;

/// A `(rows, columns)` view of a buffer.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T = f32> {
    pub(super) data: &'a [T],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

/// First entry of a matrix, and the distances between its rows and between its columns, in values.
pub(super) struct Strided<T> {
    pub start: *const T,
    pub row_stride: isize,
    pub column_stride: isize,
}

impl<'a, T> Matrix<'a, T> {
    /// Returns a view of consecutive rows of `columns` values.
    pub fn dense(data: &'a [T], rows: usize, columns: usize) -> Self {
        Matrix::strided(data, rows, columns, columns)
    }

    /// Returns a view of rows of `columns` values that start `row_stride` values apart.
    ///
    /// # Panics
    /// Panics if the view is not inside `data`.
    pub fn strided(data: &'a [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        assert_inside(data.len(), rows, columns, row_stride);
        Matrix { data, rows, columns, row_stride, column_stride: 1 }
    }

    /// Returns the buffer from the first entry on.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the distance from an entry to the one below, in values.
    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    /// Returns the distance from an entry to its right neighbor, in values.
    pub fn column_stride(&self) -> usize {
        self.column_stride
    }

    /// Returns `count` rows from `first` on.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub fn rows_from(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.rows, "rows {first} to {} of {}", first + count, self.rows);
        let start = (first * self.row_stride).min(self.data.len());
        Matrix { data: &self.data[start..], rows: count, ..self }
    }

    /// Returns `count` columns from `first` on.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub fn columns_from(self, first: usize, count: usize) -> Self {
        self.t().rows_from(first, count).t()
    }

    /// Returns the transpose, without moving anything.
    pub fn t(self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    pub(super) fn strided_pointer(&self) -> Strided<T> {
        Strided {
            start: self.data.as_ptr(),
            row_stride: self.row_stride as isize,
            column_stride: self.column_stride as isize,
        }
    }
}

/// Summand of a product.
#[derive(Clone, Copy)]
pub enum Onto<R> {
    /// None: the product is written.
    Nothing,
    /// Current values of the target.
    Itself,
    /// Row that is added to every row of the product.
    Row(R),
}

impl<R> Onto<R> {
    pub(super) fn map_row<S>(self, map: impl FnOnce(R) -> S) -> Onto<S> {
        match self {
            Onto::Nothing => Onto::Nothing,
            Onto::Itself => Onto::Itself,
            Onto::Row(row) => Onto::Row(map(row)),
        }
    }
}

impl<T> Onto<&[T]> {
    /// Returns the summand of the columns from `first` on.
    pub fn columns_from(self, first: usize) -> Self {
        self.map_row(|row| &row[first..])
    }
}

/// Writable `(rows, columns)` view. Values of a row are adjacent.
pub struct Target<'a, T = f32> {
    pub(super) data: &'a mut [MaybeUninit<T>],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    /// True if the memory is initialized, so that it can be added to.
    pub(super) written: bool,
}

impl<'a, T> Target<'a, T> {
    /// Returns a view of consecutive rows of `columns` values.
    pub fn dense(data: &'a mut [T], rows: usize, columns: usize) -> Self {
        Target::strided(data, rows, columns, columns)
    }

    /// Returns a view of rows of `columns` values that start `row_stride` values apart.
    ///
    /// # Panics
    /// Panics if the view is not inside `data`.
    pub fn strided(data: &'a mut [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        let data = super::as_uninit(data);
        Target { written: true, ..Target::unwritten(data, rows, columns, row_stride) }
    }

    /// Returns a view of uninitialized rows, which can be set but not added to.
    ///
    /// # Panics
    /// Panics if the view is not inside `data`, or its rows overlap.
    pub fn unwritten(
        data: &'a mut [MaybeUninit<T>],
        rows: usize,
        columns: usize,
        row_stride: usize,
    ) -> Self {
        assert_inside(data.len(), rows, columns, row_stride);
        assert!(rows <= 1 || row_stride >= columns, "rows that are written must not overlap");
        Target { data, rows, columns, row_stride, written: false }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns true if the memory is initialized, so that it can be added to.
    pub fn is_written(&self) -> bool {
        self.written
    }

    /// Returns the memory and the distance between rows, for kernels of other products.
    pub fn into_memory(self) -> (&'a mut [MaybeUninit<T>], usize) {
        (self.data, self.row_stride)
    }
}

/// Checks that a view is inside its buffer.
///
/// # Panics
/// Panics if rows exceed `len` values.
fn assert_inside(len: usize, rows: usize, columns: usize, row_stride: usize) {
    let end = if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row_stride + columns };
    assert!(end <= len, "a {rows} x {columns} view does not fit into {len} values");
}

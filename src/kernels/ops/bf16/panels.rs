//! Right factor of a product, rounded to `bf16` in the order in which tiles read it.

use std::ops::Range;

use super::super::matrix::Matrix;
use super::kernel::COLUMNS;
use super::narrowing::{Narrowing, STRIP};
use super::room;

/// Matrix in `bf16`, in panels of 48 columns, each of which holds pairs of rows one after the other.
///
/// Columns beyond the matrix may hold any values.
pub(in super::super) struct Panels<'a> {
    /// Pairs of two rows in one column, the upper row in the low half.
    values: &'a [u32],
    /// Number of rows of the matrix.
    rows: usize,
    columns: usize,
    /// Number of pairs of rows.
    pairs: usize,
}

impl<'a> Panels<'a> {
    /// Packs a matrix into `buffer`.
    pub fn pack(matrix: Matrix<'_>, buffer: &'a mut Vec<u32>) -> Panels<'a> {
        let by = Narrowing::fastest();
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let (data, row_stride) = (matrix.data(), matrix.row_stride());
        let (pairs, panels) = (rows.div_ceil(2), columns.div_ceil(COLUMNS));
        let values = room(buffer, panels * pairs * COLUMNS);
        if pairs > 0 {
            for (panel, values) in values.chunks_exact_mut(pairs * COLUMNS).enumerate() {
                let left = panel * COLUMNS;
                let width = COLUMNS.min(columns - left);
                if matrix.column_stride() == 1 {
                    let row = |at: usize| &data[at * row_stride + left..][..width];
                    for (to, at) in values.chunks_exact_mut(COLUMNS).zip((0..rows).step_by(2)) {
                        (by.across)(to, row(at), (at + 1 < rows).then(|| row(at + 1)));
                    }
                } else {
                    // Transposed matrices, such as weights and keys.
                    for strip in (0..width).step_by(STRIP) {
                        (by.down)(&mut values[strip..], matrix, left + strip);
                    }
                }
            }
        }
        Panels { values, rows, pairs, columns }
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns true if the packed matrix has this number of rows and columns.
    pub fn fits(&self, rows: usize, columns: usize) -> bool {
        (self.rows, self.columns) == (rows, columns)
    }

    /// Returns all panels from left to right, in groups of at most `pairs` pairs, or of one panel.
    pub(super) fn groups(&self, pairs: usize) -> impl Iterator<Item = Range<usize>> {
        let panels = self.columns.div_ceil(COLUMNS);
        let together = (pairs / (self.pairs * COLUMNS).max(1)).max(1);
        (0..panels).step_by(together).map(move |first| first..panels.min(first + together))
    }

    pub(super) fn panel(&self, at: usize) -> ColumnPanel<'_> {
        let (size, left) = (self.pairs * COLUMNS, at * COLUMNS);
        let columns = COLUMNS.min(self.columns - left);
        ColumnPanel { values: &self.values[at * size..][..size], left, columns }
    }
}

/// One panel of a packed matrix.
#[derive(Clone, Copy)]
pub(super) struct ColumnPanel<'a> {
    pub values: &'a [u32],
    /// First column of the panel in the matrix.
    pub left: usize,
    /// Number of filled columns.
    pub columns: usize,
}

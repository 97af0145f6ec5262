//! The right factor of a product: rounded to `bf16` and laid out as tiles read it.

use std::ops::Range;

use super::super::matrix::Matrix;
use super::super::wide::{Work, wide};
use super::kernel::COLUMNS;
use super::narrowed::narrow;

/// A matrix in `bf16`: panels of 48 columns, in each pair of rows behind pair of rows, filled up with zeros.
pub(super) struct Panels {
    /// The pair of a column is one number, the upper row in its low half.
    values: Vec<u32>,
    /// Pairs of rows.
    pairs: usize,
    /// Of the matrix.
    columns: usize,
}

impl Panels {
    pub fn pack(matrix: Matrix<'_>) -> Panels {
        let (pairs, panels) = (matrix.rows.div_ceil(2), matrix.columns.div_ceil(COLUMNS));
        let mut values = vec![0; panels * pairs * COLUMNS];
        match (pairs, matrix.column_stride) {
            (0, _) => {}
            (_, 1) => wide(FromRows { matrix, pairs, values: &mut values }),
            _ => wide(FromColumns { matrix, pairs, values: &mut values }),
        }
        Panels { values, pairs, columns: matrix.columns }
    }

    /// All panels from left to right, as many together as hold so many pairs, and one at least.
    pub fn groups(&self, pairs: usize) -> impl Iterator<Item = Range<usize>> {
        let panels = self.columns.div_ceil(COLUMNS);
        let together = (pairs / (self.pairs * COLUMNS).max(1)).max(1);
        (0..panels).step_by(together).map(move |first| first..panels.min(first + together))
    }

    pub fn panel(&self, at: usize) -> Panel<'_> {
        let (size, left) = (self.pairs * COLUMNS, at * COLUMNS);
        let columns = COLUMNS.min(self.columns - left);
        Panel { values: &self.values[at * size..][..size], left, columns }
    }
}

/// Some columns of a matrix.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    pub values: &'a [u32],
    /// The first of them in the matrix.
    pub left: usize,
    /// How many are filled.
    pub columns: usize,
}

#[inline(always)]
fn pair(upper: f32, lower: f32) -> u32 {
    u32::from(narrow(upper)) | u32::from(narrow(lower)) << 16
}

/// From rows that are consecutive in memory.
struct FromRows<'a> {
    matrix: Matrix<'a>,
    pairs: usize,
    values: &'a mut [u32],
}

impl Work for FromRows<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let FromRows { matrix, pairs, values } = self;
        let Matrix { data, rows, columns, row_stride, .. } = matrix;
        for (panel, values) in values.chunks_exact_mut(pairs * COLUMNS).enumerate() {
            let left = panel * COLUMNS;
            let width = COLUMNS.min(columns - left);
            for (at, values) in values.chunks_exact_mut(COLUMNS).enumerate() {
                let upper = &data[2 * at * row_stride + left..][..width];
                if 2 * at + 1 < rows {
                    let lower = &data[(2 * at + 1) * row_stride + left..][..width];
                    for ((value, &upper), &lower) in values.iter_mut().zip(upper).zip(lower) {
                        *value = pair(upper, lower);
                    }
                } else {
                    for (value, &upper) in values.iter_mut().zip(upper) {
                        *value = pair(upper, 0.0);
                    }
                }
            }
        }
    }
}

/// From columns that are consecutive in memory: a transposed matrix, as weights and keys are.
struct FromColumns<'a> {
    matrix: Matrix<'a>,
    pairs: usize,
    values: &'a mut [u32],
}

impl Work for FromColumns<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let FromColumns { matrix, pairs, values } = self;
        let Matrix { data, rows, columns, column_stride, .. } = matrix;
        // Narrowed first, which is done in vectors; what is left is moving pairs.
        let mut narrowed = vec![0; pairs];
        for column in 0..columns {
            let (twos, rest) = data[column * column_stride..][..rows].as_chunks::<2>();
            for (value, &[upper, lower]) in narrowed.iter_mut().zip(twos) {
                *value = pair(upper, lower);
            }
            if let (Some(value), Some(&upper)) = (narrowed.last_mut(), rest.first()) {
                *value = pair(upper, 0.0);
            }
            let panel = &mut values[column / COLUMNS * pairs * COLUMNS + column % COLUMNS..];
            for (value, &pair) in panel.iter_mut().step_by(COLUMNS).zip(&narrowed) {
                *value = pair;
            }
        }
    }
}

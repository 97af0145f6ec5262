//! Left factor of a product, rounded to `bf16` in pairs of neighbors along a row.

use super::super::matrix::Matrix;
use super::kernel::ROWS;
use super::narrowing::Narrowing;
use super::room;

/// Rows of a matrix in `bf16`, padded to whole tiles and whole pairs. Rows beyond the matrix may hold any values.
pub(super) struct Narrowed<'a> {
    /// Pairs: pair `j` of row `i` is at `i row_stride + j pair_stride`.
    pub values: &'a [u32],
    pub row_stride: usize,
    pub pair_stride: usize,
    /// Number of pairs in a row.
    pub pairs: usize,
}

impl<'a> Narrowed<'a> {
    /// Narrows a matrix into `buffer`.
    pub fn of(matrix: Matrix<'_>, by: Narrowing, buffer: &'a mut Vec<u32>) -> Narrowed<'a> {
        let (rows, pairs) = (matrix.rows().next_multiple_of(ROWS), matrix.columns().div_ceil(2));
        let values = room(buffer, rows * pairs);
        let (data, row_stride) = (matrix.data(), matrix.row_stride());
        let column_stride = matrix.column_stride();
        if pairs == 0 {
            return Narrowed { values, row_stride: 0, pair_stride: 0, pairs };
        }
        if column_stride == 1 {
            // In ascending order, so that values spilled over the end of a row are overwritten by the next.
            for row in 0..matrix.rows() {
                let from = &data[row * row_stride..][..matrix.columns()];
                (by.along)(&mut values[row * pairs..], from);
            }
            return Narrowed { values, row_stride: pairs, pair_stride: 1, pairs };
        }
        let column = |at: usize| &data[at * column_stride..][..matrix.rows()];
        for pair in 0..pairs {
            let odd = (2 * pair + 1 < matrix.columns()).then(|| column(2 * pair + 1));
            (by.across)(&mut values[pair * rows..], column(2 * pair), odd);
        }
        Narrowed { values, row_stride: 1, pair_stride: rows, pairs }
    }
}

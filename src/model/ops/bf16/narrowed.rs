//! The left factor of a product: rounded to `bf16`, two neighbours along a row side by side.

use super::super::matrix::Matrix;
use super::super::wide::{Work, wide};
use super::kernel::ROWS;

/// A value rounded to the nearest `bf16`, ties to even; what is below the normal numbers is zero, as the
/// instruction takes it, and NaN stays NaN.
#[inline(always)]
pub(super) fn narrow(value: f32) -> u16 {
    const SMALLEST_NORMAL: u32 = 0x0080_0000;
    const INFINITY: u32 = 0x7f80_0000;
    let bits = value.to_bits();
    let (sign, size) = (bits & 0x8000_0000, bits & 0x7fff_ffff);
    let rounded = size + 0x7fff + ((size >> 16) & 1);
    let size = if size > INFINITY { 0x7fc0_0000 } else { rounded };
    let size = if size < SMALLEST_NORMAL { 0 } else { size };
    ((sign | size) >> 16) as u16
}

/// Rows of a matrix in `bf16`, filled up with zeros to whole tiles and whole pairs.
pub(super) struct Narrowed {
    /// Pair `j` of row `i` lies at `2 (i row_stride + j pair_stride)`.
    pub values: Vec<u16>,
    pub row_stride: usize,
    pub pair_stride: usize,
    /// Pairs of a row.
    pub pairs: usize,
}

impl Narrowed {
    pub fn of(matrix: Matrix<'_>) -> Narrowed {
        let (rows, pairs) = (matrix.rows.next_multiple_of(ROWS), matrix.columns.div_ceil(2));
        let by_row = matrix.column_stride == 1;
        let (row_stride, pair_stride) = if by_row { (pairs, 1) } else { (1, rows) };
        let mut values = vec![0; 2 * rows * pairs];
        match by_row {
            true => wide(ByRow { matrix, stride: 2 * pairs, values: &mut values }),
            false => wide(ByPair { matrix, stride: 2 * rows, values: &mut values }),
        }
        Narrowed { values, row_stride, pair_stride, pairs }
    }
}

/// Row behind row.
struct ByRow<'a> {
    matrix: Matrix<'a>,
    stride: usize,
    values: &'a mut [u16],
}

impl Work for ByRow<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let ByRow { matrix, stride, values } = self;
        for (row, narrowed) in values.chunks_exact_mut(stride.max(1)).take(matrix.rows).enumerate()
        {
            let row = &matrix.data[row * matrix.row_stride..][..matrix.columns];
            for (narrowed, &value) in narrowed.iter_mut().zip(row) {
                *narrowed = narrow(value);
            }
        }
    }
}

/// For a matrix whose columns are consecutive in memory: pairs of columns, behind one another.
struct ByPair<'a> {
    matrix: Matrix<'a>,
    stride: usize,
    values: &'a mut [u16],
}

impl Work for ByPair<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let ByPair { matrix, stride, values } = self;
        for (pair, narrowed) in values.chunks_exact_mut(stride.max(1)).enumerate() {
            let even = &matrix.data[2 * pair * matrix.column_stride..][..matrix.rows];
            if 2 * pair + 1 < matrix.columns {
                let odd = &matrix.data[(2 * pair + 1) * matrix.column_stride..][..matrix.rows];
                for ((both, &even), &odd) in
                    narrowed.as_chunks_mut::<2>().0.iter_mut().zip(even).zip(odd)
                {
                    *both = [narrow(even), narrow(odd)];
                }
            } else {
                for (both, &even) in narrowed.as_chunks_mut::<2>().0.iter_mut().zip(even) {
                    both[0] = narrow(even);
                }
            }
        }
    }
}

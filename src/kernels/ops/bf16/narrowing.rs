//! Rounding of `f32` to pairs of `bf16`, in plain loops or by CPU instructions. Both give the same bits, except for the
//! payload of NaN.
//!
//! A pair is one 32-bit number with its first value in the low half.

use super::super::matrix::Matrix;
use super::kernel::COLUMNS;
use crate::vectors::Vectors;
use crate::wide::{WideWork, wide};

/// Largest number of columns of [`Narrowing::down`], and numbers in a vector.
pub(super) const STRIP: usize = 16;

/// Functions that round values to pairs. NaN stays NaN.
///
/// Up to [`STRIP`] - 1 numbers after the last pair may get any value, for which there must be room: storing part of a
/// vector is many times slower than storing a whole one.
#[derive(Clone, Copy)]
pub(super) struct Narrowing {
    /// Makes pairs of neighbors in a row. An odd last value is paired with zero.
    pub along: fn(pairs: &mut [u32], row: &[f32]),
    /// Makes pairs of values in two rows, one above the other. A missing lower row counts as zeros.
    pub across: fn(pairs: &mut [u32], upper: &[f32], lower: Option<&[f32]>),
    /// Makes pairs of neighbors in each of at most [`STRIP`] columns from `first` on.
    ///
    /// The values of a column are consecutive in memory. Pair `j` of column `c` goes to `j * COLUMNS + c`.
    pub down: fn(pairs: &mut [u32], matrix: Matrix<'_>, first: usize),
}

impl Narrowing {
    /// Returns the fastest functions of this machine.
    pub fn fastest() -> Narrowing {
        #[cfg(target_arch = "x86_64")]
        if Vectors::in_use() == Vectors::Avx512Bf16 {
            use super::instructions::{across, along, down};
            return Narrowing {
                // SAFETY: the machine has the features.
                along: |pairs, row| unsafe { along(pairs, row) },
                // SAFETY: the machine has the features.
                across: |pairs, upper, lower| unsafe { across(pairs, upper, lower) },
                // SAFETY: the machine has the features.
                down: |pairs, matrix, first| unsafe { down(pairs, matrix, first) },
            };
        }
        Narrowing {
            along: |pairs, row| wide(Along { pairs, row }),
            across: |pairs, upper, lower| wide(Across { pairs, upper, lower }),
            down: |pairs, matrix, first| wide(Down { pairs, matrix, first }),
        }
    }
}

/// Rounds a value to the nearest `bf16`, ties to even.
///
/// A denormal value becomes zero, as the instruction takes it.
#[inline(always)]
fn narrow(value: f32) -> u16 {
    const SMALLEST_NORMAL: u32 = 0x0080_0000;
    const INFINITY: u32 = 0x7f80_0000;
    let bits = value.to_bits();
    let (sign, size) = (bits & 0x8000_0000, bits & 0x7fff_ffff);
    let rounded = size + 0x7fff + ((size >> 16) & 1);
    let size = match size {
        ..SMALLEST_NORMAL => 0,
        SMALLEST_NORMAL..=INFINITY => rounded,
        _ => 0x7fc0_0000,
    };
    ((sign | size) >> 16) as u16
}

#[inline(always)]
fn pair(first: f32, second: f32) -> u32 {
    u32::from(narrow(first)) | u32::from(narrow(second)) << 16
}

struct Along<'a> {
    pairs: &'a mut [u32],
    row: &'a [f32],
}

impl WideWork for Along<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let (twos, odd) = self.row.as_chunks::<2>();
        for (to, &[first, second]) in self.pairs.iter_mut().zip(twos) {
            *to = pair(first, second);
        }
        if let ([last], Some(to)) = (odd, self.pairs.get_mut(twos.len())) {
            *to = pair(*last, 0.0);
        }
    }
}

struct Across<'a> {
    pairs: &'a mut [u32],
    upper: &'a [f32],
    lower: Option<&'a [f32]>,
}

impl WideWork for Across<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        match self.lower {
            Some(lower) => {
                for ((to, &upper), &lower) in self.pairs.iter_mut().zip(self.upper).zip(lower) {
                    *to = pair(upper, lower);
                }
            }
            None => {
                for (to, &upper) in self.pairs.iter_mut().zip(self.upper) {
                    *to = pair(upper, 0.0);
                }
            }
        }
    }
}

struct Down<'a> {
    pairs: &'a mut [u32],
    matrix: Matrix<'a>,
    first: usize,
}

impl WideWork for Down<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Down { pairs, matrix, first } = self;
        let (data, rows, columns) = (matrix.data(), matrix.rows(), matrix.columns());
        let column_stride = matrix.column_stride();
        for column in first..columns.min(first + STRIP) {
            let (twos, odd) = data[column * column_stride..][..rows].as_chunks::<2>();
            let mut to = pairs[column - first..].iter_mut().step_by(COLUMNS);
            for (&[upper, lower], to) in twos.iter().zip(to.by_ref()) {
                *to = pair(upper, lower);
            }
            if let ([last], Some(to)) = (odd, to.next()) {
                *to = pair(*last, 0.0);
            }
        }
    }
}

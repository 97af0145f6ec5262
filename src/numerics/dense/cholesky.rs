//! Cholesky factors, left-looking in blocks of columns.

use super::lanes::add_scaled;
use crate::numerics::products::{Matrix, Target};
use crate::numerics::symmetric::Symmetric;
use crate::numerics::wide::{WideWork, wide};

/// Number of columns in a block.
const BLOCK: usize = 48;

/// Number of rows below the diagonal block that are solved together: registers of one column.
const SIDE: usize = 32;

/// Error of a matrix without a Cholesky factor: a pivot is not positive or not finite.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "matrix of order {order}: not positive definite, pivot {row} is {pivot:e}\n  help: add a \
     positive number to its diagonal"
)]
pub struct NotPositiveDefinite {
    /// Number of rows of the matrix.
    pub order: usize,
    /// Row of the pivot.
    pub row: usize,
    /// Value of the pivot, the square of the factor's diagonal entry.
    pub pivot: f64,
}

/// Lower factor `L` of a positive definite matrix `A = L L^T`.
#[derive(Clone, Debug, PartialEq)]
pub struct Cholesky {
    order: usize,
    /// Factor `L` with zeros above the diagonal, row-major.
    lower: Vec<f64>,
}

impl Cholesky {
    /// Factorizes a matrix in `order^3 / 3` multiplications and additions.
    ///
    /// # Errors
    /// Returns an error if a pivot is not positive or not finite.
    pub fn of(matrix: &Symmetric) -> Result<Cholesky, NotPositiveDefinite> {
        let order = matrix.order();
        let mut lower = matrix.lower();
        let mut panel = vec![0.0; order * BLOCK.min(order)];
        for first in (0..order).step_by(BLOCK) {
            let (count, rows) = (BLOCK.min(order - first), order - first);
            let panel = &mut panel[..rows * count];
            // Copied, as columns that are read and columns that are changed share rows.
            let own = lower[first * order..].chunks(order).map(|row| &row[first..][..count]);
            panel.chunks_exact_mut(count).zip(own).for_each(|(to, own)| to.copy_from_slice(own));
            let before = &lower[first * order..];
            let all = Matrix::strided(before, rows, first, order);
            let block = Matrix::strided(before, count, first, order);
            Target::dense(panel, rows, count).add(-1.0, all, block.t());
            wide(CholeskyPanel { panel, count }).map_err(|(row, pivot)| NotPositiveDefinite {
                order,
                row: first + row,
                pivot,
            })?;
            for (i, (row, from)) in
                lower[first * order..].chunks_mut(order).zip(panel.chunks_exact(count)).enumerate()
            {
                let len = count.min(i + 1);
                row[first..][..len].copy_from_slice(&from[..len]);
            }
        }
        Ok(Cholesky { order, lower })
    }

    /// Returns the number of rows of the factor.
    pub fn order(&self) -> usize {
        self.order
    }

    /// Returns `L`, row-major, with zeros above the diagonal.
    pub fn lower(&self) -> &[f64] {
        &self.lower
    }
}

/// Columns `(rows, count)` of a block from its diagonal on, and their update by earlier columns.
struct CholeskyPanel<'a> {
    panel: &'a mut [f64],
    count: usize,
}

impl WideWork for CholeskyPanel<'_> {
    /// Row and value of the first pivot that is not positive.
    type Answer = Result<(), (usize, f64)>;

    #[inline(always)]
    fn run(self) -> Self::Answer {
        let CholeskyPanel { panel, count } = self;
        let (block, below) = panel.split_at_mut(count * count);
        let columns = factorize(block, count)?;
        let mut side = vec![[0.0; SIDE]; count];
        for rows in below.chunks_mut(SIDE * count) {
            for (r, row) in rows.chunks_exact(count).enumerate() {
                side.iter_mut().zip(row).for_each(|(side, value)| side[r] = *value);
            }
            eliminate(&mut side, &columns);
            for (r, row) in rows.chunks_exact_mut(count).enumerate() {
                side.iter().zip(row).for_each(|(side, value)| *value = side[r]);
            }
        }
        Ok(())
    }
}

/// Factorizes a diagonal block in place and returns its factor by columns, `L^T`, row-major.
#[inline(always)]
fn factorize(block: &mut [f64], count: usize) -> Result<Vec<f64>, (usize, f64)> {
    let mut columns = vec![0.0; count * count];
    for i in 0..count {
        (0..=i).for_each(|j| columns[j * count + i] = block[i * count + j]);
    }
    for j in 0..count {
        let (done, later) = columns.split_at_mut((j + 1) * count);
        let column = &mut done[j * count + j..];
        let pivot = column[0];
        if !(pivot > 0.0 && pivot.is_finite()) {
            return Err((j, pivot));
        }
        let root = pivot.sqrt();
        column[0] = root;
        column[1..].iter_mut().for_each(|value| *value /= root);
        for (k, later) in later.chunks_exact_mut(count).enumerate() {
            let tail = &column[k + 1..];
            add_scaled(&mut later[j + 1 + k..], -tail[0], tail);
        }
    }
    for i in 0..count {
        (0..=i).for_each(|j| block[i * count + j] = columns[j * count + i]);
    }
    Ok(columns)
}

/// Solves `X L^T = side` in place for rows that are stored in columns of `side`.
#[inline(always)]
fn eliminate(side: &mut [[f64; SIDE]], columns: &[f64]) {
    let count = side.len();
    for j in 0..count {
        let (before, own) = side.split_at_mut(j);
        let mut sum = own[0];
        for (p, before) in before.iter().enumerate() {
            let factor = -columns[p * count + j];
            for (sum, before) in sum.iter_mut().zip(before) {
                *sum = factor.mul_add(*before, *sum);
            }
        }
        let pivot = columns[j * count + j];
        sum.iter_mut().for_each(|value| *value /= pivot);
        own[0] = sum;
    }
}

//! Solutions of linear systems by a Cholesky factor, in its blocks.

use super::cholesky::Cholesky;
use super::lanes::add_rows;
use crate::numerics::products::{Matrix, Target};
use crate::numerics::wide::{WideWork, wide};

/// Number of rows in a block.
const BLOCK: usize = 64;

impl Cholesky {
    /// Solves `A x = b` for every row `b` of `right` `(count, order)`, row-major, and returns the rows `x`.
    ///
    /// The bits of a solution do not depend on other rows that are solved with it.
    ///
    /// # Panics
    /// Panics if the last row is incomplete.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        let order = self.order();
        let count = right.len() / order.max(1);
        assert_eq!(right.len(), count * order, "right-hand sides of `order` values");
        let mut columns = transposed(right, order);
        self.forward(&mut columns, count);
        self.backward(&mut columns, count);
        transposed(&columns, count)
    }

    /// Solves `L Y = B` in place of `B` `(order, count)`.
    fn forward(&self, columns: &mut [f64], count: usize) {
        let order = self.order();
        for first in (0..order).step_by(BLOCK) {
            let size = BLOCK.min(order - first);
            let (before, own) = columns.split_at_mut(first * count);
            let own = &mut own[..size * count];
            let lower = Matrix::strided(&self.lower()[first * order..], size, first, order);
            Target::dense(own, size, count).add(-1.0, lower, Matrix::dense(before, first, count));
            wide(ForwardSubstitution {
                block: &self.lower()[first * (order + 1)..],
                order,
                own,
                count,
            });
        }
    }

    /// Solves `L^T X = Y` in place of `Y` `(order, count)`.
    fn backward(&self, columns: &mut [f64], count: usize) {
        let order = self.order();
        for first in (0..order).step_by(BLOCK).rev() {
            let size = BLOCK.min(order - first);
            let below = order - first - size;
            let (own, after) = columns[first * count..].split_at_mut(size * count);
            if below > 0 {
                let lower = &self.lower()[(first + size) * order + first..];
                let lower = Matrix::strided(lower, below, size, order);
                let after = Matrix::dense(after, below, count);
                Target::dense(own, size, count).add(-1.0, lower.t(), after);
            }
            wide(Backward { block: &self.lower()[first * (order + 1)..], order, own, count });
        }
    }
}

/// Returns rows of `width` values as columns.
fn transposed(rows: &[f64], width: usize) -> Vec<f64> {
    let count = rows.len() / width.max(1);
    let mut columns = vec![0.0; rows.len()];
    for (at, row) in rows.chunks_exact(width.max(1)).enumerate() {
        row.iter().enumerate().for_each(|(i, value)| columns[i * count + at] = *value);
    }
    columns
}

/// Forward substitution within a diagonal block.
struct ForwardSubstitution<'a> {
    /// Factor from the corner of the block on, with rows `order` apart.
    block: &'a [f64],
    order: usize,
    /// Right-hand sides of the block, `(size, count)`.
    own: &'a mut [f64],
    count: usize,
}

impl WideWork for ForwardSubstitution<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let ForwardSubstitution { block, order, own, count } = self;
        let mut factors = [0.0; BLOCK];
        for j in 0..own.len() / count.max(1) {
            let row = &block[j * order..][..=j];
            factors.iter_mut().zip(row).for_each(|(factor, value)| *factor = -value);
            let (before, own) = own.split_at_mut(j * count);
            let own = &mut own[..count];
            add_rows(own, &factors[..j], |p| &before[p * count..][..count]);
            own.iter_mut().for_each(|x| *x /= row[j]);
        }
    }
}

/// Backward substitution within a diagonal block.
struct Backward<'a> {
    block: &'a [f64],
    order: usize,
    own: &'a mut [f64],
    count: usize,
}

impl WideWork for Backward<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Backward { block, order, own, count } = self;
        let size = own.len() / count.max(1);
        let mut factors = [0.0; BLOCK];
        for j in (0..size).rev() {
            let (own, after) = own[j * count..].split_at_mut(count);
            let below = size - j - 1;
            for (p, factor) in factors[..below].iter_mut().enumerate() {
                *factor = -block[(j + 1 + p) * order + j];
            }
            add_rows(own, &factors[..below], |p| &after[p * count..][..count]);
            let pivot = block[j * order + j];
            own.iter_mut().for_each(|x| *x /= pivot);
        }
    }
}

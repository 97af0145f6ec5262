//! Products of Householder reflectors as orthogonal matrices.

use crate::numerics::dense::lanes::dot;
use crate::numerics::products::{Matrix, Target};

/// Number of reflectors that are applied together.
const BLOCK: usize = 32;

/// Reflectors `H_k = I - tau_k v_k v_k^T`, where `v_k` begins with a one at `k + 1`.
pub(super) struct Reflectors {
    pub(super) order: usize,
    /// Square matrix, row-major: row `k` holds `v_k` from column `k + 1` on; entries before are unused.
    pub(super) vectors: Vec<f64>,
    /// Factors `tau_k`; 0 for the identity.
    pub(super) scales: Vec<f64>,
}

impl Reflectors {
    /// Returns `H_last ... H_1 H_0`, `(order, order)`, row-major.
    ///
    /// Blocks of reflectors are applied as `I - V^T T^T V` (compact WY form, Schreiber and Van Loan 1989).
    #[inline(always)]
    pub(super) fn product(&self) -> Vec<f64> {
        let n = self.order;
        let mut q = vec![0.0; n * n];
        (0..n).for_each(|i| q[i * n + i] = 1.0);
        let mut v = vec![0.0; BLOCK * n];
        let (mut along, mut turned) = (vec![0.0; n * BLOCK], vec![0.0; n * BLOCK]);
        for first in (0..self.scales.len()).step_by(BLOCK).rev() {
            let (count, m) = (BLOCK.min(self.scales.len() - first), n - first - 1);
            self.block(first, count, &mut v);
            let factor = self.factor(first, count, &v);
            let (v, factor) = (Matrix::dense(&v, count, m), Matrix::dense(&factor, count, count));
            // Rows and columns up to `first` are still those of the identity.
            let corner = (first + 1) * n + first + 1;
            let (along, turned) = (&mut along[..m * count], &mut turned[..m * count]);
            let rows = Matrix::strided(&q[corner..], m, m, n);
            Target::dense(along, m, count).set(1.0, rows, v.t());
            Target::dense(turned, m, count).set(1.0, Matrix::dense(along, m, count), factor.t());
            let rows = Target::strided(&mut q[corner..], m, m, n);
            rows.add(-1.0, Matrix::dense(turned, m, count), v);
        }
        q
    }

    /// Writes the vectors of a block as rows from column `first + 1` on.
    #[inline(always)]
    fn block(&self, first: usize, count: usize, v: &mut [f64]) {
        let (n, m) = (self.order, self.order - first - 1);
        for (j, row) in v.chunks_exact_mut(m).take(count).enumerate() {
            let (before, own) = row.split_at_mut(j);
            before.fill(0.0);
            own.copy_from_slice(&self.vectors[(first + j) * n + first + j + 1..][..m - j]);
        }
    }

    /// Returns the upper triangle `T` of a block, `(count, count)`.
    ///
    /// `H_first H_(first + 1) ... = I - V^T T V`.
    #[inline(always)]
    fn factor(&self, first: usize, count: usize, v: &[f64]) -> Vec<f64> {
        let m = self.order - first - 1;
        let mut factor = vec![0.0; count * count];
        let mut overlaps = [0.0; BLOCK];
        for (j, scale) in self.scales[first..first + count].iter().enumerate() {
            for (l, overlap) in overlaps[..j].iter_mut().enumerate() {
                *overlap = dot(&v[l * m..][..m], &v[j * m..][..m]);
            }
            for i in 0..j {
                let mut sum = 0.0;
                for (l, overlap) in overlaps.iter().enumerate().take(j).skip(i) {
                    sum = overlap.mul_add(factor[i * count + l], sum);
                }
                factor[i * count + j] = -scale * sum;
            }
            factor[j * count + j] = *scale;
        }
        factor
    }
}

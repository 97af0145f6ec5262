//! Low-rank pairs parallel to a linear layer, which add `B A x` to some of its columns.

use std::ops::Range;

use candle_core::{Result, Tensor};

use super::super::few_rows;
use super::super::linear::{LinearWeights, append_rows};
use super::super::matrix::{Matrix, MatrixMut, Precision, RightFactor, append_product};
use super::super::storage::{Lent, lent, served};
use crate::wide::add_rows;

/// Largest rank. Up to it a product is one chain, so that adding in place equals adding the finished product.
const MAX_RANK: usize = 512;

/// Low-rank pair (LoRA, Hu et al. 2022).
#[derive(Clone, Debug)]
pub struct LowRankPair {
    /// Factor `A`, `(r, in)`, or `(members, r, in)` with a pair for each member of a pack.
    pub a: Tensor,
    /// Factor `B`, `(out, r)`, or `(members, out, r)`.
    pub b: Tensor,
    /// First of the `out` columns of the layer to which it is added.
    pub first: usize,
}

impl LowRankPair {
    /// Returns true if kernels support the pair at a layer of this size, in a pack of `members` members.
    pub(super) fn is_served(&self, (outputs, inputs): (usize, usize), members: usize) -> bool {
        let fits = |rank, of_b: &[usize]| match *of_b {
            [own, r] => r == rank && rank <= MAX_RANK && self.first + own <= outputs,
            _ => false,
        };
        let shapes = match (self.a.dims(), self.b.dims()) {
            ([r, i], b) => *i == inputs && fits(*r, b),
            ([m, r, i], [n, b @ ..]) => {
                *m == members && *n == members && *i == inputs && fits(*r, b)
            }
            _ => false,
        };
        let here = |t: &Tensor| t.is_contiguous() && served(&[t]);
        shapes && here(&self.a) && here(&self.b)
    }
}

/// Pair whose values are borrowed.
pub(super) struct LentPair<'a> {
    a: Lent<'a>,
    b: Lent<'a>,
    first: usize,
    rank: usize,
    inputs: usize,
    outputs: usize,
    /// True if each member has a separate pair.
    own: bool,
    tracked: [bool; 2],
}

/// Gradients of the two factors.
pub(super) type PairGradients = [Option<Vec<f32>>; 2];

impl<'a> LentPair<'a> {
    pub fn new(pair: &'a LowRankPair) -> Result<LentPair<'a>> {
        let (of_a, of_b) = (pair.a.dims(), pair.b.dims());
        Ok(LentPair {
            a: lent(&pair.a)?,
            b: lent(&pair.b)?,
            first: pair.first,
            rank: of_b[of_b.len() - 1],
            inputs: of_a[of_a.len() - 1],
            outputs: of_b[of_b.len() - 2],
            own: of_a.len() == 3,
            tracked: [pair.a.track_op(), pair.b.track_op()],
        })
    }

    fn a(&self, member: usize) -> &[f32] {
        self.part(&self.a, member, self.rank * self.inputs)
    }

    fn b(&self, member: usize) -> &[f32] {
        self.part(&self.b, member, self.outputs * self.rank)
    }

    fn part<'b>(&self, values: &'b [f32], member: usize, len: usize) -> &'b [f32] {
        let start = if self.own { member * len } else { 0 };
        &values[start..start + len]
    }

    /// Adds `B A x` to the rows of `y`, which are `width` wide, and returns `A x`.
    ///
    /// `runs` are the rows of each member.
    pub fn forward(
        &self,
        x: &[f32],
        y: &mut [f32],
        width: usize,
        runs: &[Range<usize>],
    ) -> Vec<f32> {
        let mut low = Vec::with_capacity(x.len() / self.inputs.max(1) * self.rank);
        for (member, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            let from = low.len();
            let rows = &x[run.start * self.inputs..run.end * self.inputs];
            append_linear(&mut low, rows, self.a(member), self.inputs);
            let (low, b) = (&low[from..], self.b(member));
            let y = &mut y[run.start * width..run.end * width];
            if few_rows::applies(run.len(), b) {
                let mut more = Vec::with_capacity(run.len() * self.outputs);
                append_linear(&mut more, low, b, self.rank);
                for (y, more) in y.chunks_exact_mut(width).zip(more.chunks_exact(self.outputs)) {
                    add_rows(&mut y[self.first..self.first + self.outputs], more);
                }
            } else {
                let low = Matrix::dense(low, run.len(), self.rank);
                let b = Matrix::dense(b, self.outputs, self.rank);
                let columns = &mut y[self.first..];
                MatrixMut::strided(columns, run.len(), self.outputs, width).add(1.0, low, b.t());
            }
        }
        low
    }

    /// Returns the gradient of `A x` from that of the layer's result, whose rows are `width` wide.
    pub fn by_low(&self, g: &[f32], width: usize, runs: &[Range<usize>]) -> Vec<f32> {
        let mut by_low = Vec::with_capacity(g.len() / width.max(1) * self.rank);
        for (member, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            let b = RightFactor::Plain(Matrix::dense(self.b(member), self.outputs, self.rank));
            let g = self.columns(g, width, run);
            append_product(&mut by_low, Precision::F32, None, g, &b);
        }
        by_low
    }

    /// Adds the pair's part to the gradient of `x`.
    pub fn add_by_x(&self, by_x: &mut [f32], by_low: &[f32], runs: &[Range<usize>]) {
        for (member, run) in runs.iter().enumerate().filter(|(_, run)| !run.is_empty()) {
            let a = Matrix::dense(self.a(member), self.rank, self.inputs);
            let low = Matrix::dense(&by_low[run.start * self.rank..], run.len(), self.rank);
            let x = &mut by_x[run.start * self.inputs..run.end * self.inputs];
            MatrixMut::dense(x, run.len(), self.inputs).add(1.0, low, a);
        }
    }

    /// Returns the gradients of `A` and `B`, each if it trains.
    pub fn gradients(
        &self,
        x: &[f32],
        low: &[f32],
        (g, width): (&[f32], usize),
        by_low: &[f32],
        runs: &[Range<usize>],
    ) -> PairGradients {
        let of_a = |run: &Range<usize>, out: &mut [f32]| {
            let by_low = Matrix::dense(&by_low[run.start * self.rank..], run.len(), self.rank);
            let x = Matrix::dense(&x[run.start * self.inputs..], run.len(), self.inputs);
            MatrixMut::dense(out, self.rank, self.inputs).set(1.0, by_low.t(), x);
        };
        let of_b = |run: &Range<usize>, out: &mut [f32]| {
            let low = Matrix::dense(&low[run.start * self.rank..], run.len(), self.rank);
            let g = self.columns(g, width, run);
            MatrixMut::dense(out, self.outputs, self.rank).set(1.0, g.t(), low);
        };
        let [want_a, want_b] = self.tracked;
        [
            want_a.then(|| self.summed(self.rank * self.inputs, self.a.len(), runs, of_a)),
            want_b.then(|| self.summed(self.outputs * self.rank, self.b.len(), runs, of_b)),
        ]
    }

    /// Returns the gradient of a factor of `len` values; `of` writes the gradient over some rows.
    ///
    /// A member has `each` of the values.
    fn summed(
        &self,
        each: usize,
        len: usize,
        runs: &[Range<usize>],
        of: impl Fn(&Range<usize>, &mut [f32]),
    ) -> Vec<f32> {
        let mut gradient = vec![0f32; len];
        let all = 0..runs.last().map_or(0, |run| run.end);
        let runs = if self.own { runs } else { std::slice::from_ref(&all) };
        for (run, out) in runs.iter().zip(gradient.chunks_exact_mut(each.max(1))) {
            if !run.is_empty() {
                of(run, out);
            }
        }
        gradient
    }

    /// Returns the pair's columns in some rows of the gradient of the layer's result.
    fn columns<'b>(&self, g: &'b [f32], width: usize, run: &Range<usize>) -> Matrix<'b> {
        Matrix::strided(&g[run.start * width + self.first..], run.len(), self.outputs, width)
    }
}

/// Appends `x W^T` of dense rows with `inputs` values.
fn append_linear(to: &mut Vec<f32>, x: &[f32], weight: &[f32], inputs: usize) {
    let factor = Matrix::dense(weight, weight.len() / inputs.max(1), inputs).t();
    let layer = LinearWeights { weight, bias: None, inputs };
    append_rows(to, Precision::F32, x, layer, &RightFactor::Plain(factor));
}

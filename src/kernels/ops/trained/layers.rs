//! Norms and linear layers that may train, on plain rows.

use std::ops::Range;

use candle_core::{Result, Tensor};

use super::super::affine::Affine;
use super::super::frozen::Pieces;
use super::super::layer_norm::{ByAffine, ByInput, LayerNormForward};
use super::super::linear::{LinearWeights, append_rows};
use super::super::matrix::{Matrix, MatrixMut, Precision, RightFactor, append_product};
use super::super::storage::{Lent, lent, served};
use super::pairs::{LentPair, LowRankPair, PairGradients};
use crate::wide::{add_rows, wide};

/// Linear layer with low-rank pairs parallel to it.
#[derive(Clone, Debug)]
pub struct AdaptedLinear {
    /// Weight and bias of the layer.
    pub layer: Affine,
    /// Low-rank pairs, in the order in which they are added.
    pub pairs: Vec<LowRankPair>,
}

impl AdaptedLinear {
    /// Returns `(outputs, inputs)` if kernels support layer and pairs, in a pack of `members` members.
    pub(super) fn extents(&self, members: usize) -> Option<(usize, usize)> {
        let &[outputs, inputs] = self.layer.weight.dims() else { return None };
        let fits = self.layer.bias.dims() == [outputs] && is_here(&self.layer);
        let pairs = self.pairs.iter().all(|pair| pair.is_served((outputs, inputs), members));
        (fits && pairs).then_some((outputs, inputs))
    }

    /// Returns true if the layer or a pair gets a gradient.
    pub(super) fn trains(&self) -> bool {
        self.tensors().any(Tensor::track_op)
    }

    /// Returns weight, bias, and the factors of all pairs.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let factors = self.pairs.iter().flat_map(|pair| [&pair.a, &pair.b]);
        [&self.layer.weight, &self.layer.bias].into_iter().chain(factors)
    }
}

/// Returns true if our kernels can read weight and bias in place.
pub(super) fn is_here(affine: &Affine) -> bool {
    [&affine.weight, &affine.bias].into_iter().all(|t| t.is_contiguous() && served(&[t]))
}

/// Layer norm that may train.
pub(super) struct LentNorm<'a> {
    weight: Lent<'a>,
    bias: Lent<'a>,
    eps: f32,
    tracked: [bool; 2],
}

/// Gradients of a norm's weight and bias, each if it trains.
type NormGradients = [Option<Vec<f32>>; 2];

impl<'a> LentNorm<'a> {
    pub fn new(norm: &'a Affine, eps: f64) -> Result<LentNorm<'a>> {
        let tracked = [norm.weight.track_op(), norm.bias.track_op()];
        let (weight, bias) = (lent(&norm.weight)?, lent(&norm.bias)?);
        Ok(LentNorm { weight, bias, eps: eps as f32, tracked })
    }

    pub fn trains(&self) -> bool {
        self.tracked.contains(&true)
    }

    pub fn forward(&self, x: &[f32]) -> Vec<f32> {
        wide(LayerNormForward { x, weight: &self.weight, bias: &self.bias, eps: self.eps })
    }

    /// Returns the gradients of `x`, if it is wanted, and of weight and bias, if they train.
    ///
    /// `g` is the gradient of the result; without it there are none.
    pub fn backward(
        &self,
        x: &[f32],
        g: Option<Vec<f32>>,
        want_x: bool,
    ) -> (Option<Vec<f32>>, NormGradients) {
        let Some(g) = g else { return (None, [None, None]) };
        let by_x = || wide(ByInput { x, weight: &self.weight, g: &g, eps: self.eps });
        (want_x.then(by_x), self.gradients(x, &g))
    }

    fn gradients(&self, x: &[f32], g: &[f32]) -> NormGradients {
        if !self.trains() {
            return [None, None];
        }
        let width = self.weight.len();
        let (mut by_weight, mut by_bias) = (vec![0f32; width], vec![0f32; width]);
        let (w, b) = (&mut by_weight[..], &mut by_bias[..]);
        wide(ByAffine { x, g, by_weight: w, by_bias: b, eps: self.eps });
        let [want_weight, want_bias] = self.tracked;
        [want_weight.then_some(by_weight), want_bias.then_some(by_bias)]
    }
}

/// Linear layer that may train, with its pairs.
pub(super) struct LentLinear<'a> {
    weight: Lent<'a>,
    bias: Lent<'a>,
    pairs: Vec<LentPair<'a>>,
    inputs: usize,
    outputs: usize,
    precision: Precision,
    tracked: [bool; 2],
}

/// Results of a linear layer's forward pass.
#[derive(Default)]
pub(super) struct LinearResult {
    /// Output rows of the layer.
    pub y: Vec<f32>,
    /// Product `A x` of every pair.
    pub low: Vec<Vec<f32>>,
}

/// Gradients of a layer's weight, bias and pairs, each if it trains.
pub(super) struct LinearGradients {
    own: [Option<Vec<f32>>; 2],
    pairs: Vec<PairGradients>,
}

impl LinearGradients {
    /// Returns no gradient for any tensor of a layer.
    pub fn none(of: &AdaptedLinear) -> LinearGradients {
        LinearGradients { own: [None, None], pairs: vec![[None, None]; of.pairs.len()] }
    }

    /// Returns the gradients in the order of [`AdaptedLinear::tensors`].
    pub fn into_values(self) -> impl Iterator<Item = Option<Vec<f32>>> {
        self.own.into_iter().chain(self.pairs.into_iter().flatten())
    }
}

impl<'a> LentLinear<'a> {
    pub fn new(of: &'a AdaptedLinear) -> Result<LentLinear<'a>> {
        let (outputs, inputs) = of.layer.weight.dims2()?;
        Ok(LentLinear {
            weight: lent(&of.layer.weight)?,
            bias: lent(&of.layer.bias)?,
            pairs: of.pairs.iter().map(LentPair::new).collect::<Result<_>>()?,
            inputs,
            outputs,
            precision: of.layer.precision,
            tracked: [of.layer.weight.track_op(), of.layer.bias.track_op()],
        })
    }

    /// Returns true if a backward pass needs the layer's input.
    pub fn needs_input(&self) -> bool {
        self.tracked[0] || !self.pairs.is_empty()
    }

    /// Applies the layer to rows of `x`, of which each sample has `each`.
    pub fn forward(&self, x: &[f32], pieces: &Pieces, each: usize) -> LinearResult {
        let mut y = Vec::with_capacity(x.len() / self.inputs.max(1) * self.outputs);
        let weight = Matrix::dense(&self.weight, self.outputs, self.inputs);
        let mut buffer = Vec::new();
        let factor = RightFactor::new(weight.t(), self.precision, &mut buffer);
        for run in pieces.rows(each) {
            let (weight, bias, inputs) = (&*self.weight, Some(&*self.bias), self.inputs);
            let x = &x[run.start * inputs..run.end * inputs];
            let layer = LinearWeights { weight, bias, inputs };
            append_rows(&mut y, self.precision, x, layer, &factor);
        }
        let runs = pieces.members(each);
        let add = |pair: &LentPair<'_>| pair.forward(x, &mut y, self.outputs, &runs);
        let low = self.pairs.iter().map(add).collect();
        LinearResult { y, low }
    }

    /// Returns the gradients of `x`, if wanted, and of all tensors that train, from that of the result.
    ///
    /// `x` may be empty unless [`LentLinear::needs_input`] returns true.
    pub fn backward(
        &self,
        (x, low): (&[f32], &[Vec<f32>]),
        g: &[f32],
        (pieces, each): (&Pieces, usize),
        want_x: bool,
    ) -> (Option<Vec<f32>>, LinearGradients) {
        let runs = pieces.members(each);
        let of_pair = |pair: &LentPair<'_>| pair.by_low(g, self.outputs, &runs);
        let by_low: Vec<Vec<f32>> = self.pairs.iter().map(of_pair).collect();
        let by_x = want_x.then(|| self.by_x(g, &by_low, &pieces.rows(each), &runs));
        let of = self.pairs.iter().zip(low).zip(&by_low);
        let pairs = of
            .map(|((pair, low), by_low)| pair.gradients(x, low, (g, self.outputs), by_low, &runs));
        let [want_weight, want_bias] = self.tracked;
        let own = [want_weight.then(|| self.by_weight(x, g)), want_bias.then(|| self.by_bias(g))];
        (by_x, LinearGradients { own, pairs: pairs.collect() })
    }

    /// Returns the gradient of `x`, summed in the order of candle's backward pass: the pairs' parts from the last on,
    /// then the layer's.
    fn by_x(
        &self,
        g: &[f32],
        by_low: &[Vec<f32>],
        pieces: &[Range<usize>],
        runs: &[Range<usize>],
    ) -> Vec<f32> {
        let mut by_x = Vec::with_capacity(g.len() / self.outputs.max(1) * self.inputs);
        let weight = Matrix::dense(&self.weight, self.outputs, self.inputs);
        let mut buffer = Vec::new();
        let factor = RightFactor::new(weight, self.precision, &mut buffer);
        for run in pieces {
            let g = Matrix::dense(&g[run.start * self.outputs..], run.len(), self.outputs);
            append_product(&mut by_x, self.precision, None, g, &factor);
        }
        match &self.pairs[..] {
            [] => {}
            [pair] => pair.add_by_x(&mut by_x, &by_low[0], runs),
            pairs => {
                let mut sum = vec![0f32; by_x.len()];
                for (pair, by_low) in pairs.iter().zip(by_low).rev() {
                    pair.add_by_x(&mut sum, by_low, runs);
                }
                add_rows(&mut by_x, &sum);
            }
        }
        by_x
    }

    fn by_weight(&self, x: &[f32], g: &[f32]) -> Vec<f32> {
        let (rows, mut gradient) = (g.len() / self.outputs.max(1), vec![0f32; self.weight.len()]);
        let (g, x) = (Matrix::dense(g, rows, self.outputs), Matrix::dense(x, rows, self.inputs));
        let out = MatrixMut::dense(&mut gradient, self.outputs, self.inputs);
        out.at(self.precision).set(1.0, g.t(), x);
        gradient
    }

    fn by_bias(&self, g: &[f32]) -> Vec<f32> {
        let mut sums = vec![0f32; self.outputs];
        add_rows(&mut sums, g);
        sums
    }
}

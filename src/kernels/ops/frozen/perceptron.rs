//! Perceptron half of a frozen block: `x + W_2 a(W_1 norm(x) + b_1) + b_2` with an activation `a`.

use parking_lot::Mutex;

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor};

use super::super::activation::PerceptronActivation;
use super::super::affine::Affine;
use super::super::groups::SampleGroups;
use super::super::storage::{lent, served, tensor_like, values};
use super::composed::{self, composes};
use super::layers::{FrozenLinear, FrozenNorm, Pieces, are_served, fit, part};
use crate::wide::add_rows;

/// Computes the perceptron of a frozen block with its residual, from `x` `(b, n, d)` to the same shape.
///
/// `layers` go from `d` to the hidden width and back. In a pack, `groups` assigns samples to members. Returns `None` if
/// a layer is not frozen or has another type than `x`; the operations of [`Affine`] then compute the same.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn frozen_perceptron(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    layers: [&Affine; 2],
    activation: PerceptronActivation,
    groups: Option<&SampleGroups>,
) -> Result<Option<Tensor>> {
    let by_kernels = are_served(norm, layers) && served(&[x]);
    if !by_kernels && (served(&[x]) || !composes(x, norm, layers)) {
        return Ok(None);
    }
    let (batch, _, width) = x.dims3()?;
    let hidden = layers[0].weight.dim(0)?;
    fit(width, norm, layers, (hidden, hidden))?;
    if !by_kernels {
        return composed::perceptron(x, norm, eps, layers, activation).map(Some);
    }
    let pieces = Pieces::of(batch, groups, layers[0].precision)?;
    let op = Perceptron {
        norm: norm.clone(),
        eps,
        layers: layers.map(Affine::clone),
        activation,
        pieces,
        tracked: x.track_op(),
        hidden: Mutex::default(),
    };
    x.contiguous()?.apply_op1(op).map(Some)
}

struct Perceptron {
    norm: Affine,
    eps: f64,
    layers: [Affine; 2],
    activation: PerceptronActivation,
    pieces: Pieces,
    /// True if a backward pass may follow.
    tracked: bool,
    /// Input of the activation, if a backward pass may follow.
    hidden: Mutex<Vec<f32>>,
}

impl Perceptron {
    /// Computes the half of `x`, with `tokens` rows per sample.
    fn forward(&self, x: &[f32], tokens: usize) -> Result<Vec<f32>> {
        let norm = FrozenNorm::new(&self.norm, self.eps)?;
        let [up, down] = [FrozenLinear::new(&self.layers[0])?, FrozenLinear::new(&self.layers[1])?];
        let (mut for_up, mut for_down) = (Vec::new(), Vec::new());
        let (through_up, through_down) = (up.forth(&mut for_up), down.forth(&mut for_down));
        let (mut y, mut hidden) = (Vec::with_capacity(x.len()), Vec::new());
        if self.tracked {
            hidden.reserve(x.len() / up.inputs * up.outputs);
        }
        for rows in self.pieces.rows(tokens) {
            if !self.tracked {
                hidden.clear();
            }
            let (x, from) = (part(x, &rows, up.inputs), hidden.len());
            through_up.append(&mut hidden, &norm.forward(x));
            through_down.append(&mut y, &self.activation.values(&hidden[from..]));
            add_rows(&mut y[rows.start * down.outputs..], x);
        }
        if self.tracked {
            *self.hidden.lock() = hidden;
        }
        Ok(y)
    }

    /// Returns the gradient of `x` from that of the result.
    fn backward(&self, x: &[f32], tokens: usize, g: &[f32]) -> Result<Vec<f32>> {
        let norm = FrozenNorm::new(&self.norm, self.eps)?;
        let [up, down] = [FrozenLinear::new(&self.layers[0])?, FrozenLinear::new(&self.layers[1])?];
        let (mut for_up, mut for_down) = (Vec::new(), Vec::new());
        let (through_up, through_down) = (up.back(&mut for_up), down.back(&mut for_down));
        let hidden = self.hidden.lock();
        let (mut all, mut by_active, mut by_normed) = (Vec::with_capacity(x.len()), vec![], vec![]);
        for rows in self.pieces.rows(tokens) {
            by_active.clear();
            by_normed.clear();
            let (x, g) = (part(x, &rows, up.inputs), part(g, &rows, down.outputs));
            through_down.append(&mut by_active, g);
            let by_hidden = self.activation.slopes(part(&hidden, &rows, up.outputs), &by_active);
            through_up.append(&mut by_normed, &by_hidden);
            let mut by_x = norm.backward(x, &by_normed);
            add_rows(&mut by_x, g);
            all.extend_from_slice(&by_x);
        }
        Ok(all)
    }
}

impl CustomOp1 for Perceptron {
    fn name(&self) -> &'static str {
        "frozen-perceptron"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let shape = layout.shape();
        let y = self.forward(values(x, layout)?, shape.dim(D::Minus2)?)?;
        Ok((CpuStorage::F32(y), shape.clone()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let g = g.contiguous()?;
        let gradient = self.backward(&lent(x)?, x.dim(D::Minus2)?, &lent(&g)?)?;
        tensor_like(gradient, x).map(Some)
    }
}

//! Perceptron half of a block that trains: `x + W_2 a(W_1 norm(x) + b_1) + b_2` with an activation `a`.

use parking_lot::Mutex;

use candle_core::{Result, Shape, Tensor};

use super::super::activation::PerceptronActivation;
use super::super::affine::Affine;
use super::super::frozen::Pieces;
use super::super::groups::SampleGroups;
use super::super::storage::served;
use super::half::{self, HalfGradients, HalfKernel};
use super::layers::{AdaptedLinear, LentLinear, LentNorm, LinearGradients, LinearResult, is_here};
use crate::wide::add_rows;

/// Computes the perceptron of a block with its residual, from `x` `(b, n, d)` to the same shape.
///
/// It equals [`frozen_perceptron`](super::super::frozen_perceptron), but norm, layers and pairs may train. Returns
/// `None` if the kernels do not support an operand, or a pair does not fit its layer. The single operations then
/// compute the same, or report the error.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn trained_perceptron(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    [up, down]: [AdaptedLinear; 2],
    activation: PerceptronActivation,
    groups: Option<&SampleGroups>,
) -> Result<Option<Tensor>> {
    let (batch, tokens, width) = x.dims3()?;
    let pack_size = groups.map_or(1, SampleGroups::members);
    let fits = match (up.extents(pack_size), down.extents(pack_size)) {
        (Some((hidden, inputs)), Some((outputs, active))) => {
            (inputs, outputs) == (width, width) && hidden == active
        }
        _ => false,
    };
    let alike = up.layer.precision == down.layer.precision;
    if !fits || !alike || norm.weight.dims() != [width] || !is_here(norm) || !served(&[x]) {
        return Ok(None);
    }
    let pieces = Pieces::of(batch, groups, up.layer.precision)?;
    let kernel = TrainedPerceptron {
        norm: norm.clone(),
        eps,
        layers: [up, down],
        activation,
        pieces,
        extents: [batch, tokens, width],
        kept: Mutex::default(),
    };
    half::apply(x, kernel).map(Some)
}

struct TrainedPerceptron {
    norm: Affine,
    eps: f64,
    layers: [AdaptedLinear; 2],
    activation: PerceptronActivation,
    pieces: Pieces,
    /// Number of samples, rows per sample, and width of `x`.
    extents: [usize; 3],
    kept: Mutex<PerceptronValues>,
}

/// Values that are kept for a backward pass.
#[derive(Default)]
struct PerceptronValues {
    hidden: LinearResult,
    /// Input of the second layer, if it trains.
    active: Vec<f32>,
    low: Vec<Vec<f32>>,
}

impl HalfKernel for TrainedPerceptron {
    const NAME: &'static str = "trained-perceptron";

    fn tensors(&self) -> Vec<&Tensor> {
        let layers = self.layers.iter().flat_map(AdaptedLinear::tensors);
        [&self.norm.weight, &self.norm.bias].into_iter().chain(layers).collect()
    }

    fn forward(&self, x: &[f32], tracked: bool) -> Result<(Vec<f32>, Shape)> {
        let [batch, tokens, width] = self.extents;
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [up, down] = [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let hidden = up.forward(&norm.forward(x), &self.pieces, tokens);
        let active = self.activation.values(&hidden.y);
        let LinearResult { mut y, low } = down.forward(&active, &self.pieces, tokens);
        add_rows(&mut y, x);
        if tracked {
            let active = if down.needs_input() { active } else { Vec::new() };
            *self.kept.lock() = PerceptronValues { hidden, active, low };
        }
        Ok((y, Shape::from((batch, tokens, width))))
    }

    fn backward(&self, x: &[f32], g: &[f32], want_x: bool) -> Result<HalfGradients> {
        let [_, tokens, _] = self.extents;
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [up, down] = [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let want_normed = want_x || norm.trains();
        let want_hidden = want_normed || self.layers[0].trains();
        let PerceptronValues { hidden, active, low } = &*self.kept.lock();
        let through = (&self.pieces, tokens);
        let (by_active, of_down) = down.backward((active, low), g, through, want_hidden);
        let (mut by_normed, mut of_up) = (None, LinearGradients::none(&self.layers[0]));
        if let Some(by_active) = by_active {
            let by_hidden = self.activation.slopes(&hidden.y, &by_active);
            let normed = if up.needs_input() { norm.forward(x) } else { Vec::new() };
            (by_normed, of_up) =
                up.backward((&normed, &hidden.low), &by_hidden, through, want_normed);
        }
        let (mut by_x, of_norm) = norm.backward(x, by_normed, want_x);
        if let Some(by_x) = &mut by_x {
            add_rows(by_x, g);
        }
        let all = of_norm.into_iter().chain(of_up.into_values()).chain(of_down.into_values());
        Ok(HalfGradients { x: by_x, others: all.collect() })
    }
}

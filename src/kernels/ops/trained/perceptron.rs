//! The second half: `x + W_2 a(W_1 norm(x) + b_1) + b_2` with an activation `a`.

use parking_lot::Mutex;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::super::activation::PerceptronActivation;
use super::super::affine::Affine;
use super::super::bundle::{Bundle, BundleGradients, no_value};
use super::super::frozen::Pieces;
use super::super::groups::SampleGroups;
use super::super::storage::{lent, served, tensor_like, values};
use super::layers::{
    AdaptedLinear, LentLinear, LentNorm, LinearGradients, LinearResult, as_tensors, is_here,
};
use crate::wide::add_rows;

/// Computes the perceptron of a block with its residual: `x` `(b, n, d)` to the same shape.
///
/// It is that of [`frozen_perceptron`](super::super::frozen_perceptron), but norm, layers and pairs may train. Returns
/// `None` where the kernels do not
/// serve an operand, or a pair does not fit its layer: the ops compute the same there, or say what is wrong.
///
/// # Errors
/// When the shapes do not fit.
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
    let mut op = TrainedPerceptron {
        norm: norm.clone(),
        eps,
        layers: [up, down],
        activation,
        pieces,
        tokens,
        tracked: x.track_op(),
        gradients: BundleGradients::default(),
        kept: Mutex::default(),
    };
    let x = x.contiguous()?;
    match Bundle::of(&op.tensors())? {
        None => x.apply_op1(op).map(Some),
        Some(bundle) => {
            op.tracked = true;
            op.gradients = bundle.gradients;
            x.apply_op2(&bundle.operand, op).map(Some)
        }
    }
}

struct TrainedPerceptron {
    norm: Affine,
    eps: f64,
    layers: [AdaptedLinear; 2],
    activation: PerceptronActivation,
    pieces: Pieces,
    /// Rows a sample.
    tokens: usize,
    /// True if a backward pass may follow.
    tracked: bool,
    gradients: BundleGradients,
    kept: Mutex<PerceptronValues>,
}

/// Values that a backward pass needs.
#[derive(Default)]
struct PerceptronValues {
    hidden: LinearResult,
    /// Input of the second layer, where it trains.
    active: Vec<f32>,
    low: Vec<Vec<f32>>,
}

impl TrainedPerceptron {
    /// Tensors that may get gradients, in the order in which the backward pass gives them.
    fn tensors(&self) -> Vec<&Tensor> {
        let layers = self.layers.iter().flat_map(AdaptedLinear::tensors);
        [&self.norm.weight, &self.norm.bias].into_iter().chain(layers).collect()
    }

    fn forward(&self, x: &[f32]) -> Result<Vec<f32>> {
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [up, down] = [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let hidden = up.forward(&norm.forward(x), &self.pieces, self.tokens);
        let active = self.activation.values(&hidden.y);
        let LinearResult { mut y, low } = down.forward(&active, &self.pieces, self.tokens);
        add_rows(&mut y, x);
        if self.tracked {
            let active = if down.needs_input() { active } else { Vec::new() };
            *self.kept.lock() = PerceptronValues { hidden, active, low };
        }
        Ok(y)
    }

    /// Returns the gradient of `x`, where it is wanted, and hands over those of all other tensors.
    fn backward(&self, x: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let (want_x, x_tensor, g) = (x.track_op(), x, g.contiguous()?);
        let (x, g) = (&*lent(x)?, &*lent(&g)?);
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [up, down] = [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let want_normed = want_x || norm.trains();
        let want_hidden = want_normed || self.layers[0].trains();
        let PerceptronValues { hidden, active, low } = &*self.kept.lock();
        let through = (&self.pieces, self.tokens);
        let (by_active, of_down) = down.backward((active, low), g, through, want_hidden);
        let (mut by_normed, mut of_up) = (None, LinearGradients::none(&self.layers[0]));
        if let Some(by_active) = by_active {
            let by_hidden = self.activation.slopes(&hidden.y, &by_active);
            let normed = if up.needs_input() { norm.forward(x) } else { Vec::new() };
            (by_normed, of_up) =
                up.backward((&normed, &hidden.low), &by_hidden, through, want_normed);
        }
        let (mut of_norm, mut by_x) = ([None, None], None);
        if let Some(by_normed) = by_normed {
            of_norm = norm.gradients(x, &by_normed);
            by_x = want_x.then(|| norm.by_x(x, &by_normed));
        }
        if let Some(by_x) = &mut by_x {
            add_rows(by_x, g);
        }
        let all = of_norm.into_iter().chain(of_up.into_values()).chain(of_down.into_values());
        self.gradients.put(as_tensors(self.tensors(), all)?);
        by_x.map(|values| tensor_like(values, x_tensor)).transpose()
    }
}

impl CustomOp1 for TrainedPerceptron {
    fn name(&self) -> &'static str {
        "adapted-perceptron"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(self.forward(values(x, layout)?)?), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        self.backward(x, g)
    }
}

impl CustomOp2 for TrainedPerceptron {
    fn name(&self) -> &'static str {
        "trained-perceptron"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(self.forward(values(x, layout)?)?), layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        _bundle: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((self.backward(x, g)?, Some(no_value()?)))
    }
}

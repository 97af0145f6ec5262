//! Layer normalization over the last dimension, with its backward pass.
//!
//! `y = (x - mean) / sqrt(var + eps) * weight + bias` with the biased variance. With
//! `z = (x - mean) rstd` and `u = g weight`: `dx = rstd (u - mean(u) - z mean(u z))`
//! (Ba, Kiros, Hinton 2016). candle's fused version drops this gradient without an error.

use candle_core::{CpuStorage, CustomOp3, D, Layout, Result, Shape, Tensor, bail};

use super::gpu;
use super::stock::{self, mean_of_rows};
use super::storage::{lend, served, tensor_like, values, wide_type};
use super::with_gradient::with_gradients;
use crate::wide::{WideWork, appended, sum_of, sum_of_pairs, wide};

/// Normalizes the rows of `x` `(.., d)`; `weight` and `bias` `(d)` may be frozen or trained.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    if weight.dims() != [width] || bias.dims() != [width] {
        bail!(
            "layer norm: input {:?}, weight {:?} and bias {:?} do not fit",
            x.shape(),
            weight.shape(),
            bias.shape()
        );
    }
    if served(&[x, weight, bias]) {
        let op = LayerNorm { eps: eps as f32 };
        x.contiguous()?.apply_op3(&weight.contiguous()?, &bias.contiguous()?, op)
    } else {
        composed(x, weight, bias, eps)
    }
}

/// Composes the norm of candle's operations, in `f32`.
fn composed(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f64) -> Result<Tensor> {
    let want = [x, weight, bias].map(Tensor::track_op);
    let affine_types = [weight.dtype(), bias.dtype()];
    let (kept, weight_kept) = (x.detach(), weight.detach());
    let value = composed_value(&kept, &weight_kept, &bias.detach(), eps)?;
    with_gradients([x, weight, bias], value, move |g| {
        let by_x = || composed_gradient(&kept, &weight_kept, g, eps, None);
        let g = g.to_dtype(wide_type(kept.dtype()))?;
        let width = g.dim(D::Minus1)?;
        let over_rows = |t: &Tensor| stock::sum(&t.contiguous()?.reshape(((), width))?, 0);
        let by_weight = || {
            let Standard { z, .. } = standardize(&kept, eps)?;
            over_rows(&(&g * &z)?)?.to_dtype(affine_types[0])
        };
        let by_bias = || over_rows(&g)?.to_dtype(affine_types[1]);
        Ok([
            want[0].then(by_x).transpose()?,
            want[1].then(by_weight).transpose()?,
            want[2].then(by_bias).transpose()?,
        ])
    })
}

/// Returns the norm of operands without a graph, on any device.
pub(super) fn composed_value(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
) -> Result<Tensor> {
    if gpu::serves(&[x]) {
        return gpu::layer_norm(x, weight, bias, eps);
    }
    let (dtype, wide) = (x.dtype(), wide_type(x.dtype()));
    let Standard { z, .. } = standardize(x, eps)?;
    let scaled = z.broadcast_mul(&weight.to_dtype(wide)?)?;
    scaled.broadcast_add(&bias.to_dtype(wide)?)?.to_dtype(dtype)
}

/// Returns the gradient of `x` `(.., n, d)` from that of the norm, on any device.
///
/// `more` `(.., q, d)` is added to the first `q` rows of every `n`.
pub(super) fn composed_gradient(
    x: &Tensor,
    weight: &Tensor,
    g: &Tensor,
    eps: f64,
    more: Option<&Tensor>,
) -> Result<Tensor> {
    if gpu::serves(&[x]) {
        return gpu::layer_norm_gradient(x, weight, g, eps, more);
    }
    let (dtype, wide) = (x.dtype(), wide_type(x.dtype()));
    let Standard { z, rstd } = standardize(x, eps)?;
    let u = g.to_dtype(wide)?.broadcast_mul(&weight.to_dtype(wide)?)?;
    let mean_uz = mean_of_rows(&(&u * &z)?)?;
    let centered = u.broadcast_sub(&mean_of_rows(&u)?)?;
    let by_x = (centered - z.broadcast_mul(&mean_uz)?)?.broadcast_mul(&rstd)?.to_dtype(dtype)?;
    match more {
        None => Ok(by_x),
        Some(more) => {
            let behind = x.dim(D::Minus2)? - more.dim(D::Minus2)?;
            by_x + more.pad_with_zeros(D::Minus2, 0, behind)?
        }
    }
}

/// Work that computes `z = (x - mean) rstd`, and `rstd` per row.
struct Standard {
    z: Tensor,
    rstd: Tensor,
}

fn standardize(x: &Tensor, eps: f64) -> Result<Standard> {
    let x = x.to_dtype(wide_type(x.dtype()))?;
    let centered = x.broadcast_sub(&mean_of_rows(&x)?)?;
    let variance = mean_of_rows(&centered.sqr()?)?;
    let rstd = (variance + eps)?.sqrt()?.recip()?;
    Ok(Standard { z: centered.broadcast_mul(&rstd)?, rstd })
}

/// Returns mean and reciprocal standard deviation of a row.
#[inline(always)]
fn moments(row: &[f32], eps: f32) -> (f32, f32) {
    let scale = 1.0 / row.len() as f32;
    let mean = sum_of(row, |x| x) * scale;
    let variance = sum_of(row, |x| (x - mean) * (x - mean)) * scale;
    (mean, 1.0 / (variance + eps).sqrt())
}

/// Work that normalizes the rows of `x`.
pub(super) struct LayerNormForward<'a> {
    pub x: &'a [f32],
    pub weight: &'a [f32],
    pub bias: &'a [f32],
    pub eps: f32,
}

impl WideWork for LayerNormForward<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let LayerNormForward { x, weight, bias, eps } = self;
        let mut y = Vec::with_capacity(x.len());
        for row in x.chunks_exact(weight.len()) {
            let (mean, rstd) = moments(row, eps);
            for ((y, &w), &b) in appended(&mut y, row).iter_mut().zip(weight).zip(bias) {
                *y = (*y - mean) * rstd * w + b;
            }
        }
        y
    }
}

/// Work that computes the gradient of `x`'s rows from that of the result.
pub(super) struct ByInput<'a> {
    pub x: &'a [f32],
    pub weight: &'a [f32],
    pub g: &'a [f32],
    pub eps: f32,
}

impl WideWork for ByInput<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let ByInput { x, weight, g, eps } = self;
        let width = weight.len();
        let scale = 1.0 / width as f32;
        let (mut gradient, mut u) = (Vec::with_capacity(x.len()), vec![0f32; width]);
        for (x, g) in x.chunks_exact(width).zip(g.chunks_exact(width)) {
            let (mean, rstd) = moments(x, eps);
            for ((u, &g), &w) in u.iter_mut().zip(g).zip(weight) {
                *u = g * w;
            }
            let mean_u = sum_of(&u, |u| u) * scale;
            let mean_uz = sum_of_pairs(&u, x, |u, x| u * ((x - mean) * rstd)) * scale;
            for (x, &u) in appended(&mut gradient, x).iter_mut().zip(&u) {
                *x = rstd * (u - mean_u - (*x - mean) * rstd * mean_uz);
            }
        }
        gradient
    }
}

/// Work that adds the gradients of weight and bias over all rows.
pub(super) struct ByAffine<'a> {
    pub x: &'a [f32],
    pub g: &'a [f32],
    pub by_weight: &'a mut [f32],
    pub by_bias: &'a mut [f32],
    pub eps: f32,
}

impl WideWork for ByAffine<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let ByAffine { x, g, by_weight, by_bias, eps } = self;
        let width = by_weight.len();
        for (x, g) in x.chunks_exact(width).zip(g.chunks_exact(width)) {
            let (mean, rstd) = moments(x, eps);
            for ((w, &x), &g) in by_weight.iter_mut().zip(x).zip(g) {
                *w += g * ((x - mean) * rstd);
            }
            for (b, &g) in by_bias.iter_mut().zip(g) {
                *b += g;
            }
        }
    }
}

struct LayerNorm {
    eps: f32,
}

impl LayerNorm {
    fn gradient_of_input(&self, x: &Tensor, weight: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        if !x.track_op() {
            return Ok(None);
        }
        let eps = self.eps;
        let of = |x: &[f32], weight: &[f32], g: &[f32]| wide(ByInput { x, weight, g, eps });
        let gradient = lend(x, |x| lend(weight, |w| lend(g, |g| Ok(of(x, w, g)))))?;
        tensor_like(gradient, x).map(Some)
    }

    fn gradients_of_affine(&self, x: &Tensor, weight: &Tensor, g: &Tensor) -> Result<[Tensor; 2]> {
        let width = weight.elem_count();
        let (mut by_weight, mut by_bias) = (vec![0f32; width], vec![0f32; width]);
        let (w, b, eps) = (&mut by_weight[..], &mut by_bias[..], self.eps);
        lend(x, |x| {
            lend(g, |g| {
                wide(ByAffine { x, g, by_weight: w, by_bias: b, eps });
                Ok(())
            })
        })?;
        Ok([tensor_like(by_weight, weight)?, tensor_like(by_bias, weight)?])
    }
}

impl CustomOp3 for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (weight, bias) = (values(weight, weight_layout)?, values(bias, bias_layout)?);
        let y = wide(LayerNormForward { x: values(x, x_layout)?, weight, bias, eps: self.eps });
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let by_input = self.gradient_of_input(x, weight, g)?;
        if !weight.track_op() && !bias.track_op() {
            return Ok((by_input, None, None));
        }
        let [by_weight, by_bias] = self.gradients_of_affine(x, weight, g)?;
        Ok((by_input, weight.track_op().then_some(by_weight), bias.track_op().then_some(by_bias)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::Var;

    #[test]
    fn agrees_with_the_composition_and_finite_differences() {
        let inputs = [&draw("x", (2, 3, 21)), &draw("w", 21), &draw("b", 21)];
        agrees_everywhere(&inputs, |t| layer_norm(&t[0], &t[1], &t[2], 1e-6));
        finite_difference(&inputs, |t| layer_norm(&t[0], &t[1], &t[2], 1e-6));
    }

    #[test]
    fn a_frozen_affine_passes_the_gradient_on_and_gets_none() -> Result<()> {
        let x = Var::from_tensor(&draw("x", (4, 8)))?;
        let (w, b) = (draw("w", 8), draw("b", 8));
        let y = layer_norm(&x, &w, &b, 1e-6)?;
        let grads = y.sqr()?.sum_all()?.backward()?;
        assert!(grads.get(&w).is_none() && grads.get(&b).is_none());
        let gradient = grads.get(&x).expect("a gradient through the frozen norm");
        assert!(gradient.abs()?.sum_all()?.to_scalar::<f32>()? > 1e-3);
        Ok(())
    }
}

//! Halves of a block composed of matrix products and tensor operations, for any device and type.
//!
//! Each is one node of candle's graph, too: its gradient is the chain of its parts' gradients. Only the input, the
//! packed queries, keys and values, and the input of the activation are kept for it.

use candle_core::{Result, Tensor};

use super::super::activation::PerceptronActivation;
use super::super::affine::Affine;
use super::super::attention_composed::Operands;
use super::super::attention_kernel::Geometry;
use super::super::gpu;
use super::super::with_gradient::{with_gradient, with_gradients};
use super::super::{layer_norm, linear};

/// Returns true if the layers are frozen, on the device of `x` and in its type.
pub(super) fn composes(x: &Tensor, norm: &Affine, [first, second]: [&Affine; 2]) -> bool {
    let frozen = |affine: &Affine| !affine.weight.track_op() && !affine.bias.track_op();
    let alike = |affine: &Affine| affine.weight.dtype() == x.dtype();
    let here = |affine: &Affine| affine.weight.device().same_device(x.device());
    frozen(norm) && [first, second].into_iter().all(|it| frozen(it) && alike(it) && here(it))
}

/// Computes the attention half; `prefix` is as in [`attention`](super::super::attention()).
pub(super) fn attention(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    [pack, project]: [&Affine; 2],
    prefix: Option<(&Tensor, &Tensor)>,
    geometry: Geometry,
) -> Result<Tensor> {
    let Geometry { tokens, queries, .. } = geometry;
    let kept = x.detach().contiguous()?;
    let packed =
        layer(&layer_norm::composed_value(&kept, &norm.weight, &norm.bias, eps)?, pack, None)?;
    let operands = Operands::new(&packed, prefix, geometry);
    let residual = match queries == tokens {
        true => kept.clone(),
        false => kept.narrow(1, 0, queries)?.contiguous()?,
    };
    let value = layer(&operands.value()?, project, Some(&residual))?;
    let (norm, pack, project) = (norm.clone(), pack.clone(), project.clone());
    let backward = move |g: &Tensor, want: [bool; 3]| -> Result<[Option<Tensor>; 3]> {
        let g = g.contiguous()?;
        let [by_packed, by_keys, by_values] =
            operands.gradients(&linear::composed_gradient(&g, &project.weight)?, want)?;
        let by_x = |by_packed: Tensor| {
            let by_normed = linear::composed_gradient(&by_packed, &pack.weight)?;
            layer_norm::composed_gradient(&kept, &norm.weight, &by_normed, eps, Some(&g))
        };
        Ok([by_packed.map(by_x).transpose()?, by_keys, by_values])
    };
    match prefix {
        None => with_gradient(x, value, move |g| {
            let [by_x, ..] = backward(g, [true, false, false])?;
            Ok(by_x)
        }),
        Some((keys, values)) => {
            let want = [x, keys, values].map(Tensor::track_op);
            with_gradients([x, keys, values], value, move |g| backward(g, want))
        }
    }
}

/// Computes the perceptron half.
pub(super) fn perceptron(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    [up, down]: [&Affine; 2],
    activation: PerceptronActivation,
) -> Result<Tensor> {
    let kept = x.detach().contiguous()?;
    let hidden =
        layer(&layer_norm::composed_value(&kept, &norm.weight, &norm.bias, eps)?, up, None)?;
    let value = layer(&activation.composed_value(&hidden)?, down, Some(&kept))?;
    let (norm, up, down) = (norm.clone(), up.clone(), down.clone());
    with_gradient(x, value, move |g| {
        let g = g.contiguous()?;
        let by_hidden =
            activation.composed_gradient(&hidden, &linear::composed_gradient(&g, &down.weight)?)?;
        let by_normed = linear::composed_gradient(&by_hidden, &up.weight)?;
        layer_norm::composed_gradient(&kept, &norm.weight, &by_normed, eps, Some(&g)).map(Some)
    })
}

/// Applies a linear layer to `x` `(.., in)`, and adds `residual` `(.., out)`.
fn layer(x: &Tensor, of: &Affine, residual: Option<&Tensor>) -> Result<Tensor> {
    match residual {
        None => linear::composed_value(x, &of.weight, Some(&of.bias)),
        Some(residual) if gpu::serves(&[x, residual]) => {
            let bias = of.bias.to_dtype(x.dtype())?;
            gpu::add_bias_and(&linear::composed_value(x, &of.weight, None)?, &bias, residual)
        }
        Some(residual) => residual + linear::composed_value(x, &of.weight, Some(&of.bias))?,
    }
}

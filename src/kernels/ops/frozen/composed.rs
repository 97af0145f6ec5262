//! The halves from products of matrices and tensor operations, for any device and type.
//!
//! Each is one node of candle's graph, too: its gradient is the chain of its parts' gradients, computed from the input,
//! the packed queries, keys and values, and the input of the activation, which are all that is kept.

use candle_core::{D, Result, Tensor};

use super::super::activation::Activation;
use super::super::affine::Affine;
use super::super::attention_composed::Operands;
use super::super::attention_kernel::Geometry;
use super::super::gpu;
use super::super::layer_norm::{composed_gradient, composed_value};
use super::super::stock::product;
use super::super::with_gradient::{with_gradient, with_gradients};

/// Returns true if the layers are frozen and lie in the type of `x` on its device.
pub(super) fn composes(x: &Tensor, norm: &Affine, [first, second]: [&Affine; 2]) -> bool {
    let frozen = |affine: &Affine| !affine.weight.track_op() && !affine.bias.track_op();
    let alike = |affine: &Affine| affine.weight.dtype() == x.dtype();
    let here = |affine: &Affine| affine.weight.device().same_device(x.device());
    frozen(norm) && [first, second].into_iter().all(|it| frozen(it) && alike(it) && here(it))
}

/// Computes the first half; `prefix` as in [`attention`](super::super::attention()).
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
    let packed = layer(&composed_value(&kept, &norm.weight, &norm.bias, eps)?, pack, None)?;
    let operands = Operands::new(&packed, prefix, geometry);
    let residual = match queries == tokens {
        true => kept.clone(),
        false => kept.narrow(1, 0, queries)?.contiguous()?,
    };
    let value = layer(&operands.value()?, project, Some(&residual))?;
    let (norm, pack, project) = (norm.clone(), pack.clone(), project.clone());
    let backward = move |g: &Tensor, want: [bool; 3]| -> Result<[Option<Tensor>; 3]> {
        let g = g.contiguous()?;
        let [by_packed, by_keys, by_values] = operands.gradients(&back(&g, &project)?, want)?;
        let by_x = |by_packed: Tensor| {
            let by_normed = back(&by_packed, &pack)?;
            composed_gradient(&kept, &norm.weight, &by_normed, eps, Some(&g))
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

/// Computes the second half.
pub(super) fn perceptron(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    [up, down]: [&Affine; 2],
    activation: Activation,
) -> Result<Tensor> {
    let kept = x.detach().contiguous()?;
    let hidden = layer(&composed_value(&kept, &norm.weight, &norm.bias, eps)?, up, None)?;
    let value = layer(&activation.composed_value(&hidden)?, down, Some(&kept))?;
    let (norm, up, down) = (norm.clone(), up.clone(), down.clone());
    with_gradient(x, value, move |g| {
        let g = g.contiguous()?;
        let by_hidden = activation.composed_gradient(&hidden, &back(&g, &down)?)?;
        let by_normed = back(&by_hidden, &up)?;
        composed_gradient(&kept, &norm.weight, &by_normed, eps, Some(&g)).map(Some)
    })
}

/// Applies a linear layer to `x` `(.., in)`, and adds `residual` `(.., out)`.
fn layer(x: &Tensor, of: &Affine, residual: Option<&Tensor>) -> Result<Tensor> {
    let bias = of.bias.to_dtype(x.dtype())?;
    let y = product(&flat(x)?, &of.weight.t()?)?.reshape(shape(x, of.weight.dim(0)?))?;
    match residual {
        None if gpu::serves(&[&y]) => gpu::add_bias(&y, &bias),
        None => y.broadcast_add(&bias),
        Some(residual) if gpu::serves(&[&y]) => gpu::add_bias_and(&y, &bias, residual),
        Some(residual) => residual + y.broadcast_add(&bias)?,
    }
}

/// Returns the gradient of the input of a linear layer from that of its output `(.., out)`.
fn back(g: &Tensor, of: &Affine) -> Result<Tensor> {
    product(&flat(g)?, &of.weight)?.reshape(shape(g, of.weight.dim(1)?))
}

/// Returns the rows of a tensor as a matrix.
fn flat(x: &Tensor) -> Result<Tensor> {
    x.contiguous()?.reshape(((), x.dim(D::Minus1)?))
}

/// Returns the shape of `x` with another width.
fn shape(x: &Tensor, width: usize) -> Vec<usize> {
    let mut shape = x.dims().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = width;
    }
    shape
}

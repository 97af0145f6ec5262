//! GPU kernels on rows, the last dimension of a tensor (`rows.cuh`).

use candle_core::{D, DType, Result, Tensor};

use super::launch::{Argument, Launch};

/// Threads per warp, which computes a row.
const WARP: u32 = 32;
/// Rows per block of warps.
const ROWS: u32 = 4;
/// Threads per block if a block computes a single row.
const THREADS: u32 = 256;

/// Returns a launch with one warp per row of `x`. The output has the shape of `x`.
fn by_warps(
    kernel: &'static str,
    x: &Tensor,
    others: Vec<Tensor>,
    numbers: impl IntoIterator<Item = Argument>,
) -> Result<Launch> {
    let rows = x.elem_count() / x.dim(D::Minus1)?.max(1);
    let numbers = [Argument::count(rows)?].into_iter().chain(numbers).collect();
    let (grid, shape, dtype) = (rows.div_ceil(ROWS as usize), x.shape().clone(), x.dtype());
    Ok(Launch { kernel, others, numbers, grid, block: (WARP, ROWS), shape, dtype })
}

/// Returns a launch with one block per row of `x`. The output has the shape of `x`.
fn by_blocks(
    kernel: &'static str,
    x: &Tensor,
    others: Vec<Tensor>,
    more: Option<Argument>,
) -> Result<Launch> {
    let width = x.dim(D::Minus1)?;
    let numbers = [Argument::count(width)?].into_iter().chain(more).collect();
    let (grid, shape, dtype) = (x.elem_count() / width.max(1), x.shape().clone(), x.dtype());
    Ok(Launch { kernel, others, numbers, grid, block: (THREADS, 1), shape, dtype })
}

/// Returns the probabilities of the first `width` columns of `scores`, and zeros in the others.
///
/// `scores` are `(.., stride)`; they are multiplied by a positive `scale`.
pub(in super::super) fn softmax(scores: &Tensor, width: usize, scale: f64) -> Result<Tensor> {
    let x = scores.contiguous()?;
    let stride = Argument::count(x.dim(D::Minus1)?)?;
    let numbers = [Argument::count(width)?, stride, Argument::Real(scale as f32)];
    by_warps("softmax", &x, Vec::new(), numbers)?.run(&x)
}

/// Returns the gradient of the scores of [`softmax`] from the gradient `g` of the probabilities.
pub(in super::super) fn softmax_gradient(
    probabilities: &Tensor,
    g: &Tensor,
    scale: f64,
) -> Result<Tensor> {
    let p = probabilities.contiguous()?;
    let numbers = [Argument::count(p.dim(D::Minus1)?)?, Argument::Real(scale as f32)];
    by_warps("softmax_slope", &p, vec![g.contiguous()?], numbers)?.run(&p)
}

/// Returns a contiguous copy of a tensor in `f32`.
fn wide(t: &Tensor) -> Result<Tensor> {
    t.to_dtype(DType::F32)?.contiguous()
}

/// Normalizes rows: `(x - mean) / sqrt(variance + eps) * weight + bias`; weight and bias in `f32`.
pub(in super::super) fn layer_norm(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f64,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let others = vec![wide(weight)?, wide(bias)?];
    let numbers = [Argument::count(x.dim(D::Minus1)?)?, Argument::Real(eps as f32)];
    by_warps("norm", &x, others, numbers)?.run(&x)
}

/// Returns the gradient of `x` `(.., n, d)` in [`layer_norm`], from that of the result.
///
/// `more` `(.., q, d)` is added to the first `q` rows of every `n`.
pub(in super::super) fn layer_norm_gradient(
    x: &Tensor,
    weight: &Tensor,
    g: &Tensor,
    eps: f64,
    more: Option<&Tensor>,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let g = g.contiguous()?;
    let (tokens, asking) = match more {
        Some(more) => (x.dim(D::Minus2)?, more.dim(D::Minus2)?),
        None => (1, 0),
    };
    // Without `more` this operand is never read.
    let more = more.unwrap_or(&x).contiguous()?;
    let counts = [x.dim(D::Minus1)?, tokens, asking].map(Argument::count);
    let numbers = counts.into_iter().collect::<Result<Vec<_>>>()?;
    let numbers = numbers.into_iter().chain([Argument::Real(eps as f32)]);
    by_warps("norm_slope", &x, vec![wide(weight)?, g, more], numbers)?.run(&x)
}

/// Adds a bias to every row of `x`. `bias` is `(width)`, or `(k, width)` for `k` parts of equally many rows.
pub(in super::super) fn add_bias(x: &Tensor, bias: &Tensor) -> Result<Tensor> {
    let (x, bias) = (x.contiguous()?, bias.contiguous()?);
    let rows_each = x.elem_count() / bias.elem_count().max(1);
    let rows_each = Some(Argument::count(rows_each)?);
    by_blocks("add_bias", &x, vec![bias], rows_each)?.run(&x)
}

/// Adds a bias `(width)` to every row of `x`, and `more` of the shape of `x`.
pub(in super::super) fn add_bias_and(x: &Tensor, bias: &Tensor, more: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    by_blocks("add_bias_and", &x, vec![bias.contiguous()?, more.contiguous()?], None)?.run(&x)
}

/// Returns the exact GELU of every entry.
pub(in super::super) fn gelu(x: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    by_blocks("gelu", &x, Vec::new(), None)?.run(&x)
}

/// Returns the gradient of the input `x` of the exact GELU, from that of the result.
pub(in super::super) fn gelu_gradient(x: &Tensor, g: &Tensor) -> Result<Tensor> {
    let x = x.contiguous()?;
    by_blocks("gelu_slope", &x, vec![g.contiguous()?], None)?.run(&x)
}

/// Adds `more` `(.., taken)` to the columns of `x` from `first` on.
pub(in super::super) fn add_columns(x: &Tensor, more: &Tensor, first: usize) -> Result<Tensor> {
    let x = x.contiguous()?;
    let mut launch =
        by_blocks("add_columns", &x, vec![more.contiguous()?], Some(Argument::count(first)?))?;
    launch.numbers.push(Argument::count(more.dim(D::Minus1)?)?);
    launch.run(&x)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn a_launch_has_a_warp_or_a_block_for_every_row() -> Result<()> {
        let x = Tensor::zeros((3, 3, 8), DType::F32, &Device::Cpu)?;
        let warps = by_warps("norm", &x, Vec::new(), [Argument::count(8)?])?;
        assert_eq!((warps.grid, warps.block, warps.numbers.len()), (3, (WARP, ROWS), 2));
        let blocks = by_blocks("gelu_slope", &x, Vec::new(), None)?;
        assert_eq!((blocks.grid, blocks.block, blocks.numbers.len()), (9, (THREADS, 1), 1));
        assert!(warps.run(&x).is_err_and(|error| error.to_string().contains("GPUs only")));
        Ok(())
    }
}

//! Elementwise activations: their loops in wide vectors, and the candle operation.
//!
//! An activation such as GELU or QuickGELU only supplies a function and its slope; the rest is shared here.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::gpu;
use super::storage::{self, of_values, served, wide_type};
use super::with_gradient::with_gradient;
use crate::wide::{PIECE, WideWork, appended, wide};

/// GPU kernels of an activation.
#[derive(Clone, Copy)]
pub(super) struct OnGpu {
    /// Computes values of all entries.
    pub value: fn(&Tensor) -> Result<Tensor>,
    /// Computes the gradient of all entries from the entries and the gradient of the result.
    pub gradient: fn(&Tensor, &Tensor) -> Result<Tensor>,
}

/// Function of a number, with its slope.
///
/// [`value`](Pointwise::value) and [`slope`](Pointwise::slope) must be `#[inline(always)]`, as must all functions that
/// they call.
pub(super) trait Pointwise: Copy + Send + Sync + 'static {
    /// Name of the operation.
    const NAME: &'static str;

    /// GPU kernels, if there are any.
    const ON_GPU: Option<OnGpu> = None;

    fn value(self, x: f32) -> f32;

    fn slope(self, x: f32) -> f32;

    /// Returns the values of all entries, composed of candle's operations.
    fn composed_value(self, x: &Tensor) -> Result<Tensor>;

    /// Returns the slopes at all entries, composed of candle's operations.
    fn composed_slope(self, x: &Tensor) -> Result<Tensor>;
}

/// Applies a function to every entry of `x` (any shape).
pub(super) fn apply<F: Pointwise>(function: F, x: &Tensor) -> Result<Tensor> {
    match served(&[x]) {
        true => x.contiguous()?.apply_op1(Operation(function)),
        false => composed(function, x),
    }
}

/// Computes the function by a GPU kernel, or composes it of candle's operations in `f32`.
fn composed<F: Pointwise>(function: F, x: &Tensor) -> Result<Tensor> {
    let kept = x.detach();
    let value = composed_value(function, &kept)?;
    with_gradient(x, value, move |g| composed_gradient(function, &kept, g).map(Some))
}

/// Returns the function of all entries of a tensor, without a graph, on any device.
pub(super) fn composed_value<F: Pointwise>(function: F, x: &Tensor) -> Result<Tensor> {
    match F::ON_GPU.filter(|_| gpu::serves(&[x])) {
        Some(OnGpu { value, .. }) => value(x),
        None => function.composed_value(&x.to_dtype(wide_type(x.dtype()))?)?.to_dtype(x.dtype()),
    }
}

/// Returns the gradient of all entries from that of the result, on any device.
pub(super) fn composed_gradient<F: Pointwise>(
    function: F,
    x: &Tensor,
    g: &Tensor,
) -> Result<Tensor> {
    if let Some(OnGpu { gradient, .. }) = F::ON_GPU.filter(|_| gpu::serves(&[x])) {
        return gradient(x, g);
    }
    let wide = wide_type(x.dtype());
    let slope = function.composed_slope(&x.to_dtype(wide)?)?;
    (g.to_dtype(wide)? * slope)?.to_dtype(x.dtype())
}

/// Returns the function of every value, in a new vector.
pub(super) fn values<F: Pointwise>(function: F, x: &[f32]) -> Vec<f32> {
    wide(PointwiseValues { function, x })
}

/// Returns the gradient of every value `x` from that of the result.
pub(super) fn gradient<F: Pointwise>(function: F, x: &[f32], g: &[f32]) -> Vec<f32> {
    wide(Gradient { function, x, g })
}

struct PointwiseValues<'a, F> {
    function: F,
    x: &'a [f32],
}

impl<F: Pointwise> WideWork for PointwiseValues<'_, F> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.x.len());
        for xs in self.x.chunks(PIECE) {
            for x in appended(&mut all, xs) {
                *x = self.function.value(*x);
            }
        }
        all
    }
}

struct Gradient<'a, F> {
    function: F,
    x: &'a [f32],
    g: &'a [f32],
}

impl<F: Pointwise> WideWork for Gradient<'_, F> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.x.len());
        for (xs, gs) in self.x.chunks(PIECE).zip(self.g.chunks(PIECE)) {
            for (x, &g) in appended(&mut all, xs).iter_mut().zip(gs) {
                *x = g * self.function.slope(*x);
            }
        }
        all
    }
}

struct Operation<F>(F);

impl<F: Pointwise> CustomOp1 for Operation<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let y = values(self.0, storage::values(x, layout)?);
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        of_values((x, g), x, |x, g| gradient(self.0, x, g)).map(Some)
    }
}

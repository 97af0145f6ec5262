//! Activations that act on every entry alone: their loops in wide vectors, and the operation of candle.
//!
//! GELU and QuickGELU are two functions with their slopes; what surrounds these is here once.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::storage::{self, of_values, served, wide_type};
use super::with_gradient::with_gradient;
use crate::wide::{PIECE, Work, appended, wide};

/// A function of a number. [`value`](Pointwise::value) and [`slope`](Pointwise::slope) are to be `#[inline(always)]`,
/// as are all functions that they call.
pub(super) trait Pointwise: Copy + Send + Sync + 'static {
    /// Name of the operation.
    const NAME: &'static str;

    fn value(self, x: f32) -> f32;

    fn slope(self, x: f32) -> f32;

    /// Values of all entries, from candle's operations.
    fn composed_value(self, x: &Tensor) -> Result<Tensor>;

    /// Slopes at all entries, from candle's operations.
    fn composed_slope(self, x: &Tensor) -> Result<Tensor>;
}

/// Applies a function to every entry of `x` (any shape).
pub(super) fn apply<F: Pointwise>(function: F, x: &Tensor) -> Result<Tensor> {
    match served(&[x]) {
        true => x.contiguous()?.apply_op1(Operation(function)),
        false => composed(function, x),
    }
}

/// Composes the function of candle's operations, in `f32` inside.
fn composed<F: Pointwise>(function: F, x: &Tensor) -> Result<Tensor> {
    let (dtype, wide) = (x.dtype(), wide_type(x.dtype()));
    let kept = x.detach();
    let value = function.composed_value(&kept.to_dtype(wide)?)?.to_dtype(dtype)?;
    with_gradient(x, value, move |g| {
        let slope = function.composed_slope(&kept.to_dtype(wide)?)?;
        Ok(Some((g.to_dtype(wide)? * slope)?.to_dtype(dtype)?))
    })
}

/// Returns the function of every value, in a new vector.
pub(super) fn values<F: Pointwise>(function: F, x: &[f32]) -> Vec<f32> {
    wide(Values { function, x })
}

/// Returns the gradient of every value `x` from that of the result.
pub(super) fn gradient<F: Pointwise>(function: F, x: &[f32], g: &[f32]) -> Vec<f32> {
    wide(Gradient { function, x, g })
}

struct Values<'a, F> {
    function: F,
    x: &'a [f32],
}

impl<F: Pointwise> Work for Values<'_, F> {
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

impl<F: Pointwise> Work for Gradient<'_, F> {
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

//! Rectifier `max(x, 0)` with slope 0 at 0, as in PyTorch (candle's has slope 1 there).

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::storage::{of_values, served, values};
use crate::wide::joined;

/// Rectifies every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn relu(x: &Tensor) -> Result<Tensor> {
    if served(&[x]) { x.contiguous()?.apply_op1(Relu) } else { composed(x) }
}

fn composed(x: &Tensor) -> Result<Tensor> {
    let mask = x.gt(&x.zeros_like()?)?.to_dtype(x.dtype())?.detach();
    x * mask
}

/// Returns the gradient below a rectifier: `g` where `x` (or the rectified value) is above 0.
pub(super) fn below(x: &[f32], g: &[f32]) -> Vec<f32> {
    joined(x, g, slope_times)
}

/// Returns [`below`] of one entry.
#[inline(always)]
pub(super) fn slope_times(x: f32, g: f32) -> f32 {
    if x > 0.0 { g } else { 0.0 }
}

struct Relu;

impl CustomOp1 for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = values(x, layout)?;
        // `x < 0` rather than `x > 0`: NaN passes through and is noticed.
        let y = joined(x, x, |x, _| if x < 0.0 { 0.0 } else { x });
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        of_values((x, g), x, below).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn agrees_with_the_composed_and_finite_differences() {
        // Away from the kink, where the central difference is half the slope.
        let x = (draw("x", (3, 5)).sign().unwrap() + draw("x", (3, 5))).unwrap();
        agrees_everywhere(&[&x], |t| relu(&t[0]));
        finite_difference(&[&x], |t| relu(&t[0]));
    }

    #[test]
    fn the_slope_at_zero_is_zero() -> Result<()> {
        for rectify in [relu, composed] {
            let x = Var::new(&[-1f32, 0.0, 2.0], &Device::Cpu)?;
            let y = rectify(&x)?;
            assert_eq!(y.to_vec1::<f32>()?, [0.0, 0.0, 2.0]);
            let grads = y.sum_all()?.backward()?;
            assert_eq!(grads.get(&x).unwrap().to_vec1::<f32>()?, [0.0, 0.0, 1.0]);
        }
        Ok(())
    }
}

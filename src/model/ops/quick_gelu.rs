//! QuickGELU, `x s(1.702 x)` with the logistic function `s`: the activation of OpenAI's CLIP.
//!
//! Slope `s + 1.702 x s (1 - s)`. The logistic function is computed from an exponential that never grows, so that
//! nothing overflows.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::stock;
use super::storage::{lend, served, tensor_like, values, wide_type};
use super::with_gradient::with_gradient;
use crate::numerics::wide::{PIECE, Work, appended, exp, wide};

/// What the argument of the logistic function is multiplied with.
const STEEPNESS: f32 = 1.702;

/// QuickGELU of every entry of `x` (any shape).
///
/// # Errors
/// Only what candle itself reports.
pub fn quick_gelu(x: &Tensor) -> Result<Tensor> {
    if served(&[x]) { x.contiguous()?.apply_op1(QuickGelu) } else { composed(x) }
}

/// From candle's operations, in `f32` inside.
fn composed(x: &Tensor) -> Result<Tensor> {
    let (dtype, wide) = (x.dtype(), wide_type(x.dtype()));
    let kept = x.detach();
    let steepness = f64::from(STEEPNESS);
    let logistic = move |x: &Tensor| ((stock::exp(&(x * -steepness)?)? + 1.0)?).recip();
    let value = kept.to_dtype(wide)?;
    let value = (&value * logistic(&value)?)?.to_dtype(dtype)?;
    with_gradient(x, value, move |g| {
        let x = kept.to_dtype(wide)?;
        let part = logistic(&x)?;
        let rest = (1.0 - &part)?;
        let slope = (&part + ((&x * steepness)? * (&part * rest)?)?)?;
        Ok(Some((g.to_dtype(wide)? * slope)?.to_dtype(dtype)?))
    })
}

/// `s(1.702 x)`.
#[inline(always)]
fn logistic(x: f32) -> f32 {
    let small = exp(-STEEPNESS * x.abs());
    let upper = 1.0 / (1.0 + small);
    if x < 0.0 { small * upper } else { upper }
}

/// QuickGELU of every value, in a new vector.
pub(super) struct Values<'a>(pub &'a [f32]);

impl Work for Values<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.0.len());
        for xs in self.0.chunks(PIECE) {
            for x in appended(&mut all, xs) {
                *x *= logistic(*x);
            }
        }
        all
    }
}

/// The gradient of every value from that of the result.
pub(super) struct Slopes<'a> {
    pub x: &'a [f32],
    pub g: &'a [f32],
}

impl Work for Slopes<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.x.len());
        for (xs, gs) in self.x.chunks(PIECE).zip(self.g.chunks(PIECE)) {
            for (x, &g) in appended(&mut all, xs).iter_mut().zip(gs) {
                let part = logistic(*x);
                *x = g * (part + STEEPNESS * *x * (part * (1.0 - part)));
            }
        }
        all
    }
}

struct QuickGelu;

impl CustomOp1 for QuickGelu {
    fn name(&self) -> &'static str {
        "quick-gelu"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let y = wide(Values(values(x, layout)?));
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let gradient = lend(x, |x| lend(g, |g| Ok(wide(Slopes { x, g }))))?;
        tensor_like(gradient, x).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn agrees_with_the_composition_and_finite_differences() {
        let x = (draw("x", (3, 25)) * 4.0).unwrap();
        agrees_everywhere(&[&x], |t| quick_gelu(&t[0]));
        finite_difference(&[&x], |t| quick_gelu(&t[0]));
    }

    /// Of PyTorch in f64: `x * torch.sigmoid(1.702 * x)` and its derivative.
    const KNOWN: [(f32, f64, f64); 7] = [
        (-12.0, -1.6186417835847626e-08, -2.6200414966465006e-08),
        (-3.0, -0.01807130970778597, -0.024548323905652352),
        (-0.5, -0.1496115633936199, 0.12077808803458576),
        (0.0, 0.0, 0.5),
        (0.5, 0.35038843660638014, 0.8792219119654143),
        (3.0, 2.981928690292214, 1.0245483239056525),
        (12.0, 11.999999983813582, 1.0000000262004145),
    ];

    #[test]
    fn values_and_slopes_are_those_of_clip() -> Result<()> {
        let xs: Vec<f32> = KNOWN.iter().map(|(x, ..)| *x).collect();
        let x = Var::new(xs.as_slice(), &Device::Cpu)?;
        let y = quick_gelu(&x)?;
        let grads = y.sum_all()?.backward()?;
        let slopes = grads.get(&x).expect("a gradient").to_vec1::<f32>()?;
        for ((known, y), slope) in KNOWN.iter().zip(y.to_vec1::<f32>()?).zip(slopes) {
            let (x, value, expected) = known;
            let close =
                |got: f32, want: f64| (f64::from(got) - want).abs() <= 3e-7 * want.abs().max(0.05);
            assert!(close(y, *value), "quick_gelu({x}) is {y}, not {value}");
            assert!(close(slope, *expected), "its slope at {x} is {slope}, not {expected}");
        }
        Ok(())
    }

    #[test]
    fn far_ends_are_nothing_and_the_number_itself() -> Result<()> {
        let x = Tensor::new(&[-1e30f32, -200.0, -0.0, 200.0, 1e30], &Device::Cpu)?;
        let y = quick_gelu(&x)?.to_vec1::<f32>()?;
        assert!(y[..3].iter().all(|y| y.abs() < 1e-7), "{y:?}");
        assert_eq!(y[3..], [200.0, 1e30]);
        Ok(())
    }
}

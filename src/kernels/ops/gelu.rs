//! GELU with the exact error function, as timm's ViT uses it (not the tanh approximation).
//!
//! `gelu(x) = x Phi(x)`, slope `Phi(x) + x phi(x)`. The error function is Abramowitz and
//! Stegun 7.1.26 (absolute error about 1.5e-7, as in PyTorch's vector code); its
//! exponential is the one the slope needs, so both together cost one exponential.

use std::f64::consts::FRAC_1_SQRT_2;

use candle_core::{Result, Tensor};

use super::gpu;
use super::pointwise::{self, OnGpu, Pointwise};
use super::stock;
use crate::wide::exp;

/// Exact GELU of every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn gelu(x: &Tensor) -> Result<Tensor> {
    pointwise::apply(Gelu, x)
}

#[derive(Clone, Copy)]
pub(super) struct Gelu;

impl Pointwise for Gelu {
    const NAME: &'static str = "gelu";
    const ON_GPU: Option<OnGpu> = Some(OnGpu { value: gpu::gelu, gradient: gpu::gelu_gradient });

    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        x * normal(x).0
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        const INVERSE_SQRT_2_PI: f32 = 0.398_942_3;
        let (below, bell) = normal(x);
        below + x * INVERSE_SQRT_2_PI * bell
    }

    fn composed_value(self, x: &Tensor) -> Result<Tensor> {
        x.gelu_erf()
    }

    fn composed_slope(self, x: &Tensor) -> Result<Tensor> {
        const INVERSE_SQRT_2_PI: f64 = 0.398_942_280_401_432_7;
        let below = (((x * FRAC_1_SQRT_2)?.erf()? + 1.0)? * 0.5)?;
        let bell = (stock::exp(&(x.sqr()? * -0.5)?)? * INVERSE_SQRT_2_PI)?;
        below + (x * bell)?
    }
}

/// Returns `(Phi(x), sqrt(2 pi) phi(x))`: the normal distribution function and its unscaled density.
#[inline(always)]
fn normal(x: f32) -> (f32, f32) {
    const P: f32 = 0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2;
    let size = x.abs();
    let t = 1.0 / (1.0 + P * size);
    let mut poly = 1.061_405_4;
    poly = poly * t - 1.453_152;
    poly = poly * t + 1.421_413_8;
    poly = poly * t - 0.284_496_72;
    poly = poly * t + 0.254_829_6;
    let bell = exp(-0.5 * x * x);
    let tail = 0.5 * poly * t * bell;
    (if x < 0.0 { tail } else { 1.0 - tail }, bell)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::DType;

    #[test]
    fn agrees_with_the_composition_and_finite_differences() {
        let x = (draw("x", (3, 25)) * 4.0).unwrap();
        agrees_everywhere(&[&x], |t| gelu(&t[0]));
        finite_difference(&[&x], |t| gelu(&t[0]));
    }

    #[test]
    fn accurate_to_a_few_1e_7_over_the_whole_line() -> Result<()> {
        let grid: Vec<f32> = (-12_000..12_000).map(|i| i as f32 * 1e-3).collect();
        let x = Tensor::new(grid.as_slice(), &candle_core::Device::Cpu)?;
        let exact = x.to_dtype(DType::F64)?.gelu_erf()?.to_vec1::<f64>()?;
        for ((x, got), exact) in grid.iter().zip(gelu(&x)?.to_vec1::<f32>()?).zip(exact) {
            let error = (f64::from(got) - exact).abs();
            assert!(error < 3e-7 * exact.abs().max(1.0), "gelu({x}) is off by {error:e}");
        }
        Ok(())
    }
}

//! QuickGELU, `x s(1.702 x)` with the logistic function `s`: the activation of OpenAI's CLIP.
//!
//! Slope `s + 1.702 x s (1 - s)`. The logistic function is computed from an exponential that never grows, so that
//! nothing overflows.

use candle_core::{Result, Tensor};

use super::pointwise::{self, Pointwise};
use super::stock;
use crate::wide::exp;

/// Factor of the argument of the logistic function.
const STEEPNESS: f32 = 1.702;

/// QuickGELU of every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn quick_gelu(x: &Tensor) -> Result<Tensor> {
    pointwise::apply(QuickGelu, x)
}

#[derive(Clone, Copy)]
pub(super) struct QuickGelu;

impl Pointwise for QuickGelu {
    const NAME: &'static str = "quick-gelu";

    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        x * logistic(x)
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        let part = logistic(x);
        part + STEEPNESS * x * (part * (1.0 - part))
    }

    fn composed_value(self, x: &Tensor) -> Result<Tensor> {
        x * composed_logistic(x)?
    }

    fn composed_slope(self, x: &Tensor) -> Result<Tensor> {
        let part = composed_logistic(x)?;
        let rest = (1.0 - &part)?;
        &part + ((x * f64::from(STEEPNESS))? * (&part * rest)?)?
    }
}

/// Returns `s(1.702 x)`.
#[inline(always)]
fn logistic(x: f32) -> f32 {
    let small = exp(-STEEPNESS * x.abs());
    let upper = 1.0 / (1.0 + small);
    if x < 0.0 { small * upper } else { upper }
}

/// Returns `s(1.702 x)` of every entry, composed of candle's operations.
fn composed_logistic(x: &Tensor) -> Result<Tensor> {
    (stock::exp(&(x * -f64::from(STEEPNESS))?)? + 1.0)?.recip()
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

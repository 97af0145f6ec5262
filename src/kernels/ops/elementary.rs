//! Exponential and logarithm of every entry, by `libm`, as the C library's differ between machines.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::stock;
use super::storage::{served, values};

/// Raises `e` to every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn exp(x: &Tensor) -> Result<Tensor> {
    if served(&[x]) { x.contiguous()?.apply_op1(Elementary::Exp) } else { stock::exp(x) }
}

/// Takes the natural logarithm of every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn log(x: &Tensor) -> Result<Tensor> {
    if served(&[x]) { x.contiguous()?.apply_op1(Elementary::Log) } else { stock::log(x) }
}

enum Elementary {
    Exp,
    Log,
}

impl CustomOp1 for Elementary {
    fn name(&self) -> &'static str {
        match self {
            Elementary::Exp => "exp",
            Elementary::Log => "log",
        }
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let function = match self {
            Elementary::Exp => libm::expf,
            Elementary::Log => libm::logf,
        };
        let y = values(x, layout)?.iter().map(|x| function(*x)).collect();
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        match self {
            Elementary::Exp => g * result,
            Elementary::Log => g / x,
        }
        .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference, values};
    use super::*;
    use candle_core::Device;

    #[test]
    fn functions_have_known_values() -> Result<()> {
        let x = Tensor::new(&[[0f32, 1.0], [-2.0, f32::NEG_INFINITY]], &Device::Cpu)?;
        assert_eq!(values(&exp(&x)?), [1.0, std::f32::consts::E, 0.135_335_28, 0.0]);
        let x = Tensor::new(&[1f32, std::f32::consts::E, 0.0, -1.0], &Device::Cpu)?;
        let y = values(&log(&x)?);
        assert_eq!(y[..3], [0.0, 1.0, f32::NEG_INFINITY]);
        assert!(y[3].is_nan());
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() -> Result<()> {
        let x = draw("x", (3, 7));
        agrees_everywhere(&[&x], |t| exp(&t[0]));
        finite_difference(&[&x], |t| exp(&t[0]));
        // Far enough from zero that the step of the difference is small.
        let positive = (x.sqr()? + 1.0)?;
        agrees_everywhere(&[&positive], |t| log(&t[0]));
        finite_difference(&[&positive], |t| log(&t[0]));
        Ok(())
    }
}

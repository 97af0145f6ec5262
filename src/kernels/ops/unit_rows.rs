//! Division of rows by their lengths.
//!
//! `y = x / |x|`, `dx = (g - y <g, y>) / |x|` row by row; a row shorter than [`SHORTEST`] is divided by that constant
//! instead, so zeros stay zeros and their gradient is finite.

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor};

use super::stock;
use super::storage::{of_values, served, values, wide_type};
use crate::wide::{WideWork, appended, sum_of, sum_of_pairs, wide};

/// Lower bound of the lengths by which rows are divided.
const SHORTEST: f64 = 1e-12;

/// Divides the rows of `x` `(.., d)` by their Euclidean lengths.
///
/// # Errors
/// Returns an error if `x` has no dimension.
pub fn unit_rows(x: &Tensor) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    if served(&[x]) { x.contiguous()?.apply_op1(UnitRows { width }) } else { composed(x) }
}

/// Composes the result of candle's operations, in `f32`.
fn composed(x: &Tensor) -> Result<Tensor> {
    let broad = x.to_dtype(wide_type(x.dtype()))?;
    let squares = stock::sum_of_rows(&broad.sqr()?)?;
    broad.broadcast_div(&squares.maximum(SHORTEST * SHORTEST)?.sqrt()?)?.to_dtype(x.dtype())
}

/// Returns the length of a row, at least [`SHORTEST`], and true if it was longer.
#[inline(always)]
fn length(row: &[f32]) -> (f32, bool) {
    const LEAST: f32 = (SHORTEST * SHORTEST) as f32;
    let square = sum_of(row, |x| x * x);
    // Comparison that lets NaN pass.
    if square <= LEAST { (LEAST.sqrt(), false) } else { (square.sqrt(), true) }
}

struct UnitRows {
    width: usize,
}

/// Work that divides every row by its length, in a new vector.
struct UnitRowsForward<'a> {
    x: &'a [f32],
    width: usize,
}

impl WideWork for UnitRowsForward<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.x.len());
        for row in self.x.chunks_exact(self.width.max(1)) {
            let (length, _) = length(row);
            for x in appended(&mut all, row) {
                *x /= length;
            }
        }
        all
    }
}

/// Work that computes the gradient of `x` from that of the unit rows.
struct UnitRowsBackward<'a> {
    x: &'a [f32],
    g: &'a [f32],
    width: usize,
}

impl WideWork for UnitRowsBackward<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let UnitRowsBackward { x, g, width } = self;
        let mut all = Vec::with_capacity(x.len());
        for (x, g) in x.chunks_exact(width.max(1)).zip(g.chunks_exact(width.max(1))) {
            let (length, divides) = length(x);
            let along = if divides { sum_of_pairs(x, g, |x, g| x / length * g) } else { 0.0 };
            for (x, &g) in appended(&mut all, x).iter_mut().zip(g) {
                *x = (g - *x / length * along) / length;
            }
        }
        all
    }
}

impl CustomOp1 for UnitRows {
    fn name(&self) -> &'static str {
        "unit-rows"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let y = wide(UnitRowsForward { x: values(x, layout)?, width: self.width });
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let of = |x: &[f32], g: &[f32]| wide(UnitRowsBackward { x, g, width: self.width });
        of_values((x, g), x, of).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference, values};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn rows_have_length_one_and_their_direction() -> Result<()> {
        let x = Tensor::new(&[[3f32, -4.0], [0.0, 2e-3], [0.0, 0.0]], &Device::Cpu)?;
        assert_eq!(values(&unit_rows(&x)?), [0.6, -0.8, 0.0, 1.0, 0.0, 0.0]);
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() {
        let x = draw("x", (2, 3, 19));
        agrees_everywhere(&[&x], |t| unit_rows(&t[0]));
        finite_difference(&[&x], |t| unit_rows(&t[0]));
    }

    #[test]
    fn a_row_of_zeros_has_a_finite_gradient() -> Result<()> {
        let x = Var::zeros((1, 5), candle_core::DType::F32, &Device::Cpu)?;
        let grads = unit_rows(&x)?.backward()?;
        assert!(values(grads.get(&x).unwrap()).iter().all(|g| (g / 1e12 - 1.0).abs() < 1e-3));
        Ok(())
    }
}

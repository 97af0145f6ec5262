//! Softmax over the last dimension: rows of scores to probabilities.
//!
//! With `p` the probabilities, `dx = p (g - <g, p>)` row by row.

use candle_core::{CpuStorage, CustomOp1, D, Layout, Result, Shape, Tensor};

use super::stock;
use super::storage::{of_values, served, values};
use crate::wide::{self, WideWork, appended, sum_of_pairs, wide};

/// Turns the rows of `x` `(.., d)` into probabilities.
///
/// # Errors
/// Returns an error if `x` has no dimension.
pub fn softmax(x: &Tensor) -> Result<Tensor> {
    let width = x.dim(D::Minus1)?;
    if served(&[x]) { x.contiguous()?.apply_op1(SoftmaxOp { width }) } else { stock::softmax(x) }
}

struct SoftmaxOp {
    width: usize,
}

/// Work that computes the probabilities of every row, in a new vector.
struct SoftmaxForward<'a> {
    x: &'a [f32],
    width: usize,
}

impl WideWork for SoftmaxForward<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let mut all = Vec::with_capacity(self.x.len());
        for row in self.x.chunks_exact(self.width.max(1)) {
            wide::softmax(appended(&mut all, row));
        }
        all
    }
}

/// Work that computes the gradient of the scores from that of the probabilities `p`.
struct SoftmaxBackward<'a> {
    p: &'a [f32],
    g: &'a [f32],
    width: usize,
}

impl WideWork for SoftmaxBackward<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let SoftmaxBackward { p, g, width } = self;
        let mut all = Vec::with_capacity(p.len());
        for (p, g) in p.chunks_exact(width.max(1)).zip(g.chunks_exact(width.max(1))) {
            let mean = sum_of_pairs(p, g, |p, g| p * g);
            for (p, &g) in appended(&mut all, p).iter_mut().zip(g) {
                *p *= g - mean;
            }
        }
        all
    }
}

impl CustomOp1 for SoftmaxOp {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let p = wide(SoftmaxForward { x: values(x, layout)?, width: self.width });
        Ok((CpuStorage::F32(p), layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let of = |p: &[f32], g: &[f32]| wide(SoftmaxBackward { p, g, width: self.width });
        of_values((result, g), result, of).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference, values};
    use super::*;
    use candle_core::Device;

    #[test]
    fn rows_become_the_shares_of_their_powers() -> Result<()> {
        let (two, five) = (2f32.ln(), 5f32.ln());
        let x = Tensor::new(&[[0f32, two, five], [7.0, 7.0, -1e9]], &Device::Cpu)?;
        for (p, share) in values(&softmax(&x)?).iter().zip([0.125, 0.25, 0.625, 0.5, 0.5, 0.0]) {
            assert!((p - share).abs() < 1e-7, "{p} instead of {share}");
        }
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() {
        let x = (draw("x", (2, 3, 21)) * 3.0).unwrap();
        agrees_everywhere(&[&x], |t| softmax(&t[0]));
        finite_difference(&[&x], |t| softmax(&t[0]));
    }
}

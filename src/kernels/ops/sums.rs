//! Sums and means over one dimension or all, added in the same order on every machine.
//!
//! Over the last dimension sixteen partial sums are added pairwise ([`sum_of`]); over any other, entries are added in
//! the order of their index. candle's sums over the last dimension have as many lanes as the machine's vectors, also in
//! the backward pass of its `broadcast_` operations; [`scale_rows`](super::scale_rows) and
//! [`shift_rows`](super::shift_rows) replace those.

use candle_core::shape::Dim;
use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};

use super::stock;
use super::storage::{served, values};
use crate::wide::{WideWork, add_rows, sum_of, wide};

/// Sums `x` over `dim`, which is removed.
///
/// # Errors
/// Returns an error if there is no such dimension.
pub fn sum(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "sum")?;
    if served(&[x]) { x.contiguous()?.apply_op1(Sum { dim }) } else { stock::sum(x, dim) }
}

/// Averages `x` over `dim`, which is removed.
///
/// # Errors
/// Fails as [`sum`] does.
pub fn mean(x: &Tensor, dim: impl Dim) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "mean")?;
    if !served(&[x]) {
        return stock::mean(x, dim);
    }
    sum(x, dim)? * (1.0 / x.dim(dim)? as f64)
}

/// Sums all entries of `x` to a scalar, `[]`.
///
/// # Errors
/// Returns an error only if candle fails.
pub fn sum_all(x: &Tensor) -> Result<Tensor> {
    sum(&x.flatten_all()?, 0)
}

/// Averages all entries of `x` to a scalar, `[]`.
///
/// # Errors
/// Returns an error only if candle fails.
pub fn mean_all(x: &Tensor) -> Result<Tensor> {
    sum_all(x)? / x.elem_count() as f64
}

struct Sum {
    dim: usize,
}

/// Work that sums consecutive rows.
struct OfRows<'a> {
    values: &'a [f32],
    rows: usize,
    width: usize,
}

impl WideWork for OfRows<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let OfRows { values, rows, width } = self;
        let mut sums = Vec::with_capacity(rows);
        for row in 0..rows {
            sums.push(sum_of(&values[row * width..][..width], |x| x));
        }
        sums
    }
}

impl CustomOp1 for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let values = values(x, layout)?;
        let mut shape = layout.dims().to_vec();
        let count = shape.remove(self.dim);
        let outer = shape[..self.dim].iter().product::<usize>();
        let inner = shape[self.dim..].iter().product::<usize>();
        let sums = if self.dim == shape.len() {
            wide(OfRows { values, rows: outer, width: count })
        } else {
            let mut sums = vec![0f32; outer * inner];
            let blocks = values.chunks_exact((count * inner).max(1));
            for (sums, block) in sums.chunks_exact_mut(inner.max(1)).zip(blocks) {
                add_rows(sums, block);
            }
            sums
        };
        Ok((CpuStorage::F32(sums), Shape::from(shape)))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        g.unsqueeze(self.dim)?.broadcast_as(x.shape()).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference, values};
    use super::*;
    use candle_core::{D, Device};

    fn counted(shape: impl Into<Shape>) -> Tensor {
        let shape = shape.into();
        let values: Vec<f32> = (0..shape.elem_count()).map(|i| i as f32).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    #[test]
    fn sums_take_the_entries_of_their_dimension() -> Result<()> {
        let x = counted((2, 3, 2));
        let [first, middle, last] = [0, 1, 2].map(|dim| sum(&x, dim).unwrap());
        assert_eq!(first.to_vec2::<f32>()?, [[6.0, 8.0], [10.0, 12.0], [14.0, 16.0]]);
        assert_eq!(middle.to_vec2::<f32>()?, [[6.0, 9.0], [24.0, 27.0]]);
        assert_eq!(last.to_vec2::<f32>()?, [[1.0, 5.0, 9.0], [13.0, 17.0, 21.0]]);
        assert_eq!(mean(&x, 1)?.to_vec2::<f32>()?, [[2.0, 3.0], [8.0, 9.0]]);
        assert_eq!(sum_all(&x)?.to_scalar::<f32>()?, 66.0);
        assert_eq!(mean_all(&x)?.to_scalar::<f32>()?, 5.5);
        let turned = x.transpose(0, 2)?;
        assert_eq!(sum(&turned, D::Minus1)?.to_vec2::<f32>()?, first.t()?.to_vec2::<f32>()?);
        assert!(sum(&x, 3).is_err());
        Ok(())
    }

    #[test]
    fn sums_of_nothing_are_zero() -> Result<()> {
        let none = counted((2, 0));
        assert_eq!(sum(&none, 1)?.to_vec1::<f32>()?, [0.0, 0.0]);
        assert!(sum(&none, 0)?.to_vec1::<f32>()?.is_empty());
        assert_eq!(sum_all(&none)?.to_scalar::<f32>()?, 0.0);
        assert_eq!(sum_all(&Tensor::new(7f32, &Device::Cpu)?)?.to_scalar::<f32>()?, 7.0);
        Ok(())
    }

    /// Sixteen lanes, then halves on halves: 1 is lost next to 2^24 unless it meets another 1 first.
    #[test]
    fn a_row_is_added_in_sixteen_lanes() -> Result<()> {
        let large = 16_777_216f32;
        let mut row = [0f32; 32];
        (row[0], row[16], row[8]) = (large, 1.0, 1.0);
        let of = |row: &[f32]| sum_all(&Tensor::new(row, &Device::Cpu)?)?.to_scalar::<f32>();
        assert_eq!(of(&row)?, large, "each 1 meets the large one alone");
        (row[16], row[24]) = (0.0, 1.0);
        assert_eq!(of(&row)?, large + 2.0, "both are in lane 8 and meet first");
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() {
        let x = draw("x", (3, 4, 5));
        for dim in 0..3 {
            agrees_everywhere(&[&x], |t| sum(&t[0], dim));
            agrees_everywhere(&[&x], |t| mean(&t[0], dim));
            finite_difference(&[&x], |t| mean(&t[0], dim));
        }
        agrees_everywhere(&[&x], |t| sum_all(&t[0].sqr()?));
        finite_difference(&[&x], |t| mean_all(&t[0].sqr()?));
        assert_eq!(values(&sum(&x, 0).unwrap()).len(), 20);
    }
}

//! Operations of a matrix with one number per row, multiplied with the row or added to it.
//!
//! candle's `broadcast_mul` and `broadcast_add` of a `(n, 1)` tensor compute the same values, but the gradient of the
//! numbers is then a sum over the last dimension in candle's order, which depends on the machine.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::storage::{of_values, served, values};
use crate::wide::{WideWork, appended, sum_of, sum_of_pairs, wide};

/// Multiplies every row of `x` `(n, d)` by its number in `factors` `(n)`.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn scale_rows(x: &Tensor, factors: &Tensor) -> Result<Tensor> {
    apply(ByRow::Factor, x, factors)
}

/// Adds each row's number in `terms` `(n)` to all entries of the row of `x` `(n, d)`.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn shift_rows(x: &Tensor, terms: &Tensor) -> Result<Tensor> {
    apply(ByRow::Term, x, terms)
}

fn apply(op: ByRow, x: &Tensor, numbers: &Tensor) -> Result<Tensor> {
    let (rows, _) = x.dims2()?;
    if numbers.dims() != [rows] {
        bail!("rows: input {:?} and numbers {:?} do not fit", x.shape(), numbers.shape());
    }
    if served(&[x, numbers]) {
        return x.contiguous()?.apply_op2(&numbers.contiguous()?, op);
    }
    let numbers = numbers.to_dtype(x.dtype())?.unsqueeze(1)?;
    match op {
        ByRow::Factor => x.broadcast_mul(&numbers),
        ByRow::Term => x.broadcast_add(&numbers),
    }
}

#[derive(Clone, Copy)]
enum ByRow {
    Factor,
    Term,
}

/// Work that joins rows with their numbers, in a new vector.
struct ByRowForward<'a> {
    op: ByRow,
    x: &'a [f32],
    numbers: &'a [f32],
}

impl WideWork for ByRowForward<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let ByRowForward { op, x, numbers } = self;
        let width = x.len() / numbers.len().max(1);
        let mut all = Vec::with_capacity(x.len());
        for (row, &number) in x.chunks_exact(width.max(1)).zip(numbers) {
            for x in appended(&mut all, row) {
                *x = match op {
                    ByRow::Factor => *x * number,
                    ByRow::Term => *x + number,
                };
            }
        }
        all
    }
}

/// Work that computes the gradient of the numbers.
struct OfNumbers<'a> {
    op: ByRow,
    x: &'a [f32],
    g: &'a [f32],
    rows: usize,
}

impl WideWork for OfNumbers<'_> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let OfNumbers { op, x, g, rows } = self;
        let width = x.len() / rows.max(1);
        let mut all = Vec::with_capacity(rows);
        for row in 0..rows {
            let (x, g) = (&x[row * width..][..width], &g[row * width..][..width]);
            all.push(match op {
                ByRow::Factor => sum_of_pairs(x, g, |x, g| x * g),
                ByRow::Term => sum_of(g, |g| g),
            });
        }
        all
    }
}

impl CustomOp2 for ByRow {
    fn name(&self) -> &'static str {
        match self {
            ByRow::Factor => "scale-rows",
            ByRow::Term => "shift-rows",
        }
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        numbers: &CpuStorage,
        numbers_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, numbers) = (values(x, x_layout)?, values(numbers, numbers_layout)?);
        let y = wide(ByRowForward { op: *self, x, numbers });
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        numbers: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let by_x = match self {
            _ if !x.track_op() => None,
            ByRow::Term => Some(g.clone()),
            ByRow::Factor => {
                let of = |x: &[f32], numbers: &[f32]| wide(ByRowForward { op: *self, x, numbers });
                Some(of_values((g, numbers), x, of)?)
            }
        };
        let rows = numbers.elem_count();
        let of = |x: &[f32], g: &[f32]| wide(OfNumbers { op: *self, x, g, rows });
        let by_numbers = match numbers.track_op() {
            true => Some(of_values((x, g), numbers, of)?),
            false => None,
        };
        Ok((by_x, by_numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn every_row_meets_its_own_number() -> Result<()> {
        let x = Tensor::new(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &Device::Cpu)?;
        let numbers = Tensor::new(&[10f32, -1.0], &Device::Cpu)?;
        let scaled = scale_rows(&x, &numbers)?.to_vec2::<f32>()?;
        assert_eq!(scaled, [[10.0, 20.0, 30.0], [-4.0, -5.0, -6.0]]);
        let shifted = shift_rows(&x, &numbers)?.to_vec2::<f32>()?;
        assert_eq!(shifted, [[11.0, 12.0, 13.0], [3.0, 4.0, 5.0]]);
        assert!(scale_rows(&x, &x.get(0)?).is_err(), "a number for every column");
        Ok(())
    }

    #[test]
    fn gradients_are_finite_differences() {
        let inputs = [&draw("x", (3, 21)), &draw("f", 3)];
        agrees_everywhere(&inputs, |t| scale_rows(&t[0], &t[1]));
        agrees_everywhere(&inputs, |t| shift_rows(&t[0], &t[1]));
        finite_difference(&inputs, |t| scale_rows(&t[0], &t[1]));
        finite_difference(&inputs, |t| shift_rows(&t[0], &t[1]));
    }

    #[test]
    fn constants_get_no_gradient() -> Result<()> {
        let (x, factors) = (draw("x", (3, 4)), Var::from_tensor(&draw("f", 3))?);
        let grads = scale_rows(&x, &factors)?.backward()?;
        assert!(grads.get(&x).is_none() && grads.get(&factors).is_some());
        Ok(())
    }
}

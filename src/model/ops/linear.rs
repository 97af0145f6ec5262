//! `x W^T + b`, with gradients only for operands that are tracked.
//!
//! Through a frozen weight the backward pass is one product, `dx = g W`; candle's `matmul`
//! would compute the gradient of the weight too and keep it.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};

use super::matrix::{Matrix, MatrixMut};
use super::storage::{lend, served, tensor_like, values};
use super::wide::wide;
use super::with_gradient::with_gradients;

/// A linear layer: `x` `(.., in)`, `weight` `(out, in)`, `bias` `(out)`; gives `(.., out)`.
///
/// # Errors
/// When the shapes do not fit.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (outputs, inputs) = weight.dims2()?;
    if x.dims().last() != Some(&inputs) || bias.is_some_and(|b| b.dims() != [outputs]) {
        bail!(
            "linear: input {:?}, weight {:?} and bias {:?} do not fit",
            x.shape(),
            weight.shape(),
            bias.map(Tensor::shape)
        );
    }
    match bias {
        Some(bias) if served(&[x, weight, bias]) => {
            x.contiguous()?.apply_op3(&weight.contiguous()?, &bias.contiguous()?, Linear)
        }
        None if served(&[x, weight]) => x.contiguous()?.apply_op2(&weight.contiguous()?, Linear),
        _ => composed(x, weight, bias),
    }
}

/// From candle's operations, in the type of `x`; the weight's own type may be wider.
fn composed(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (outputs, inputs) = weight.dims2()?;
    let mut shape = x.dims().to_vec();
    let rows = x.elem_count() / inputs.max(1);
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    let flat = x.detach().contiguous()?.reshape((rows, inputs))?;
    let narrow = weight.detach().to_dtype(x.dtype())?;
    let value = flat.matmul(&narrow.t()?)?;
    let value = match bias {
        Some(bias) => value.broadcast_add(&bias.detach().to_dtype(x.dtype())?)?,
        None => value,
    };
    let want = [x.track_op(), weight.track_op(), bias.is_some_and(Tensor::track_op)];
    // Without a bias the weight stands in for it, and gets no second gradient.
    let bias = bias.unwrap_or(weight);
    let x_shape = x.shape().clone();
    let (weight_type, bias_type) = (weight.dtype(), bias.dtype());
    with_gradients([x, weight, bias], value.reshape(shape)?, move |g| {
        let g = g.contiguous()?.reshape((rows, outputs))?;
        let by_x = || g.matmul(&narrow)?.reshape(&x_shape);
        let by_weight = || g.t()?.contiguous()?.matmul(&flat)?.to_dtype(weight_type);
        let by_bias = || g.to_dtype(bias_type)?.sum(0);
        Ok([
            want[0].then(by_x).transpose()?,
            want[1].then(by_weight).transpose()?,
            want[2].then(by_bias).transpose()?,
        ])
    })
}

struct Linear;

impl Linear {
    fn forward(
        x: &[f32],
        x_shape: &Shape,
        weight: &[f32],
        outputs: usize,
        bias: Option<&[f32]>,
    ) -> (CpuStorage, Shape) {
        let inputs = weight.len() / outputs.max(1);
        let rows = x.len() / inputs.max(1);
        let (x, weight) = (Matrix::dense(x, rows, inputs), Matrix::dense(weight, outputs, inputs));
        let y = match bias {
            Some(bias) => {
                let mut y = Vec::with_capacity(rows * outputs);
                for _ in 0..rows {
                    y.extend_from_slice(bias);
                }
                MatrixMut::dense(&mut y, rows, outputs).add(1.0, x, weight.t());
                y
            }
            None => {
                let mut y = vec![0f32; rows * outputs];
                MatrixMut::dense(&mut y, rows, outputs).set(1.0, x, weight.t());
                y
            }
        };
        let mut shape = x_shape.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        (CpuStorage::F32(y), Shape::from(shape))
    }

    fn gradient_of_input(x: &Tensor, weight: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        if !x.track_op() {
            return Ok(None);
        }
        let (outputs, inputs) = weight.dims2()?;
        let rows = x.elem_count() / inputs.max(1);
        let mut gradient = vec![0f32; rows * inputs];
        lend(g, |g| {
            lend(weight, |weight| {
                let weight = Matrix::dense(weight, outputs, inputs);
                MatrixMut::dense(&mut gradient, rows, inputs).set(
                    1.0,
                    Matrix::dense(g, rows, outputs),
                    weight,
                );
                Ok(())
            })
        })?;
        tensor_like(gradient, x).map(Some)
    }

    fn gradient_of_weight(x: &Tensor, weight: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        if !weight.track_op() {
            return Ok(None);
        }
        let (outputs, inputs) = weight.dims2()?;
        let rows = x.elem_count() / inputs.max(1);
        let mut gradient = vec![0f32; outputs * inputs];
        lend(g, |g| {
            lend(x, |x| {
                let g = Matrix::dense(g, rows, outputs);
                let x = Matrix::dense(x, rows, inputs);
                MatrixMut::dense(&mut gradient, outputs, inputs).set(1.0, g.t(), x);
                Ok(())
            })
        })?;
        tensor_like(gradient, weight).map(Some)
    }

    fn gradient_of_bias(bias: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        if !bias.track_op() {
            return Ok(None);
        }
        let mut gradient = vec![0f32; bias.elem_count()];
        lend(g, |g| {
            wide(|| {
                for row in g.chunks_exact(gradient.len().max(1)) {
                    for (sum, &g) in gradient.iter_mut().zip(row) {
                        *sum += g;
                    }
                }
            });
            Ok(())
        })?;
        tensor_like(gradient, bias).map(Some)
    }
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (outputs, _) = weight_layout.shape().dims2()?;
        let (x, weight) = (values(x, x_layout)?, values(weight, weight_layout)?);
        Ok(Linear::forward(x, x_layout.shape(), weight, outputs, None))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Linear::gradient_of_input(x, weight, g)?, Linear::gradient_of_weight(x, weight, g)?))
    }
}

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (outputs, _) = weight_layout.shape().dims2()?;
        let (x, weight) = (values(x, x_layout)?, values(weight, weight_layout)?);
        let bias = values(bias, bias_layout)?;
        Ok(Linear::forward(x, x_layout.shape(), weight, outputs, Some(bias)))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        Ok((
            Linear::gradient_of_input(x, weight, g)?,
            Linear::gradient_of_weight(x, weight, g)?,
            Linear::gradient_of_bias(bias, g)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn agrees_with_the_composition() {
        let (x, w, b) = (draw("x", (2, 5, 7)), draw("w", (3, 7)), draw("b", 3));
        agrees_everywhere(&[&x, &w, &b], |t| linear(&t[0], &t[1], Some(&t[2])));
        agrees_everywhere(&[&x, &w], |t| linear(&t[0], &t[1], None));
    }

    #[test]
    fn gradients_are_finite_differences() {
        let inputs = [&draw("x", (4, 7)), &draw("w", (3, 7)), &draw("b", 3)];
        finite_difference(&inputs, |t| linear(&t[0], &t[1], Some(&t[2])));
    }

    #[test]
    fn frozen_operands_get_no_gradient_and_pass_it_on() -> Result<()> {
        let x = Var::from_tensor(&draw("x", (4, 7)))?;
        let (w, b) = (draw("w", (3, 7)), draw("b", 3));
        let grads = linear(&x, &w, Some(&b))?.sum_all()?.backward()?;
        assert!(grads.get(&w).is_none() && grads.get(&b).is_none());
        assert!(grads.get(&x).is_some());
        let y = linear(x.as_detached_tensor().as_ref(), &w, Some(&b))?;
        assert!(!y.track_op(), "a frozen layer on a frozen input builds no graph");
        Ok(())
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let zeros = |shape: &[usize]| Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu);
        let (x, w) = (zeros(&[2, 4]).unwrap(), zeros(&[3, 5]).unwrap());
        let error = linear(&x, &w, None).unwrap_err().to_string();
        assert!(error.contains("do not fit"), "{error}");
    }
}

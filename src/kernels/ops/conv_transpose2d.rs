//! Transposed convolution of channels-last images: the map from gradients of a convolution's output to those of its
//! input.
//!
//! All three passes are those of [`conv2d`](super::conv2d()) with input and output exchanged: the forward pass is the
//! gradient of its input, the gradient of `x` is its forward pass, and that of the weight is its gradient of the weight
//! with both images exchanged.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::conv2d::{Conv2d, composition};
use super::storage::{lent, served, tensor_like, values};
use super::unfold::ConvolutionGeometry;

/// Computes the transposed convolution of `x` `(b, h, w, in)` with `weight` `(in, out, kh, kw)`.
///
/// The weight has PyTorch's layout. The result is `(b, h', w', out)`, where `h' = (h - 1) stride - 2 padding + kh`. A
/// bias is added separately.
///
/// # Errors
/// Returns an error if the shapes do not fit, or the padding exceeds `kh - 1` or `kw - 1`.
pub fn conv_transpose2d(
    x: &Tensor,
    weight: &Tensor,
    stride: usize,
    padding: usize,
) -> Result<Tensor> {
    let geometry = geometry(x.dims(), weight.dims(), stride, padding)?;
    if served(&[x, weight]) {
        let op = ConvTranspose2d(Conv2d::new(geometry));
        return x.contiguous()?.apply_op2(&weight.contiguous()?, op);
    }
    composed(x, weight, geometry)
}

/// Returns the geometry of the convolution that this one transposes, from the result to `x`.
fn geometry(
    x: &[usize],
    weight: &[usize],
    stride: usize,
    padding: usize,
) -> Result<ConvolutionGeometry> {
    let (&[samples, height, width, inputs], &[rows, outputs, kh, kw]) = (x, weight) else {
        bail!(
            "conv_transpose2d: input {x:?} should be (b, h, w, in), weight {weight:?} (in, out, kh, kw)"
        )
    };
    let fits = inputs == rows && ![height, width, kh, kw, stride].contains(&0);
    if !fits || padding >= kh || padding >= kw {
        bail!(
            "conv_transpose2d: input {x:?}, weight {weight:?}, stride {stride} and padding {padding} do not fit"
        );
    }
    let extent =
        |size: usize, kernel: usize| ((size - 1) * stride + kernel).checked_sub(2 * padding);
    let (Some(tall), Some(wide)) = (extent(height, kh), extent(width, kw)) else {
        bail!("conv_transpose2d: input {x:?}, padding {padding}: nothing is left of the result")
    };
    ConvolutionGeometry::new(&[samples, tall, wide, outputs], weight, stride, padding)
}

/// Composes it as a convolution of `x`, spread by `stride - 1` zeros, with the rotated kernel.
fn composed(x: &Tensor, weight: &Tensor, of: ConvolutionGeometry) -> Result<Tensor> {
    let ConvolutionGeometry { kernel: [kh, kw], stride, padding, .. } = of;
    let (samples, height, width, inputs) = x.dims4()?;
    let apart = x
        .reshape((samples, height, 1, width, 1, inputs))?
        .pad_with_zeros(2, 0, stride - 1)?
        .pad_with_zeros(4, 0, stride - 1)?
        .reshape((samples, height * stride, width * stride, inputs))?
        .narrow(1, 0, (height - 1) * stride + 1)?
        .narrow(2, 0, (width - 1) * stride + 1)?;
    let around = |x: Tensor, dim: usize, size: usize| {
        let more = size - 1 - padding;
        x.pad_with_zeros(dim, more, more)
    };
    let x = around(around(apart, 1, kh)?, 2, kw)?.contiguous()?;
    let turned = |weight: Tensor, dim: usize, size: usize| {
        let backward: Vec<u32> = (0..size as u32).rev().collect();
        weight.index_select(&Tensor::from_vec(backward, size, x.device())?, dim)
    };
    let weight = turned(turned(weight.contiguous()?, 2, kh)?, 3, kw)?;
    let weight = weight.transpose(0, 1)?.contiguous()?;
    let geometry = ConvolutionGeometry::new(x.dims(), weight.dims(), 1, 0)?;
    composition(&x, &weight, geometry)
}

struct ConvTranspose2d(Conv2d);

impl CustomOp2 for ConvTranspose2d {
    fn name(&self) -> &'static str {
        "conv-transpose2d"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let ConvolutionGeometry { samples, height, width, channels, .. } = self.0.geometry();
        let shape = (samples, height, width, channels);
        // Values at this operand are never read: only its gradient is computed.
        let place = vec![0f32; samples * height * width * channels];
        let (x, weight) = (values(x, x_layout)?, values(weight, weight_layout)?);
        match self.0.backward(&place, weight, x, [true, false]).input {
            Some(y) => Ok((CpuStorage::F32(y), Shape::from(shape))),
            None => bail!("conv_transpose2d: no result"),
        }
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let g = g.contiguous()?;
        let (seen, own, back) = (lent(x)?, lent(weight)?, lent(&g)?);
        let of_x = x.track_op().then(|| tensor_like(self.0.forward(&back, &own), x)).transpose()?;
        if !weight.track_op() {
            return Ok((of_x, None));
        }
        let of_weight = self.0.backward(&back, &own, &seen, [false, true]).weight;
        Ok((of_x, of_weight.map(|gradient| tensor_like(gradient, weight)).transpose()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agree, agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::Var;

    /// Stride, padding and window of the layers of a generator, and an odd one.
    const FORMS: [(usize, usize, usize); 4] = [(1, 0, 4), (2, 1, 4), (1, 1, 3), (3, 0, 2)];

    #[test]
    fn agrees_with_the_composition_and_differences() {
        for (stride, padding, kernel) in FORMS {
            let inputs = [&draw("x", (2, 3, 4, 3)), &draw("w", (3, 2, kernel, kernel))];
            let op = |t: &[Tensor]| conv_transpose2d(&t[0], &t[1], stride, padding);
            agrees_everywhere(&inputs, op);
            finite_difference(&inputs, op);
        }
    }

    #[test]
    fn it_is_candles_transposed_convolution() {
        for (stride, padding, kernel) in FORMS {
            let inputs = [&draw("x", (2, 3, 4, 3)), &draw("w", (3, 2, kernel, kernel))];
            let stock = |t: &[Tensor]| {
                let x = t[0].permute((0, 3, 1, 2))?.contiguous()?;
                let y = x.conv_transpose2d(&t[1], padding, 0, stride, 1)?;
                y.permute((0, 2, 3, 1))?.contiguous()
            };
            let value = |op: &dyn Fn(&[Tensor]) -> Result<Tensor>| {
                op(&[inputs[0].clone(), inputs[1].clone()]).unwrap()
            };
            let own = value(&|t| conv_transpose2d(&t[0], &t[1], stride, padding));
            let theirs = value(&stock);
            assert_eq!(own.dims(), theirs.dims());
            let gap = (own - theirs).unwrap().abs().unwrap().max_all().unwrap();
            assert!(gap.to_scalar::<f32>().unwrap() < 1e-5);
        }
        // Wide enough for several panels.
        let inputs = [&draw("x", (40, 16, 16, 8)), &draw("w", (8, 32, 4, 4))];
        let composed =
            |t: &[Tensor]| composed(&t[0], &t[1], geometry(t[0].dims(), t[1].dims(), 2, 1)?);
        agree(&inputs, |t| conv_transpose2d(&t[0], &t[1], 2, 1), composed);
    }

    #[test]
    fn a_pixel_writes_its_window() -> Result<()> {
        let x = Tensor::new(&[[[[2f32]]]], &candle_core::Device::Cpu)?;
        let weight = Tensor::arange(0f32, 4.0, x.device())?.reshape((1, 1, 2, 2))?;
        let y = conv_transpose2d(&x, &weight, 1, 0)?;
        assert_eq!(y.dims(), [1, 2, 2, 1]);
        assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [0.0, 2.0, 4.0, 6.0]);
        Ok(())
    }

    #[test]
    fn frozen_operands_get_no_gradient() -> Result<()> {
        let (x, w) = (draw("x", (2, 4, 4, 2)), draw("w", (2, 3, 4, 4)));
        let (moving_x, moving_w) = (Var::from_tensor(&x)?, Var::from_tensor(&w)?);
        let grads = conv_transpose2d(&moving_x, &w, 2, 1)?.sum_all()?.backward()?;
        assert!(grads.get(&w).is_none() && grads.get(&moving_x).is_some());
        let grads = conv_transpose2d(&x, &moving_w, 2, 1)?.sum_all()?.backward()?;
        assert!(grads.get(&x).is_none() && grads.get(&moving_w).is_some());
        assert!(!conv_transpose2d(&x, &w, 2, 1)?.track_op());
        Ok(())
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        for (x, w, stride, padding) in [
            (vec![1, 4, 4, 2], vec![3, 5, 3, 3], 1, 0),
            (vec![1, 4, 4, 2], vec![2, 5, 3, 3], 0, 0),
            (vec![1, 4, 4, 2], vec![2, 5, 3, 3], 1, 3),
            (vec![1, 1, 1, 2], vec![2, 5, 3, 3], 1, 2),
            (vec![4, 4, 2], vec![2, 5, 3, 3], 1, 0),
        ] {
            let error = conv_transpose2d(&draw("x", x), &draw("w", w), stride, padding);
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("conv_transpose2d: input"), "{error}");
        }
    }
}

//! Convolution of channels-last images, with gradients only for operands that are tracked.
//!
//! Windows are unfolded into rows and multiplied with the weight, in panels that span samples. Kernels of 3 x 3 with
//! stride 1, which are nearly all of a residual network, use [`winograd`](super::winograd) with less than half of the
//! multiplications. candle's own backward pass uses per-pixel dot products for the input and is several times slower
//! than its forward pass; here all three passes are products of the same size.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::linear::linear;
use super::matrix::{Matrix, MatrixMut};
use super::storage::{lent, served, tensor_like, values};
use super::unfold::ConvolutionGeometry;
use super::winograd::{ConvolutionGradients, Winograd};

/// Convolves `x` `(b, h, w, c)` with `weight` `(out, c, kh, kw)` (PyTorch's layout).
///
/// `padding` is the number of zeros on each side. The result is `(b, h', w', out)`. A bias can be added by a
/// `broadcast_add`; networks with batch norm have none.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn conv2d(x: &Tensor, weight: &Tensor, stride: usize, padding: usize) -> Result<Tensor> {
    let geometry = ConvolutionGeometry::new(x.dims(), weight.dims(), stride, padding)?;
    if served(&[x, weight]) {
        x.contiguous()?.apply_op2(&weight.contiguous()?, Conv2d::new(geometry))
    } else {
        composition(x, weight, geometry)
    }
}

/// Composes the convolution of unfolded windows and one matrix product.
///
/// candle's own convolution has a slow gradient of its input on every device, and no `bf16` on the CPU.
pub(super) fn composition(
    x: &Tensor,
    weight: &Tensor,
    geometry: ConvolutionGeometry,
) -> Result<Tensor> {
    let ConvolutionGeometry { samples, outputs, .. } = geometry;
    let [height, width] = geometry.output();
    let rows = Tensor::cat(&taps(x, geometry)?, 3)?.contiguous()?;
    let weight = weight.permute((0, 2, 3, 1))?.contiguous()?.reshape((outputs, ()))?;
    linear(&rows.reshape((samples * height * width, ()))?, &weight, None)?
        .reshape((samples, height, width, outputs))
}

/// Returns the values of all windows at each position of the kernel, row by row.
///
/// They are `(b, h', w', c)` each, zero beyond the edge.
pub(super) fn taps(x: &Tensor, geometry: ConvolutionGeometry) -> Result<Vec<Tensor>> {
    let ConvolutionGeometry { kernel: [kh, kw], stride, padding, .. } = geometry;
    let [height, width] = geometry.output();
    // Room for the last window and for the remainder of the last stride.
    let (below, right) = (height * stride + kh, width * stride + kw);
    let x = x.pad_with_zeros(1, padding, below.saturating_sub(padding + geometry.height))?;
    let x = x.pad_with_zeros(2, padding, right.saturating_sub(padding + geometry.width))?;
    let mut taps = Vec::with_capacity(kh * kw);
    for ky in 0..kh {
        let lines = every(&x, 1, ky, height, stride)?;
        for kx in 0..kw {
            taps.push(every(&lines, 2, kx, width, stride)?);
        }
    }
    Ok(taps)
}

/// Returns `count` entries of a dimension from `from` on, `stride` apart.
fn every(x: &Tensor, dim: usize, from: usize, count: usize, stride: usize) -> Result<Tensor> {
    let x = x.narrow(dim, from, count * stride)?.contiguous()?;
    if stride == 1 {
        return Ok(x);
    }
    let mut shape = x.dims().to_vec();
    shape[dim] = count;
    shape.insert(dim + 1, stride);
    x.reshape(shape)?.narrow(dim + 1, 0, 1)?.squeeze(dim + 1)?.contiguous()
}

pub(super) struct Conv2d(ConvolutionGeometry);

impl Conv2d {
    /// Returns the convolution of this geometry.
    pub fn new(geometry: ConvolutionGeometry) -> Conv2d {
        Conv2d(geometry)
    }

    /// Returns the sizes.
    pub fn geometry(&self) -> ConvolutionGeometry {
        self.0
    }

    /// Reorders `(out, c, kh, kw)` to `(out, kh, kw, c)`, the order of an unfolded row.
    fn channels_last(&self, weight: &[f32]) -> Vec<f32> {
        let ConvolutionGeometry { channels, kernel: [kh, kw], .. } = self.0;
        let mut turned = Vec::with_capacity(weight.len());
        for filter in weight.chunks_exact(channels * kh * kw) {
            for at in 0..kh * kw {
                turned.extend(filter.iter().skip(at).step_by(kh * kw));
            }
        }
        turned
    }

    /// Reverses [`Conv2d::channels_last`].
    fn channels_first(&self, weight: &[f32]) -> Vec<f32> {
        let ConvolutionGeometry { channels, kernel: [kh, kw], .. } = self.0;
        let mut turned = Vec::with_capacity(weight.len());
        for filter in weight.chunks_exact(channels * kh * kw) {
            for channel in 0..channels {
                turned.extend(filter.iter().skip(channel).step_by(channels));
            }
        }
        turned
    }

    /// Returns the output, `(b, h', w', out)`.
    pub fn forward(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        if let Some(tiles) = Winograd::of(self.0) {
            return tiles.forward(x, weight);
        }
        let ConvolutionGeometry { samples, outputs, .. } = self.0;
        let ([height, width], window) = (self.0.output(), self.0.window());
        let weight = self.channels_last(weight);
        let mut y = vec![0f32; samples * height * width * outputs];
        let mut rows = Vec::new();
        for lines in self.0.panels() {
            self.0.unfold(x, lines.clone(), &mut rows);
            let count = lines.len() * width;
            let panel = &mut y[lines.start * width * outputs..][..count * outputs];
            MatrixMut::dense(panel, count, outputs).set(
                1.0,
                Matrix::dense(&rows, count, window),
                Matrix::dense(&weight, outputs, window).t(),
            );
        }
        y
    }

    /// Returns the gradients of input and weight, each only if it is wanted.
    pub fn backward(
        &self,
        x: &[f32],
        weight: &[f32],
        g: &[f32],
        wanted: [bool; 2],
    ) -> ConvolutionGradients {
        match Winograd::of(self.0) {
            // The tiles of the result's gradient serve both.
            Some(tiles) if wanted.contains(&true) => tiles.backward(x, weight, g, wanted),
            _ => ConvolutionGradients {
                input: wanted[0].then(|| self.gradient_of_input(weight, g)),
                weight: wanted[1].then(|| self.gradient_of_weight(x, g)),
            },
        }
    }

    fn gradient_of_input(&self, weight: &[f32], g: &[f32]) -> Vec<f32> {
        let ConvolutionGeometry { samples, height, width: columns, channels, outputs, .. } = self.0;
        let ([_, width], window) = (self.0.output(), self.0.window());
        let weight = self.channels_last(weight);
        let mut gradient = vec![0f32; samples * height * columns * channels];
        let mut rows = Vec::new();
        for lines in self.0.panels() {
            let count = lines.len() * width;
            rows.resize(count * window, 0.0);
            let panel = &g[lines.start * width * outputs..][..count * outputs];
            MatrixMut::dense(&mut rows, count, window).set(
                1.0,
                Matrix::dense(panel, count, outputs),
                Matrix::dense(&weight, outputs, window),
            );
            self.0.fold(&rows[..count * window], lines, &mut gradient);
        }
        gradient
    }

    fn gradient_of_weight(&self, x: &[f32], g: &[f32]) -> Vec<f32> {
        let outputs = self.0.outputs;
        let ([_, width], window) = (self.0.output(), self.0.window());
        let mut gradient = vec![0f32; outputs * window];
        let mut rows = Vec::new();
        for lines in self.0.panels() {
            self.0.unfold(x, lines.clone(), &mut rows);
            let count = lines.len() * width;
            let panel = &g[lines.start * width * outputs..][..count * outputs];
            MatrixMut::dense(&mut gradient, outputs, window).add(
                1.0,
                Matrix::dense(panel, count, outputs).t(),
                Matrix::dense(&rows, count, window),
            );
        }
        self.channels_first(&gradient)
    }
}

impl CustomOp2 for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let y = self.forward(values(x, x_layout)?, values(weight, weight_layout)?);
        let [height, width] = self.0.output();
        Ok((CpuStorage::F32(y), Shape::from((self.0.samples, height, width, self.0.outputs))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let wanted = [x.track_op(), weight.track_op()];
        let g = g.contiguous()?;
        let of = self.backward(&lent(x)?, &lent(weight)?, &lent(&g)?, wanted);
        let like = |gradient: Option<Vec<f32>>, like: &Tensor| {
            gradient.map(|gradient| tensor_like(gradient, like)).transpose()
        };
        Ok((like(of.input, x)?, like(of.weight, weight)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agree, agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::Var;

    #[test]
    fn agrees_with_the_composition() {
        for (stride, padding, kernel) in [(1, 1, 3), (2, 1, 3), (2, 0, 1), (1, 2, 2)] {
            let inputs = [&draw("x", (2, 4, 5, 3)), &draw("w", (4, 3, kernel, kernel))];
            agrees_everywhere(&inputs, |t| conv2d(&t[0], &t[1], stride, padding));
        }
    }

    #[test]
    fn many_panels_are_candles_convolution() {
        // 40 samples of 16 x 16 x 32 unfold into three panels.
        let inputs = [&draw("x", (40, 16, 16, 32)), &draw("w", (2, 32, 3, 3))];
        let stock = |t: &[Tensor]| {
            let x = t[0].permute((0, 3, 1, 2))?.contiguous()?;
            x.conv2d(&t[1], 1, 1, 1, 1)?.permute((0, 2, 3, 1))?.contiguous()
        };
        agree(&inputs, |t| conv2d(&t[0], &t[1], 1, 1), stock);
    }

    #[test]
    fn gradients_are_finite_differences() {
        for stride in [1, 2] {
            let inputs = [&draw("x", (2, 4, 5, 2)), &draw("w", (3, 2, 3, 3))];
            finite_difference(&inputs, |t| conv2d(&t[0], &t[1], stride, 1));
        }
    }

    #[test]
    fn frozen_operands_get_no_gradient_and_pass_it_on() -> Result<()> {
        let (x, w) = (draw("x", (2, 4, 4, 2)), draw("w", (3, 2, 3, 3)));
        let (moving_x, moving_w) = (Var::from_tensor(&x)?, Var::from_tensor(&w)?);
        let grads = conv2d(&moving_x, &w, 1, 1)?.sum_all()?.backward()?;
        assert!(grads.get(&w).is_none() && grads.get(&moving_x).is_some());
        let grads = conv2d(&x, &moving_w, 1, 1)?.sum_all()?.backward()?;
        assert!(grads.get(&x).is_none() && grads.get(&moving_w).is_some());
        assert!(!conv2d(&x, &w, 1, 1)?.track_op());
        Ok(())
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        for (x, w, stride) in [
            (vec![1, 4, 4, 2], vec![3, 5, 3, 3], 1),
            (vec![1, 4, 4, 2], vec![3, 2, 3, 3], 0),
            (vec![1, 4, 4, 2], vec![3, 2, 9, 9], 1),
            (vec![4, 4, 2], vec![3, 2, 3, 3], 1),
        ] {
            let error = conv2d(&draw("x", x), &draw("w", w), stride, 0).unwrap_err().to_string();
            assert!(error.starts_with("conv2d: input"), "{error}");
        }
    }
}

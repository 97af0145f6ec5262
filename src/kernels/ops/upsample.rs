//! Upsampling of images to twice their size, by nearest neighbor.
//!
//! The gradient of a pixel is the sum over its four copies, row by row.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use super::storage::{lend, served, tensor_like, values};

/// Doubles height and width of `x` `(b, h, w, c)`: `(b, 2 h, 2 w, c)`.
///
/// # Errors
/// Returns an error if `x` has another number of dimensions.
pub fn upsample(x: &Tensor) -> Result<Tensor> {
    let &[samples, height, width, channels] = x.dims() else {
        bail!("upsample: input {:?} should be (b, h, w, c)", x.dims())
    };
    if served(&[x]) {
        return x.contiguous()?.apply_op1(Upsample { width, channels, samples, height });
    }
    x.reshape((samples, height, 1, width, 1, channels))?
        .broadcast_as((samples, height, 2, width, 2, channels))?
        .contiguous()?
        .reshape((samples, 2 * height, 2 * width, channels))
}

struct Upsample {
    samples: usize,
    height: usize,
    width: usize,
    channels: usize,
}

impl Upsample {
    fn forward(&self, x: &[f32]) -> Vec<f32> {
        let mut y = Vec::with_capacity(4 * x.len());
        for line in x.chunks_exact(self.width * self.channels) {
            let start = y.len();
            for pixel in line.chunks_exact(self.channels) {
                y.extend_from_slice(pixel);
                y.extend_from_slice(pixel);
            }
            y.extend_from_within(start..);
        }
        y
    }

    fn backward(&self, g: &[f32]) -> Vec<f32> {
        let (channels, wide) = (self.channels, 2 * self.width * self.channels);
        let mut gradient = Vec::with_capacity(g.len() / 4);
        for lines in g.chunks_exact(2 * wide) {
            let (upper, lower) = lines.split_at(wide);
            for (upper, lower) in
                upper.chunks_exact(2 * channels).zip(lower.chunks_exact(2 * channels))
            {
                let copies = (0..channels)
                    .map(|at| upper[at] + upper[channels + at] + lower[at] + lower[channels + at]);
                gradient.extend(copies);
            }
        }
        gradient
    }
}

impl CustomOp1 for Upsample {
    fn name(&self) -> &'static str {
        "upsample"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let y = self.forward(values(x, layout)?);
        let Upsample { samples, height, width, channels } = *self;
        Ok((CpuStorage::F32(y), (samples, 2 * height, 2 * width, channels).into()))
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        tensor_like(lend(g, |g| Ok(self.backward(g)))?, x).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agree, agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn agrees_with_the_composition_and_finite_differences() {
        let x = draw("x", (2, 3, 4, 5));
        agrees_everywhere(&[&x], |t| upsample(&t[0]));
        finite_difference(&[&x], |t| upsample(&t[0]));
    }

    #[test]
    fn it_is_candles_nearest_neighbor() {
        let x = draw("x", (2, 3, 4, 5));
        let stock = |t: &[Tensor]| {
            let x = t[0].permute((0, 3, 1, 2))?.contiguous()?;
            x.upsample_nearest2d(6, 8)?.permute((0, 2, 3, 1))?.contiguous()
        };
        agree(&[&x], |t| upsample(&t[0]), stock);
    }

    #[test]
    fn every_pixel_comes_four_times() -> Result<()> {
        let x = Var::new(&[[[[1f32], [2.0]], [[3.0], [4.0]]]], &Device::Cpu)?;
        let y = upsample(&x)?;
        let lines = y.squeeze(0)?.squeeze(2)?.to_vec2::<f32>()?;
        let (upper, lower) = ([1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0]);
        assert_eq!(lines, [upper, upper, lower, lower]);
        // Weights 0 to 15 by lines: copies of the first pixel have 0, 1, 4 and 5.
        let weights = Tensor::arange(0f32, 16.0, &Device::Cpu)?.reshape((1, 4, 4, 1))?;
        let grads = (y * weights)?.sum_all()?.backward()?;
        let gradient = grads.get(&x).expect("a gradient").flatten_all()?.to_vec1::<f32>()?;
        assert_eq!(gradient, [10.0, 18.0, 42.0, 50.0]);
        assert!(upsample(&draw("x", (2, 3))).is_err());
        Ok(())
    }
}

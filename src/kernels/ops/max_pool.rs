//! Max pooling of channels-last images, with windows that may overlap.
//!
//! candle has a gradient only for windows without overlap. As in PyTorch, padding is never the maximum, and of equal
//! values the first one in a window (row by row) gets the gradient.

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use super::conv2d::taps;
use super::storage::{lend, served, tensor_like, values};
use super::unfold::ConvolutionGeometry;
use crate::wide::each;

/// Computes the maximum over windows of `kernel x kernel` of `x` `(b, h, w, c)`.
///
/// Windows are `stride` apart, with `padding` positions beyond every edge. The result is `(b, h', w', c)`.
///
/// # Errors
/// Returns an error if the shapes do not fit, or a window could be entirely padding.
pub fn max_pool(x: &Tensor, kernel: usize, stride: usize, padding: usize) -> Result<Tensor> {
    let &[samples, height, width, channels] = x.dims() else {
        bail!("max_pool: input {:?} should be (b, h, w, c)", x.dims())
    };
    let fits = height.min(width) + 2 * padding >= kernel;
    if [kernel, stride, channels].contains(&0) || 2 * padding > kernel || !fits {
        bail!(
            "max_pool: input {:?}, kernel {kernel}, stride {stride} and padding {padding} do not fit",
            x.dims()
        );
    }
    let kernel = [kernel, kernel];
    let geometry = ConvolutionGeometry {
        samples,
        height,
        width,
        channels,
        outputs: channels,
        kernel,
        stride,
        padding,
    };
    if served(&[x]) {
        x.contiguous()?.apply_op1(MaxPool(geometry))
    } else {
        composition(x, geometry)
    }
}

/// Value below any in a network, and finite in every float type.
const LOWEST: f64 = -1e30;

/// Returns the sum over a window's positions, each times 1 at the first maximum and 0 elsewhere.
fn composition(x: &Tensor, geometry: ConvolutionGeometry) -> Result<Tensor> {
    let inside = taps(&x.detach().ones_like()?, geometry)?;
    let taps = taps(x, geometry)?;
    let mut values = Vec::with_capacity(taps.len());
    for (tap, inside) in taps.iter().zip(&inside) {
        values.push((tap.detach() + inside.affine(-LOWEST, LOWEST)?)?);
    }
    let mut largest = values[0].clone();
    for value in &values[1..] {
        largest = largest.maximum(value)?;
    }
    let mut free = largest.ones_like()?;
    let mut result: Option<Tensor> = None;
    for (tap, value) in taps.iter().zip(&values) {
        let chosen = (value.eq(&largest)?.to_dtype(free.dtype())? * &free)?;
        free = (free - &chosen)?;
        let part = (tap * chosen)?;
        result = Some(match result {
            None => part,
            Some(sum) => (sum + part)?,
        });
    }
    match result {
        Some(result) => Ok(result),
        None => bail!("max_pool: a window without places"),
    }
}

struct MaxPool(ConvolutionGeometry);

impl MaxPool {
    /// Visits every output pixel with the input pixels of its window, row by row.
    fn windows(&self, mut visit: impl FnMut(usize, &[usize])) {
        let ConvolutionGeometry {
            samples,
            height,
            width,
            kernel: [kernel, _],
            stride,
            padding,
            ..
        } = self.0;
        let [lines, places] = self.0.output();
        let range = |at: usize, size: usize| {
            (at * stride).saturating_sub(padding)..(at * stride + kernel - padding).min(size)
        };
        let mut pixels = Vec::with_capacity(kernel * kernel);
        for sample in 0..samples {
            for line in 0..lines {
                for place in 0..places {
                    pixels.clear();
                    for y in range(line, height) {
                        let from = (sample * height + y) * width;
                        pixels.extend(range(place, width).map(|x| from + x));
                    }
                    visit((sample * lines + line) * places + place, &pixels);
                }
            }
        }
    }
}

impl CustomOp1 for MaxPool {
    fn name(&self) -> &'static str {
        "max_pool"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = values(x, layout)?;
        let ConvolutionGeometry { samples, channels, .. } = self.0;
        let [lines, places] = self.0.output();
        let mut y = vec![0f32; samples * lines * places * channels];
        self.windows(|to, pixels| {
            let largest = &mut y[to * channels..][..channels];
            let (first, others) = pixels.split_first().expect("padding is at most half a window");
            largest.copy_from_slice(&x[first * channels..][..channels]);
            for from in others {
                let values = &x[from * channels..][..channels];
                // NaN is taken as the maximum, so that it is noticed.
                each(largest, values, |largest, &value| {
                    *largest = if value > *largest || value.is_nan() { value } else { *largest };
                });
            }
        });
        Ok((CpuStorage::F32(y), (samples, lines, places, channels).into()))
    }

    fn bwd(&self, x: &Tensor, result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let channels = self.0.channels;
        let gradient = lend(x, |x| {
            lend(result, |y| {
                lend(g, |g| {
                    let mut gradient = vec![0f32; x.len()];
                    self.windows(|to, pixels| {
                        for channel in 0..channels {
                            let to = to * channels + channel;
                            let mut places = pixels.iter().map(|from| from * channels + channel);
                            if let Some(first) = places.find(|from| x[*from] == y[to]) {
                                gradient[first] += g[to];
                            }
                        }
                    });
                    Ok(gradient)
                })
            })
        })?;
        tensor_like(gradient, x).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, finite_difference};
    use super::*;
    use candle_core::{Device, Var};

    /// Values of both signs that lie apart by more than a central difference moves them.
    fn apart(shape: (usize, usize, usize, usize)) -> Tensor {
        let count = shape.0 * shape.1 * shape.2 * shape.3;
        let values: Vec<f32> = (0..count).map(|i| (i * 37 % count) as f32 * 0.05 - 3.0).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    #[test]
    fn agrees_with_the_composed_and_finite_differences() {
        let x = apart((2, 5, 6, 2));
        for (kernel, stride, padding) in [(3, 2, 1), (2, 2, 0), (3, 1, 1), (2, 1, 1)] {
            agrees_everywhere(&[&x], |t| max_pool(&t[0], kernel, stride, padding));
            finite_difference(&[&x], |t| max_pool(&t[0], kernel, stride, padding));
        }
    }

    /// Counted by hand: windows overlap, the edge is no value, and one pixel may win twice.
    #[test]
    fn overlapping_windows_add_their_gradients() -> Result<()> {
        let x = [[-1f32, -2.0, -3.0, -4.0], [-5., -6., -0.5, -7.], [-8., -9., -10., -11.]];
        for without in [false, true] {
            let x = Var::from_tensor(&Tensor::new(&x, &Device::Cpu)?.reshape((1, 3, 4, 1))?)?;
            let pass = || max_pool(&x, 3, 2, 1);
            let y = if without { super::super::without_kernels(pass)? } else { pass()? };
            assert_eq!(y.dims(), [1, 2, 2, 1]);
            assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [-1.0, -0.5, -5.0, -0.5]);
            let weights = Tensor::new(&[1f32, 10.0, 100.0, 1000.0], &Device::Cpu)?;
            let grads = (y.flatten_all()? * weights)?.sum_all()?.backward()?;
            let found = grads.get(&x).unwrap().flatten_all()?.to_vec1::<f32>()?;
            let expected = [1f32, 0., 0., 0., 100., 0., 1010., 0., 0., 0., 0., 0.];
            assert_eq!(found, expected, "without kernels: {without}");
        }
        Ok(())
    }

    #[test]
    fn of_equal_values_the_first_has_the_gradient() -> Result<()> {
        for without in [false, true] {
            let x = Var::from_tensor(&Tensor::ones(
                (1, 2, 2, 1),
                candle_core::DType::F32,
                &Device::Cpu,
            )?)?;
            let pass = || max_pool(&x, 2, 2, 0);
            let y = if without { super::super::without_kernels(pass)? } else { pass()? };
            let grads = y.sum_all()?.backward()?;
            let found = grads.get(&x).unwrap().flatten_all()?.to_vec1::<f32>()?;
            assert_eq!(found, [1.0, 0.0, 0.0, 0.0]);
        }
        Ok(())
    }

    /// candle's own, which has no padding: values at the edge are repeated, which changes no maximum.
    #[test]
    fn the_values_are_candle_s() -> Result<()> {
        let x = apart((2, 7, 6, 3));
        let own = max_pool(&x, 3, 2, 1)?.permute((0, 3, 1, 2))?.flatten_all()?;
        let theirs = x.permute((0, 3, 1, 2))?.pad_with_same(2, 1, 1)?.pad_with_same(3, 1, 1)?;
        let theirs = theirs.max_pool2d_with_stride(3, 2)?.flatten_all()?;
        assert_eq!(own.to_vec1::<f32>()?, theirs.to_vec1::<f32>()?);
        Ok(())
    }

    #[test]
    fn not_a_number_passes_and_what_does_not_fit_is_refused() -> Result<()> {
        let x = Tensor::new(&[1f32, f32::NAN, 2.0, 0.0], &Device::Cpu)?.reshape((1, 2, 2, 1))?;
        let y = max_pool(&x, 2, 2, 0)?.flatten_all()?.to_vec1::<f32>()?;
        assert!(y[0].is_nan());
        for (kernel, stride, padding) in [(3, 1, 0), (2, 0, 0), (0, 1, 0), (3, 1, 2)] {
            let error = max_pool(&x, kernel, stride, padding).unwrap_err().to_string();
            assert!(error.contains("do not fit"), "{error}");
        }
        Ok(())
    }
}

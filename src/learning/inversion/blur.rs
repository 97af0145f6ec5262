//! Smoothness of images: their distance from a blurred copy.
//!
//! The kernel of 5 x 5 is a Gaussian of standard deviation `sqrt 2`: the releases square `(i - 2) / (2 sigma)` with
//! `sigma = 1` instead of halving the square. Beyond its edges the image is reflected, without repeating the edge.

use candle_core::{Result, Tensor, bail};

use crate::learning::losses::closed_form;

/// Radius of the kernel, in pixels.
const REACH: usize = 2;

/// Returns `mean (x - blur(x))^2` over all pixels and channels of `images` `(b, c, h, w)`.
///
/// # Errors
/// Returns an error if images have fewer than three rows or columns, which cannot be reflected.
pub fn smoothness(images: &Tensor) -> Result<Tensor> {
    let (_, _, height, width) = images.dims4()?;
    if height <= REACH || width <= REACH {
        bail!("smoothness: images of {height} x {width} are too small for a kernel of 5 x 5");
    }
    let (lines, columns) = (Blur::new(height), Blur::new(width));
    closed_form(images, |x| {
        let count = x.len() as f64;
        let (mut total, mut gradient) = (0.0, Vec::with_capacity(x.len()));
        for plane in x.chunks_exact(height * width) {
            let plane: Vec<f64> = plane.iter().map(|x| f64::from(*x)).collect();
            let blurred = both(&plane, &lines, &columns, Blur::of);
            let rest: Vec<f64> = plane.iter().zip(&blurred).map(|(x, blur)| x - blur).collect();
            total += rest.iter().map(|rest| rest * rest).sum::<f64>();
            let back = both(&rest, &lines, &columns, Blur::transposed);
            let slopes = rest.iter().zip(&back).map(|(rest, back)| 2.0 * (rest - back) / count);
            gradient.extend(slopes.map(|slope| slope as f32));
        }
        (total / count, gradient)
    })
}

/// Pass of the kernel along one dimension.
type BlurPass = fn(&Blur, &[f64]) -> Vec<f64>;

/// Applies a pass along the columns of a plane, then along its rows.
fn both(plane: &[f64], lines: &Blur, columns: &Blur, pass: BlurPass) -> Vec<f64> {
    let width = columns.length;
    let across: Vec<f64> = plane.chunks_exact(width).flat_map(|row| pass(columns, row)).collect();
    let mut all = vec![0.0; plane.len()];
    for column in 0..width {
        let line: Vec<f64> = across.iter().skip(column).step_by(width).copied().collect();
        for (row, value) in pass(lines, &line).into_iter().enumerate() {
            all[row * width + column] = value;
        }
    }
    all
}

/// Kernel along one dimension. The two-dimensional kernel is its product with itself.
struct Blur {
    length: usize,
    kernel: [f64; 2 * REACH + 1],
}

impl Blur {
    fn new(length: usize) -> Blur {
        let mut kernel = [0.0; 2 * REACH + 1];
        for (at, weight) in kernel.iter_mut().enumerate() {
            let distance = at as f64 - REACH as f64;
            *weight = libm::exp(-distance * distance / 4.0);
        }
        let sum: f64 = kernel.iter().sum();
        Blur { length, kernel: kernel.map(|weight| weight / sum) }
    }

    /// Returns the positions that the kernel at `at` reads, with their weights.
    fn window(&self, at: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let last = self.length as isize - 1;
        self.kernel.iter().enumerate().map(move |(offset, weight)| {
            let place = at as isize + offset as isize - REACH as isize;
            let inside = if place < 0 { -place } else { place.min(2 * last - place) };
            (inside as usize, *weight)
        })
    }

    fn of(&self, line: &[f64]) -> Vec<f64> {
        let value = |at| self.window(at).map(|(place, weight)| weight * line[place]).sum();
        (0..self.length).map(value).collect()
    }

    fn transposed(&self, line: &[f64]) -> Vec<f64> {
        let mut back = vec![0.0; self.length];
        for (at, value) in line.iter().enumerate() {
            self.window(at).for_each(|(place, weight)| back[place] += weight * value);
        }
        back
    }
}

/// Returns the two-dimensional kernel, row by row.
#[cfg(test)]
pub(super) fn kernel() -> Vec<f64> {
    let Blur { kernel, .. } = Blur::new(9);
    kernel.iter().flat_map(|line| kernel.map(|column| line * column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn the_kernel_is_a_gaussian_of_variance_two() {
        let kernel = kernel();
        assert!((kernel.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // One step aside exp(-1/4), two steps exp(-1): of a variance of 1 these would be exp(-1/2) and exp(-2).
        assert!((kernel[13] / kernel[12] - (-0.25f64).exp()).abs() < 1e-12);
        assert!((kernel[14] / kernel[12] - (-1f64).exp()).abs() < 1e-12);
        assert!((kernel[0] / kernel[12] - (-2f64).exp()).abs() < 1e-12);
    }

    #[test]
    fn edges_are_reflected_without_repetition() {
        let places = |at| Blur::new(6).window(at).map(|(place, _)| place).collect::<Vec<_>>();
        assert_eq!(places(0), [2, 1, 0, 1, 2]);
        assert_eq!(places(1), [1, 0, 1, 2, 3]);
        assert_eq!(places(3), [1, 2, 3, 4, 5]);
        assert_eq!(places(5), [3, 4, 5, 4, 3]);
    }

    #[test]
    fn a_flat_image_is_smooth_and_a_pixel_is_not() -> Result<()> {
        let flat = Tensor::full(3f32, (2, 3, 5, 4), &Device::Cpu)?;
        assert!(smoothness(&flat)?.to_scalar::<f32>()? < 1e-12);
        let mut values = vec![0f32; 81];
        values[40] = 1.0;
        let pixel = Tensor::from_vec(values, (1, 1, 9, 9), &Device::Cpu)?;
        // Far from the edges: the pixel without its own weight, and what it gives to others.
        let (all, own) = (kernel().iter().map(|w| w * w).sum::<f64>(), kernel()[12]);
        let wanted = (all - own * own + (1.0 - own) * (1.0 - own)) / 81.0;
        let got = f64::from(smoothness(&pixel)?.to_scalar::<f32>()?);
        assert!((got - wanted).abs() < 1e-8, "{got} {wanted}");
        assert!(smoothness(&Tensor::full(3f32, (1, 1, 2, 4), &Device::Cpu)?).is_err());
        Ok(())
    }

    #[test]
    fn the_gradient_is_the_slope() -> Result<()> {
        let values: Vec<f32> = (0..40).map(|i| (i as f32 * 0.7).sin()).collect();
        let of = |values: &[f32]| Tensor::from_slice(values, (1, 2, 5, 4), &Device::Cpu);
        let x = Var::from_tensor(&of(&values)?)?;
        let slopes = smoothness(&x)?.backward()?.get(&x).expect("a gradient").flatten_all()?;
        for (at, slope) in slopes.to_vec1::<f32>()?.into_iter().enumerate() {
            let moved = |by: f32| -> Result<f32> {
                let mut values = values.clone();
                values[at] += by;
                smoothness(&of(&values)?)?.to_scalar()
            };
            let difference = (moved(0.1)? - moved(-0.1)?) / 0.2;
            assert!((slope - difference).abs() < 1e-5, "{at}: {slope} {difference}");
        }
        Ok(())
    }
}

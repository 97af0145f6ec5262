//! Similarity of two images: PSNR and SSIM.

/// Returns the peak signal-to-noise ratio of two images in `[0, 1]`, in dB; infinite if they are equal.
pub fn psnr(found: &[f32], original: &[f32]) -> f64 {
    let squares = found.iter().zip(original).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
    let error = squares.sum::<f64>() / original.len().max(1) as f64;
    -10.0 * libm::log10(error)
}

/// Standard deviation of the Gaussian window, in pixels.
const SIGMA: f64 = 1.5;

/// Largest radius of a window, in pixels.
const RADIUS: usize = 5;

/// Returns the structural similarity (SSIM) of two images of `[channels, height, width]` in `[0, 1]`.
///
/// It is the mean over channels and windows.
/// Windows are Gaussian with a deviation of 1.5 pixels and 11 pixels on a side, fewer in smaller images; only windows
/// inside the image count. Source: Wang et al., "Image Quality Assessment: From Error Visibility to Structural
/// Similarity", IEEE TIP 2004, equation 13.
pub fn ssim(found: &[f32], original: &[f32], [channels, height, width]: [usize; 3]) -> f64 {
    let radius = RADIUS.min((height.min(width).saturating_sub(1)) / 2);
    let line: Vec<f64> = (0..=2 * radius)
        .map(|at| libm::exp(-0.5 * ((at as f64 - radius as f64) / SIGMA).powi(2)))
        .collect();
    let total: f64 = line.iter().sum();
    let line: Vec<f64> = line.into_iter().map(|weight| weight / total).collect();
    let (side, plane) = (2 * radius + 1, height * width);
    let (mut sum, mut windows) = (0.0, 0usize);
    for channel in 0..channels {
        let [a, b] = [found, original].map(|image| &image[channel * plane..(channel + 1) * plane]);
        for top in 0..=height - side {
            for left in 0..=width - side {
                let mut moments = WindowMoments::default();
                for (row, down) in line.iter().enumerate() {
                    let at = (top + row) * width + left;
                    for (column, across) in line.iter().enumerate() {
                        let pixel = |image: &[f32]| f64::from(image[at + column]);
                        moments.add(down * across, pixel(a), pixel(b));
                    }
                }
                sum += moments.likeness();
                windows += 1;
            }
        }
    }
    sum / windows.max(1) as f64
}

/// Weighted moments of a window in both images.
#[derive(Clone, Copy, Debug, Default)]
struct WindowMoments {
    means: [f64; 2],
    squares: [f64; 2],
    product: f64,
}

impl WindowMoments {
    fn add(&mut self, weight: f64, a: f64, b: f64) {
        for (at, value) in [a, b].into_iter().enumerate() {
            self.means[at] += weight * value;
            self.squares[at] += weight * value * value;
        }
        self.product += weight * a * b;
    }

    fn likeness(self) -> f64 {
        let (luminance, contrast) = (0.01f64.powi(2), 0.03f64.powi(2));
        let [a, b] = self.means;
        let variances = self.squares[0] - a * a + self.squares[1] - b * b;
        let covariance = self.product - a * b;
        let above = (2.0 * a * b + luminance) * (2.0 * covariance + contrast);
        above / ((a * a + b * b + luminance) * (variances + contrast))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two waves of three channels; those of scikit-image's numbers.
    fn waves(height: usize, width: usize) -> [Vec<f32>; 2] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for channel in 0..3 {
            for y in 0..height {
                for x in 0..width {
                    let (x, y) = (x as f64, y as f64);
                    let at = 0.7 * x + 0.3 * y * f64::from(channel + 1);
                    a.push((0.5 + 0.4 * at.sin()) as f32);
                    b.push((0.5 + 0.4 * (at + 0.5).sin() * (0.2 * x).cos()) as f32);
                }
            }
        }
        [a, b]
    }

    /// Numbers of scikit-image 0.25 with Gaussian windows of 1.5 pixels and population covariances.
    #[test]
    fn likenesses_are_those_of_scikit_image() {
        let [a, b] = waves(12, 14);
        assert!((psnr(&a, &b) - 10.553_589_597_832_86).abs() < 1e-5, "{}", psnr(&a, &b));
        let found = ssim(&a, &b, [3, 12, 14]);
        assert!((found - 0.313_629_963_729_360_53).abs() < 1e-5, "{found}");
        assert_eq!((ssim(&a, &a, [3, 12, 14]) * 1e9).round(), 1e9);
        assert_eq!(psnr(&a, &a), f64::INFINITY);
    }

    #[test]
    fn small_images_have_smaller_windows() {
        let [a, b] = waves(8, 8);
        let found = ssim(&a, &b, [3, 8, 8]);
        // By NumPy: Gaussian windows of 7 pixels.
        assert!((found - 0.777_105_173_459_938).abs() < 1e-5, "{found}");
        assert!(ssim(&[0.2], &[0.8], [1, 1, 1]) < 1.0);
    }
}

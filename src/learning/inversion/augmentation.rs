//! Random crops and flips of a batch that pass gradients.

use candle_core::{DType, Result, Tensor};

use crate::numerics::distributions::{below, chance};
use crate::numerics::streams::StreamKey;

/// Random crop of an image padded with zeros, at its original size, with an optional horizontal flip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CropFlip {
    /// Zeros on each side.
    pub padding: usize,
    /// Probability of a horizontal flip.
    pub flip: f64,
}

/// Window of a sample, possibly flipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CropWindow {
    /// First row in the padded image.
    pub top: usize,
    /// First column in the padded image.
    pub left: usize,
    /// True if the window is flipped after the crop.
    pub flipped: bool,
}

impl CropFlip {
    /// Draws a window for each of `count` samples, all from the stream at `key`.
    pub fn windows(&self, count: usize, key: StreamKey) -> Vec<CropWindow> {
        let mut rng = key.rng();
        let mut place = || below(&mut rng, 2 * self.padding as u64 + 1) as usize;
        let places: Vec<(usize, usize)> = (0..count).map(|_| (place(), place())).collect();
        let window = |(top, left)| CropWindow { top, left, flipped: chance(&mut rng, self.flip) };
        places.into_iter().map(window).collect()
    }

    /// Crops `images` `(b, c, h, w)` to these windows, one per sample.
    ///
    /// # Errors
    /// Returns an error if there are not as many windows as images.
    pub fn apply(&self, images: &Tensor, windows: &[CropWindow]) -> Result<Tensor> {
        let (batch, channels, height, width) = images.dims4()?;
        if windows.len() != batch {
            candle_core::bail!("{} windows for {batch} images", windows.len());
        }
        let size = channels * height * width;
        let mut places = Vec::with_capacity(batch * size);
        for CropWindow { top, left, flipped } in windows {
            for channel in 0..channels {
                for row in 0..height {
                    for column in 0..width {
                        let column = if *flipped { width - 1 - column } else { column };
                        let inside = |at: usize, limit: usize| {
                            at.checked_sub(self.padding).filter(|at| *at < limit)
                        };
                        let place = inside(top + row, height).zip(inside(left + column, width));
                        // Positions outside the image read a zero that is appended to the pixels of a sample.
                        places.push(
                            place.map_or(size, |(row, column)| {
                                (channel * height + row) * width + column
                            }) as u32,
                        );
                    }
                }
            }
        }
        let zeros = Tensor::zeros((batch, 1), DType::F32, images.device())?;
        let pixels = Tensor::cat(&[&images.reshape((batch, size))?, &zeros], 1)?.contiguous()?;
        let places = Tensor::from_vec(places, (batch, size), images.device())?;
        pixels.gather(&places, 1)?.reshape((batch, channels, height, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;
    use candle_core::{Device, Var};

    const CROP: CropFlip = CropFlip { padding: 1, flip: 0.5 };

    fn window(top: usize, left: usize, flipped: bool) -> CropWindow {
        CropWindow { top, left, flipped }
    }

    #[test]
    fn windows_are_cut_from_zeros_and_then_mirrored() -> Result<()> {
        let pixels: Vec<f32> = (1..=27).map(|v| v as f32).collect();
        let images = Tensor::from_vec(pixels, (3, 1, 3, 3), &Device::Cpu)?;
        let windows = [window(1, 1, false), window(0, 2, false), window(2, 0, true)];
        let cut = CROP.apply(&images, &windows)?.flatten_all()?.to_vec1::<f32>()?;
        assert_eq!(cut[..9], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(cut[9..18], [0.0, 0.0, 0.0, 11.0, 12.0, 0.0, 14.0, 15.0, 0.0]);
        assert_eq!(cut[18..], [23.0, 22.0, 0.0, 26.0, 25.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(CROP.apply(&images, &windows[..2]).is_err());
        Ok(())
    }

    /// Every pixel gets the gradient of the place to which it went, and one that was cut off none.
    #[test]
    fn gradients_go_back_to_their_pixels() -> Result<()> {
        let images = Var::zeros((1, 2, 2, 2), DType::F32, &Device::Cpu)?;
        let weights: Vec<f32> = (1..=8).map(|v| v as f32).collect();
        let weights = Tensor::from_vec(weights, (1, 2, 2, 2), &Device::Cpu)?;
        let cut = CROP.apply(&images, &[window(1, 0, true)])?;
        let gradients = (cut * weights)?.sum_all()?.backward()?;
        let slope = gradients.get(&images).expect("a gradient").flatten_all()?;
        // The left column stands right before the mirror and so left behind it.
        assert_eq!(slope.to_vec1::<f32>()?, [1.0, 0.0, 3.0, 0.0, 5.0, 0.0, 7.0, 0.0]);
        Ok(())
    }

    #[test]
    fn draws_are_even_and_repeat() {
        let key = StreamKey::new(1, Domain::Method);
        let drawn = CROP.windows(900, key);
        assert_eq!(drawn, CROP.windows(900, key));
        assert_ne!(drawn, CROP.windows(900, key.step(1)));
        for at in 0..3 {
            let count = |of: fn(&CropWindow) -> usize| drawn.iter().filter(|w| of(w) == at).count();
            assert!((240..360).contains(&count(|w| w.top)));
            assert!((240..360).contains(&count(|w| w.left)));
        }
        assert!((380..520).contains(&drawn.iter().filter(|w| w.flipped).count()));
        let never = CropFlip { padding: 0, flip: 0.0 }.windows(9, key);
        assert!(never.iter().all(|w| *w == CropWindow::default()));
    }
}

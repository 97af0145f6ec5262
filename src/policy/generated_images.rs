//! Images that a server makes without data, as a user looks at them.

use candle_core::Tensor;

use super::{PolicyError, RunContext};
use crate::data::{Normalization, TaskView};
use crate::numerics::streams::{Domain, StreamKey};

/// Request for a number of generated images.
#[derive(Clone, Copy)]
pub struct ImageRequest<'a> {
    /// View of the task that has ended: its rows and all before have been trained.
    pub view: &'a TaskView,
    /// Number of images.
    pub count: usize,
    /// The run's data, network and device.
    pub ctx: &'a RunContext,
}

impl ImageRequest<'_> {
    /// Returns the stream key of noise, which is equal for all runs.
    ///
    /// So a generator always gives the same images.
    pub fn key(&self) -> StreamKey {
        StreamKey::new(0, Domain::Method).named("pictures")
    }

    /// Returns one head row per image, taking all rows seen in turn.
    pub fn labels(&self) -> Vec<u32> {
        (0..self.view.seen() as u32).cycle().take(self.count).collect()
    }
}

/// Images of one size, of values in `[0, 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedImages {
    /// Shape `[channels, height, width]` of every image.
    pub shape: [usize; 3],
    /// Values in channel, row, column order, image by image.
    pub pixels: Vec<f32>,
}

impl GeneratedImages {
    /// Returns images `(n, channels, height, width)` that are normalized as samples are.
    ///
    /// Values beyond black and white are cut off.
    ///
    /// # Errors
    /// Returns an error if the tensor has other dimensions, the normalization is of another number of channels, or the
    /// device fails.
    pub fn normalized(
        images: &Tensor,
        normalization: &Normalization,
    ) -> Result<GeneratedImages, PolicyError> {
        let (_, channels, height, width) = images.dims4()?;
        let mut pixels = normalization.restored(images)?.flatten_all()?.to_vec1::<f32>()?;
        pixels.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
        Ok(GeneratedImages { shape: [channels, height, width], pixels })
    }

    /// Returns at most `count` of the images that `bytes` hold, spread evenly over them.
    pub fn spread(shape: [usize; 3], bytes: &[u8], count: usize) -> GeneratedImages {
        let size = shape.iter().product::<usize>().max(1);
        let known = bytes.len() / size;
        let shown = count.min(known);
        let image = |place: usize| {
            let at = place * known / shown * size;
            bytes[at..at + size].iter().map(|byte| f32::from(*byte) / 255.0)
        };
        GeneratedImages { shape, pixels: (0..shown).flat_map(image).collect() }
    }

    /// Returns the images one by one.
    pub fn images(&self) -> impl Iterator<Item = &[f32]> {
        self.pixels.chunks_exact(self.shape.iter().product::<usize>().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn every_channel_is_scaled_back_by_its_own_moments() {
        let values = [0.0f32, 1.0, 9.0, 0.0, -1.0, -9.0, 1.0, 0.5];
        let images = Tensor::from_slice(&values, (2, 2, 1, 2), &Device::Cpu).unwrap();
        let normalization =
            Normalization::Explicit { mean: vec![0.25, 0.5], deviation: vec![0.25, 0.125] };
        let found = GeneratedImages::normalized(&images, &normalization).unwrap();
        assert_eq!(found.shape, [2, 1, 2]);
        assert_eq!(found.pixels, [0.25, 0.5, 1.0, 0.5, 0.0, 0.0, 0.625, 0.5625]);
        assert_eq!(found.images().nth(1), Some(&found.pixels[4..]));
    }

    #[test]
    fn a_few_images_stand_for_all_batches() {
        let bytes: Vec<u8> = (0..10).flat_map(|image| [image * 25, 255]).collect();
        let found = GeneratedImages::spread([1, 1, 2], &bytes, 4);
        let first = |image: &[f32]| (image[0] * 255.0 / 25.0).round() as u32;
        assert_eq!(found.images().map(first).collect::<Vec<_>>(), [0, 2, 5, 7]);
        assert!(found.images().all(|image| image[1] == 1.0));
        assert_eq!(GeneratedImages::spread([1, 1, 2], &bytes, 99).images().count(), 10);
        assert_eq!(GeneratedImages::spread([1, 1, 2], &[], 4).images().count(), 0);
    }
}

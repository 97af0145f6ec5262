//! Normalization of channels by the mean and standard deviation that a backbone was trained with.

use candle_core::{Device, Tensor};

use crate::data::DataError;

/// Normalization per channel, `(value - mean) / deviation`, of values in `[0, 1]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Normalization {
    /// Values stay in `[0, 1]`.
    #[default]
    None,
    /// Mean and standard deviation 0.5, so values in `[-1, 1]` (ViTs of the `augreg` family).
    Half,
    /// The ImageNet statistics (torchvision's networks).
    ImageNet,
    /// The statistics of CLIP's training set.
    Clip,
    /// The statistics of CIFAR-100's training split.
    Cifar100,
    /// Any other statistics: one entry per channel, or one for all.
    Explicit {
        /// Means, in units of values in `[0, 1]`.
        mean: Vec<f32>,
        /// Standard deviations, positive.
        deviation: Vec<f32>,
    },
}

impl Normalization {
    /// Returns mean and standard deviation of every channel.
    ///
    /// # Errors
    /// Returns an error if the normalization has another number of channels.
    pub fn channels(&self, channels: usize) -> Result<Vec<(f32, f32)>, DataError> {
        let per_channel = |mean: &[f32], deviation: &[f32]| {
            let one_for_all = mean.len() == 1 && deviation.len() == 1;
            let fits = mean.len() == channels && deviation.len() == channels;
            let at = |c: usize| if one_for_all { 0 } else { c };
            (one_for_all || fits)
                .then(|| (0..channels).map(|c| (mean[at(c)], deviation[at(c)])).collect())
        };
        let moments = match self {
            Normalization::None => per_channel(&[0.0], &[1.0]),
            Normalization::Half => per_channel(&[0.5], &[0.5]),
            Normalization::ImageNet => per_channel(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225]),
            Normalization::Clip => per_channel(
                &[0.481_454_66, 0.457_827_5, 0.408_210_73],
                &[0.268_629_54, 0.261_302_6, 0.275_777_1],
            ),
            Normalization::Cifar100 => {
                per_channel(&[0.5071, 0.4865, 0.4409], &[0.2673, 0.2564, 0.2762])
            }
            Normalization::Explicit { mean, deviation } => per_channel(mean, deviation),
        };
        moments.ok_or_else(|| {
            DataError::unfit(
                format!("this normalization does not fit images of {channels} channels"),
                "use \"half\" or \"none\", one mean and standard deviation for all channels, or one per channel",
            )
        })
    }

    /// Normalizes images `(n, channels, height, width)` of values in `[0, 1]`.
    ///
    /// # Errors
    /// Returns an error if the normalization has another number of channels, or the device fails.
    pub fn normalized(&self, images: &Tensor) -> Result<Tensor, DataError> {
        Ok(self.moments_of(images)?.normalized(images)?)
    }

    /// Reverts [`normalized`](Normalization::normalized): returns images with values in `[0, 1]`.
    ///
    /// # Errors
    /// Returns an error if the normalization has another number of channels, or the device fails.
    pub fn restored(&self, images: &Tensor) -> Result<Tensor, DataError> {
        Ok(self.moments_of(images)?.restored(images)?)
    }

    fn moments_of(&self, images: &Tensor) -> Result<ChannelScales, DataError> {
        let (_, channels, _, _) = images.dims4()?;
        Ok(ChannelScales::new(&self.channels(channels)?, images.device())?)
    }
}

/// Means and standard deviations of channels on a device.
pub(crate) struct ChannelScales {
    /// Means `(1, channels, 1, 1)`; deviations have the same shape.
    mean: Tensor,
    deviation: Tensor,
}

impl ChannelScales {
    /// Moves the mean and standard deviation of every channel to a device.
    pub fn new(channels: &[(f32, f32)], device: &Device) -> candle_core::Result<ChannelScales> {
        let on_device =
            |values: Vec<f32>| Tensor::from_vec(values, (1, channels.len(), 1, 1), device);
        let (mean, deviation) = channels.iter().copied().unzip();
        Ok(ChannelScales { mean: on_device(mean)?, deviation: on_device(deviation)? })
    }

    /// Returns `(x - mean) / deviation` of images `(n, channels, height, width)`.
    pub fn normalized(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        images.broadcast_sub(&self.mean)?.broadcast_div(&self.deviation)
    }

    /// Returns `x * deviation + mean`.
    fn restored(&self, images: &Tensor) -> candle_core::Result<Tensor> {
        images.broadcast_mul(&self.deviation)?.broadcast_add(&self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_images_are_those_before_normalization() {
        let images = [0.0f32, 1.0, 0.5, 0.25, 1.0, 0.0, 0.5, 0.75];
        let images = Tensor::from_slice(&images, (2, 2, 1, 2), &Device::Cpu).unwrap();
        let normalization =
            Normalization::Explicit { mean: vec![0.25, 0.5], deviation: vec![0.25, 0.125] };
        let normalized = normalization.normalized(&images).unwrap();
        let values = |images: &Tensor| images.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(values(&normalized), [-1.0, 3.0, 0.0, -2.0, 3.0, -1.0, 0.0, 2.0]);
        assert_eq!(values(&normalization.restored(&normalized).unwrap()), values(&images));
        let problem = Normalization::Cifar100.restored(&images).unwrap_err().to_string();
        assert!(problem.contains("does not fit images of 2 channels"), "{problem}");
    }
}

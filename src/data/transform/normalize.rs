//! Mean and deviation per channel that a backbone was trained with.

/// `(value - mean) / deviation`, per channel, of values in `[0, 1]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Normalization {
    /// Values stay in `[0, 1]`.
    #[default]
    None,
    /// Mean and deviation 0.5: values in `[-1, 1]` (ViTs of the `augreg` family).
    Half,
    /// The ImageNet statistics (torchvision's networks).
    ImageNet,
    /// The statistics of CLIP's training set.
    Clip,
    /// The statistics of CIFAR-100's training split.
    Cifar100,
    /// Any other: one entry per channel, or one for all.
    Explicit {
        /// Means, in units of values in `[0, 1]`.
        mean: Vec<f32>,
        /// Deviations, positive.
        deviation: Vec<f32>,
    },
}

impl Normalization {
    /// `(mean, deviation)` of every channel; `None` when the numbers are not for this many.
    pub fn channels(&self, channels: usize) -> Option<Vec<(f32, f32)>> {
        let per_channel = |mean: &[f32], deviation: &[f32]| {
            let one_for_all = mean.len() == 1 && deviation.len() == 1;
            let fits = mean.len() == channels && deviation.len() == channels;
            let at = |c: usize| if one_for_all { 0 } else { c };
            (one_for_all || fits)
                .then(|| (0..channels).map(|c| (mean[at(c)], deviation[at(c)])).collect())
        };
        match self {
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
        }
    }
}

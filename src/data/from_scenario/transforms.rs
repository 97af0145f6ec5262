//! Transforms of a scenario.

use std::sync::Arc;

use crate::data::{Jitter, Normalization, Step, Transform};
use crate::scenario::{
    Crop, DataSection, JitterSection, Normalize, StatisticsTransform, TransformSection,
};

/// The three pipelines of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Transforms {
    /// Transform of training images during local training.
    pub train: Arc<Transform>,
    /// Transform of images during evaluation.
    pub test: Arc<Transform>,
    /// Transform of training images when statistics of them are computed.
    pub statistics: Arc<Transform>,
}

impl Transforms {
    /// Returns the pipelines of `[data]`. `channels` is the number that the backbone reads, to which gray images are
    /// repeated; `None` leaves them as they are.
    pub fn from_scenario(section: &DataSection, channels: Option<usize>) -> Transforms {
        let train = Arc::new(Transform::from_scenario(&section.train, channels));
        let test = Arc::new(Transform::from_scenario(&section.test, channels));
        let statistics = match section.statistics {
            StatisticsTransform::Test => Arc::clone(&test),
            StatisticsTransform::Train => Arc::clone(&train),
            StatisticsTransform::Raw => Arc::new(raw(&section.test, channels)),
        };
        Transforms { train, test, statistics }
    }
}

/// Returns the transform to the section's final size, in `[0, 1]`, without crops or augmentation.
fn raw(section: &TransformSection, channels: Option<usize>) -> Transform {
    let kernel = section.interpolation;
    let cropped = section.size.filter(|_| section.crop != Crop::None);
    let mut steps = Vec::new();
    if let Some(side) = section.squash {
        let side = cropped.unwrap_or(side) as usize;
        steps.push(Step::Squash { side, kernel });
    } else if let Some(side) = cropped.or(section.resize) {
        steps.push(Step::Resize { side: side as usize, kernel });
    }
    if let Some(side) = cropped {
        steps.push(Step::CenterCrop { side: side as usize });
    }
    Transform { steps, normalization: Normalization::None, channels }
}

impl Transform {
    /// Returns the pipeline of one section: resize, crop, flip, jitter, normalize.
    pub fn from_scenario(section: &TransformSection, channels: Option<usize>) -> Transform {
        let kernel = section.interpolation;
        let mut steps = Vec::new();
        if let Some(side) = section.resize {
            steps.push(Step::Resize { side: side as usize, kernel });
        }
        if let Some(side) = section.squash {
            steps.push(Step::Squash { side: side as usize, kernel });
        }
        if let Some(side) = section.size {
            let side = side as usize;
            match section.crop {
                Crop::None => {}
                Crop::Center => steps.push(Step::CenterCrop { side }),
                Crop::Random => {
                    steps.push(Step::RandomCrop { side, padding: section.padding as usize });
                }
                Crop::RandomResized => steps.push(Step::RandomResizedCrop {
                    side,
                    scale: section.scale,
                    ratio: section.ratio,
                    kernel,
                }),
            }
        }
        if section.flip > 0.0 {
            steps.push(Step::Flip { probability: section.flip });
        }
        if let Some(JitterSection { brightness, contrast, saturation }) = section.jitter {
            steps.push(Step::Jitter(Jitter { brightness, contrast, saturation }));
        }
        let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect();
        let normalization = match &section.normalize {
            Normalize::None => Normalization::None,
            Normalize::Half => Normalization::Half,
            Normalize::Imagenet => Normalization::ImageNet,
            Normalize::Clip => Normalization::Clip,
            Normalize::Cifar => Normalization::Cifar100,
            Normalize::Explicit { mean, std } => {
                Normalization::Explicit { mean: narrow(mean), deviation: narrow(std) }
            }
        };
        Transform { steps, normalization, channels }
    }
}

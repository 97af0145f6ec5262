//! `[data.train]` and `[data.test]` as pixel pipelines.

use crate::data::{Kernel, Normalisation, Step, Transform};
use crate::scenario::{
    Crop, DataSection, Interpolation, Normalise, StatisticsTransform, TransformSection,
};

/// The pipeline of a section, for a backbone with so many input channels.
pub fn transform(section: &TransformSection, channels: usize) -> Transform {
    let kernel = kernel(section.interpolation);
    let mut steps = Vec::new();
    if let Some(side) = section.resize {
        steps.push(Step::Resize { side: side as usize, kernel });
    }
    let side = section.size.unwrap_or_default() as usize;
    match section.crop {
        Crop::None => {}
        Crop::Centre => steps.push(Step::CentreCrop { side }),
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
    if section.flip > 0.0 {
        steps.push(Step::Flip { probability: section.flip });
    }
    Transform { steps, normalise: normalisation(&section.normalise), channels: Some(channels) }
}

/// The pipeline of passes that only measure training images.
pub fn statistics(data: &DataSection, channels: usize) -> Transform {
    match data.statistics {
        StatisticsTransform::Test => transform(&data.test, channels),
        StatisticsTransform::Train => transform(&data.train, channels),
        StatisticsTransform::Raw => {
            Transform { normalise: Normalisation::None, ..transform(&data.test, channels) }
        }
    }
}

/// The pipeline of training images: that of `[data.test]` where augmentation is off.
pub fn training(data: &DataSection, augment: bool, channels: usize) -> Transform {
    transform(if augment { &data.train } else { &data.test }, channels)
}

fn kernel(interpolation: Interpolation) -> Kernel {
    match interpolation {
        Interpolation::Bicubic => Kernel::Pillow,
        Interpolation::BicubicTorch => Kernel::Torch,
        Interpolation::BicubicAntialias => Kernel::Antialias,
    }
}

fn normalisation(normalise: &Normalise) -> Normalisation {
    let floats = |values: &[f64]| values.iter().map(|value| *value as f32).collect();
    match normalise {
        Normalise::None => Normalisation::None,
        Normalise::Half => Normalisation::Half,
        Normalise::Imagenet => Normalisation::ImageNet,
        Normalise::Clip => Normalisation::Clip,
        Normalise::Cifar => Normalisation::Cifar100,
        Normalise::Explicit { mean, std } => {
            Normalisation::Explicit { mean: floats(mean), deviation: floats(std) }
        }
    }
}

//! `[data]`: which images, where they lie, and what the network sees of them.

use std::path::PathBuf;

use serde::Serialize;

use super::TransformSection;

/// Which images, and their transforms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSection {
    /// The data set or its layout on disk. Required.
    pub source: DataSource,
    /// Folder or `.tar.gz`; none for the embedded digits. Absolute in memory; relative to the
    /// scenario file on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Keeps only the first so many training samples of every class. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<u32>,
    /// Pixels of both sides that every image of a folder is first resized to. Default 224,
    /// as the HGP benchmark's loader does.
    pub store: u32,
    /// Sizes to plan with while the data is absent. Known for digits and CIFAR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<NominalSizes>,
    /// What is done to a training image.
    pub train: TransformSection,
    /// What is done to a test image.
    pub test: TransformSection,
    /// What is done to training images when features are only measured. Default `test`.
    pub statistics: StatisticsTransform,
}

/// A data set or a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataSource {
    /// The embedded handwritten digits: 10 classes, 8x8 grey pixels.
    Digits,
    /// CIFAR-10 in the official binary layout.
    Cifar10,
    /// CIFAR-100 in the official binary layout.
    Cifar100,
    /// `train/CLASS/*` and `test/CLASS/*`, png or jpg.
    Folder,
}

/// Sizes of a data set as published: numbers to plan with, spread evenly over classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NominalSizes {
    /// Classes.
    pub classes: u32,
    /// Training samples of all classes together.
    pub train: u32,
    /// Test samples of all classes together.
    pub test: u32,
}

/// Which transform statistics passes (prototypes, Gaussians, Grams) use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatisticsTransform {
    /// That of `[data.test]`.
    Test,
    /// That of `[data.train]`, with its draws.
    Train,
    /// Values in `[0, 1]`, neither augmented nor normalised, at the size of `[data.test]`
    /// (what the public code of HGP does).
    Raw,
}

impl DataSection {
    /// Sizes to plan with: those given, or those known of the source.
    pub fn sizes(&self) -> Option<NominalSizes> {
        let known = match self.source {
            DataSource::Digits => Some((10, 1433, 364)),
            DataSource::Cifar10 => Some((10, 50_000, 10_000)),
            DataSource::Cifar100 => Some((100, 50_000, 10_000)),
            DataSource::Folder => None,
        };
        let known = known.map(|(classes, train, test)| NominalSizes { classes, train, test });
        let sizes = self.nominal.or(known)?;
        let train = self.subset.map_or(sizes.train, |most| sizes.train.min(most * sizes.classes));
        Some(NominalSizes { train, ..sizes })
    }
}

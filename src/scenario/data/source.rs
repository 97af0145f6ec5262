//! `data.source`: data sets and layouts.

use clap::ValueEnum;
use serde::Serialize;

use crate::scenario::reader::Choice;

/// Data set or layout of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum DataSource {
    /// Embedded handwritten digits: 10 classes, 8x8 gray pixels.
    Digits,
    /// CIFAR-10 in the official binary or Python layout, folder or .tar.gz.
    Cifar10,
    /// CIFAR-100 in the official binary or Python layout, folder or .tar.gz.
    Cifar100,
    /// Image files: `train/CLASS/*` and `test/CLASS/*`, Tiny-ImageNet, CUB, DomainNet, or without a split.
    Folder,
    /// IDX files of MNIST and its family, gzipped or not: 28x28 gray pixels.
    Idx,
    /// Images in Parquet files, as on the Hugging Face hub, or in a folder of `save_to_disk`.
    Parquet,
    /// Images in NumPy's arrays, of bytes or floats: .npz, or folders of .npy.
    Arrays,
    /// Rows of numbers, such as features: .npz, .npy, .parquet, .csv, or a folder of `save_to_disk`.
    Table,
    /// Rows of numbers drawn from one Gaussian per class, of any size; needs no file.
    Synthetic,
    /// LEAF's JSON files of users and their images (FEMNIST): 28x28 gray pixels.
    Leaf,
    /// Play as plain text, with the lines of speakers under their names.
    Play,
}

impl DataSource {
    /// Returns true if samples are rows of numbers, without pixels.
    pub fn is_rows(self) -> bool {
        matches!(self, DataSource::Table | DataSource::Synthetic)
    }

    /// Returns true if the data are part of the program, and so have no path.
    pub fn is_built_in(self) -> bool {
        matches!(self, DataSource::Digits | DataSource::Synthetic)
    }

    /// Describes the content of the path.
    pub(super) fn place(self) -> &'static str {
        match self {
            DataSource::Play => "the text",
            DataSource::Cifar10 | DataSource::Cifar100 => "the folder or the .tar.gz",
            DataSource::Table | DataSource::Arrays => {
                "the file, or the folder of train and test files"
            }
            _ => "the folder",
        }
    }
}

//! `[data]`: data set, its place, and the transforms of its samples.

mod columns;
mod held_out;
mod orientation;
mod source;
mod synthetic;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Serialize, Serializer};

pub use columns::ABOVE;
pub(super) use columns::DataColumns;
pub use held_out::{Evaluated, HeldOut};
pub use orientation::Orientation;
pub use source::DataSource;
pub use synthetic::SyntheticSection;

use super::reader::{Choice, Keys, Param, TableReader};
use super::{
    AuxiliarySection, FolderLayout, SplitSection, StoredSize, TestFraction, TextSection,
    TransformSection,
};
use crate::fetch::{Name, entry};
use crate::numerics::share::floor;

/// Data set and the transforms of its samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSection {
    /// Data set or its layout on disk. Required.
    pub source: DataSource,
    /// Folder, `.tar.gz` or text. None for the embedded digits and for sets that were fetched by the name of the
    /// source. Absolute in memory; relative to the scenario file on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Largest number of training samples per class; the first ones are kept. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<u32>,
    /// Largest number of test samples per class; the first ones are kept. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_subset: Option<u32>,
    /// Fraction of every class's training samples, after `subset`, that is held out. `seed.partition` draws them; they
    /// serve to choose hyperparameters. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_fraction: Option<f64>,
    /// Samples on which accuracies are measured. Default `test`.
    #[serde(skip_serializing_if = "Evaluated::is_test")]
    pub evaluate: Evaluated,
    /// Size to which images of a folder are first resized. Default `224`, a square, as in the loader of the HGP
    /// benchmark.
    pub stored_size: StoredSize,
    /// Treatment of the orientation that cameras note in image files. Default: that of the source's usual reader,
    /// `exif` for `parquet` and `ignored` for `folder`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orientation: Option<Orientation>,
    /// Test part of data without a test split: `test_fraction` and its keys in a file.
    #[serde(flatten)]
    pub test_fraction: Option<TestFraction>,
    /// Layout of a folder that neither `split` nor `client` describes. Default `classes`.
    #[serde(skip_serializing_if = "FolderLayout::is_classes")]
    pub layout: FolderLayout,
    /// Numbers per row of a table. Required for tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Channels, height and width of images in arrays. Required for these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<[u32; 3]>,
    /// Column or array of the images (default `image`) or of the rows of a table (default `features`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Column or array of the classes. Default `label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Column or array with the owner of a sample; for a folder [`ABOVE`]. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Training images of a folder. Default: its folder `train`; the folder `test` is tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitSection>,
    /// Samples that belong to no client. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auxiliary: Option<AuxiliarySection>,
    /// Sizes for plans while the data is absent. Known for digits and CIFAR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<NominalSizes>,
    /// Transform of training images.
    pub train: TransformSection,
    /// Transform of test images.
    pub test: TransformSection,
    /// Transform of training images in passes that only measure features. In a file `[data.statistics] transform =
    /// "test"`. Default `test`.
    #[serde(serialize_with = "as_table")]
    pub statistics: StatisticsTransform,
    /// Samples of a play; none for images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextSection>,
    /// Synthetic data set; none for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<SyntheticSection>,
}

/// Published sizes of a data set, for plans; samples are spread evenly over classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
pub struct NominalSizes {
    /// Number of classes.
    #[key(example = 200, at_least = 1.0)]
    pub classes: u32,
    /// Training samples of all classes together.
    #[key(example = 24_000, at_least = 1.0)]
    pub train: u32,
    /// Test samples of all classes together.
    #[key(example = 6_000, at_least = 1.0)]
    pub test: u32,
}

/// Transform for passes that measure statistics (prototypes, Gaussians, Gram matrices).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum StatisticsTransform {
    /// Transform `[data.test]`.
    Test,
    /// Transform `[data.train]`, with its draws.
    Train,
    /// Values in `[0, 1]` at the size of `[data.test]`, not augmented, not normalized (public code of HGP).
    Raw,
}

impl DataSection {
    /// Returns the sizes before anything is held out: those given, or those known for the source, less what `subset`
    /// and `test_subset` leave out.
    pub fn sizes(&self) -> Option<NominalSizes> {
        let known = match self.source {
            DataSource::Digits => Some((10, 1433, 364)),
            DataSource::Cifar10 => Some((10, 50_000, 10_000)),
            DataSource::Cifar100 => Some((100, 50_000, 10_000)),
            _ => self.synthetic.as_ref().map(SyntheticSection::totals),
        };
        let known = known.map(|(classes, train, test)| NominalSizes { classes, train, test });
        let NominalSizes { classes, train, test } = self.nominal.or(known)?;
        let kept = |whole: u32, most: Option<u32>| {
            most.map_or(whole, |most| whole.min(most.saturating_mul(classes)))
        };
        let (train, test) = (kept(train, self.subset), kept(test, self.test_subset));
        Some(NominalSizes { classes, train, test })
    }

    /// Returns the name by which the data was fetched, if no path is given.
    pub fn name(&self) -> Option<Name> {
        let named = self.path.is_none().then(|| entry(&self.source.word())).flatten();
        named.map(Name::Known)
    }

    /// Returns the samples that are held out, if any.
    pub fn validation_set(&self) -> Option<HeldOut> {
        self.validation_fraction.map(|fraction| HeldOut { fraction, evaluate: self.evaluate })
    }

    /// Returns the number of a class's training samples held out: rounded down, at least one, never all.
    pub fn held_out(&self, samples: usize) -> usize {
        let of = |share: f64| floor(share * samples as f64).max(1).min(samples.saturating_sub(1));
        self.validation_fraction.map_or(0, of)
    }

    /// Returns the number of a class's training samples that clients train on. Auxiliary and held-out samples are not
    /// among them.
    pub fn trained_samples(&self, samples: usize) -> usize {
        let auxiliary = self.auxiliary.as_ref().map_or(0, |section| section.of_class(samples));
        let left = samples - auxiliary;
        left - self.held_out(left)
    }

    /// Returns the pixels of the shorter side of images before any transform; `None` if each has its own.
    pub fn side(&self) -> Option<u32> {
        match self.source {
            DataSource::Digits => Some(8),
            DataSource::Cifar10 | DataSource::Cifar100 => Some(32),
            DataSource::Folder | DataSource::Parquet => self.stored_size.side(),
            DataSource::Idx | DataSource::Leaf => Some(28),
            DataSource::Arrays => self.shape.map(|[_, height, width]| height.min(width)),
            DataSource::Play | DataSource::Table | DataSource::Synthetic => Some(1),
        }
    }

    /// Returns `[channels, height, width]` of images before any transform; `None` if each has its own.
    pub fn image_shape(&self) -> Option<[u32; 3]> {
        let square = || self.side().map(|side| [self.channels(), side, side]);
        self.shape.or_else(|| square().filter(|_| self.is_square()))
    }

    /// Returns true if images are files, packed or not, that are resized as they are read.
    pub fn is_encoded(&self) -> bool {
        matches!(self.source, DataSource::Folder | DataSource::Parquet)
    }

    /// Returns true if all images are squares before any transform.
    pub fn is_square(&self) -> bool {
        match self.source {
            DataSource::Folder | DataSource::Parquet => {
                matches!(self.stored_size, StoredSize::Square(_))
            }
            DataSource::Arrays => self.shape.is_none_or(|[_, height, width]| height == width),
            _ => true,
        }
    }

    /// Returns true if the data name the owner of each sample.
    pub fn has_owners(&self) -> bool {
        let always = matches!(self.source, DataSource::Play | DataSource::Leaf);
        let drawn = self.synthetic.as_ref().is_some_and(|synthetic| synthetic.clients.is_some());
        always || drawn || self.client.is_some()
    }

    /// Returns the number of classes if it is known without opening the data.
    pub fn classes(&self) -> Option<u32> {
        match &self.text {
            Some(text) => Some(text.vocabulary_size),
            None => self.sizes().map(|sizes| sizes.classes),
        }
    }

    /// Returns the color channels of images; for a table, the numbers per row.
    pub fn channels(&self) -> u32 {
        match self.source {
            DataSource::Digits | DataSource::Play | DataSource::Idx | DataSource::Leaf => 1,
            DataSource::Cifar10 | DataSource::Cifar100 => 3,
            DataSource::Folder | DataSource::Parquet => 3,
            DataSource::Table => self.width.unwrap_or(1),
            DataSource::Arrays => self.shape.map_or(1, |[channels, ..]| channels),
            DataSource::Synthetic => self.synthetic.as_ref().map_or(1, |synthetic| synthetic.width),
        }
    }

    /// Returns the tokens per sample of text.
    pub fn tokens(&self) -> u32 {
        self.text.as_ref().map_or(1, TextSection::tokens)
    }

    /// Returns the pixels per side of the network's input.
    pub fn output(&self) -> u32 {
        // Images of shapes of their own without a crop are refused when the scenario is read.
        self.test.output().or(self.side()).unwrap_or(224)
    }
}

impl DataSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> DataSection {
        let source =
            Param::required("source", DataSource::Digits, "data set or its layout on disk");
        let known: Option<DataSource> = table.require(&source);
        // If the source cannot be read, keys that depend on it are not judged.
        let source = known.unwrap_or(DataSource::Digits);
        let path =
            "folder or file of the data, relative to this file, or the name of a fetched data set";
        let path: Option<PathBuf> = table.optional(&Param::unset("path", path));
        match (known, &path) {
            (Some(DataSource::Synthetic), Some(_)) => table.reject(
                "path",
                "synthetic data are drawn by the program and have no path",
                "not needed",
                "remove this line, or set `data.source`",
            ),
            (Some(DataSource::Digits), Some(_)) => table.reject(
                "path",
                "the digits are embedded in the program and have no path",
                "not needed",
                "remove this line, or set `data.source`",
            ),
            (Some(DataSource::Digits | DataSource::Synthetic) | None, _) | (_, Some(_)) => {}
            // They can be fetched by their names.
            (Some(DataSource::Cifar10 | DataSource::Cifar100), None) => {}
            (Some(source), None) => table.reject(
                "source",
                &format!("`data.source = \"{}\"` needs `data.path`", source.word()),
                "needs `path`",
                &format!("add `path = \"...\"` with {}, relative to this file", source.place()),
            ),
        }
        if known.is_none() {
            table.accept_rest();
        }
        let subset =
            Param::unset("subset", "largest number of training samples per class; default: all")
                .at_least(1.0);
        let test_subset =
            Param::unset("test_subset", "largest number of test samples per class; default: all")
                .at_least(1.0);
        let text = match source {
            DataSource::Play => Some(table.table("text", TextSection::read)),
            _ => {
                table.foreign(&["text"], &format!("source = \"{}\"", source.word()));
                None
            }
        };
        let synthetic = match source {
            DataSource::Synthetic => Some(table.table("synthetic", SyntheticSection::read)),
            _ => {
                table.foreign(&["synthetic"], &format!("source = \"{}\"", source.word()));
                None
            }
        };
        let validation = Param::unset(
            "validation_fraction",
            "fraction of every class's training samples that is held out",
        );
        let validation_fraction: Option<f64> = table.optional(&validation.above(0.0).below(1.0));
        let evaluate =
            Param::new("evaluate", Evaluated::Test, "samples on which accuracies are measured");
        let evaluate = table.get(&evaluate);
        if evaluate == Evaluated::Validation && !table.given("validation_fraction") {
            table.reject(
                "evaluate",
                "`evaluate = \"validation\"` needs `validation_fraction`",
                "nothing is held out",
                "add `validation_fraction = 0.2` to hold out a fifth of every class's training samples",
            );
        }
        let condition = format!("source = \"{}\"", source.word());
        let split = match source {
            DataSource::Folder => table.optional_table("split", SplitSection::read),
            _ => {
                table.foreign(&["split"], &condition);
                None
            }
        };
        let test_fraction = match source {
            DataSource::Folder
            | DataSource::Parquet
            | DataSource::Arrays
            | DataSource::Table
            | DataSource::Leaf => TestFraction::read(table),
            _ => {
                TestFraction::refuse(table, &condition);
                None
            }
        };
        if test_fraction.is_some() && split.is_some() {
            table.reject(
                "test_fraction",
                "`data.test_fraction` contradicts `data.split`, which lists the test images",
                "not with `split`",
                "remove one of the two",
            );
        }
        let columns = DataColumns::read(table, source);
        let layout =
            Param::new("layout", FolderLayout::Classes, "layout of the images of a folder");
        let layout = match (source, &split, &columns.client) {
            (DataSource::Folder, None, None) => table.get(&layout),
            (DataSource::Folder, None, Some(_)) => {
                table.foreign(&["layout"], "client");
                FolderLayout::Classes
            }
            (DataSource::Folder, Some(_), _) => {
                table.foreign(&["layout"], "split");
                FolderLayout::Classes
            }
            _ => {
                table.foreign(&["layout"], &condition);
                FolderLayout::Classes
            }
        };
        let nominal = table.optional_table("nominal", NominalSizes::read);
        let auxiliary = table.optional_table("auxiliary", |t| AuxiliarySection::read(t, source));
        let train = table.table("train", |t| TransformSection::read(t, None));
        DataSection {
            source,
            path,
            subset: table.optional(&subset),
            test_subset: table.optional(&test_subset),
            validation_fraction,
            evaluate,
            stored_size: StoredSize::read(table),
            orientation: Orientation::read(table, source),
            test_fraction,
            layout,
            width: columns.width,
            shape: columns.shape,
            input: columns.input,
            label: columns.label,
            client: columns.client,
            split,
            nominal,
            auxiliary,
            test: table.table("test", |t| TransformSection::read(t, Some(&train))),
            train,
            statistics: table.table("statistics", |t| {
                t.get(&Param::new(
                    "transform",
                    StatisticsTransform::Test,
                    "transform of training images in passes that only measure features",
                ))
            }),
            text,
            synthetic,
        }
    }
}

fn as_table<S: Serializer>(transform: &StatisticsTransform, s: S) -> Result<S::Ok, S::Error> {
    BTreeMap::from([("transform", transform)]).serialize(s)
}

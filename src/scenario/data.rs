//! `[data]`: which images or which text, where it lies, and what the network sees of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize, Serializer};

use super::reader::{Choice, Param, TableReader};
use super::{AuxiliarySection, SplitSection, StoredSize, TestShare, TextSection, TransformSection};
use crate::fetch::{Name, entry};
use crate::numerics::share::floor;

/// Which images and their transforms, or which text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DataSection {
    /// The data set or its layout on disk. Required.
    pub source: DataSource,
    /// Folder, `.tar.gz` or text; none for the embedded digits, and for sets that were fetched by the name of the
    /// source. Absolute in memory; relative to the scenario file on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Keeps only the first so many training samples of every class. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<u32>,
    /// Share of every class's training samples, of those that `subset` leaves, that is held out to choose rates on;
    /// which ones, `seed.partition` draws. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<f64>,
    /// What accuracies are measured on. Default `test`.
    #[serde(skip_serializing_if = "Evaluated::is_test")]
    pub evaluate: Evaluated,
    /// What every image of a folder is first resized to. Default `224`, a square,
    /// as the HGP benchmark's loader does.
    pub store: StoredSize,
    /// The part of data that nobody has divided which is tested; `test_share` and `test_seed` in a file.
    #[serde(flatten)]
    pub test_share: Option<TestShare>,
    /// Numbers in a row of a table. Required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The column or array that holds the images (default `image`) or the rows of a table (default `features`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The column or array that holds classes. Default `label`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The column or array that says whose a sample is; of a folder [`ABOVE`]. Default: nothing says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Which images of a folder are trained on. Default: those in its folder `train`; those in `test` are tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitSection>,
    /// Samples that belong to no client. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auxiliary: Option<AuxiliarySection>,
    /// Sizes to plan with while the data is absent. Known for digits and CIFAR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<NominalSizes>,
    /// What is done to a training image.
    pub train: TransformSection,
    /// What is done to a test image.
    pub test: TransformSection,
    /// What is done to training images when features are only measured; in a file
    /// `[data.statistics] transform = "test"`. Default `test`.
    #[serde(serialize_with = "as_table")]
    pub statistics: StatisticsTransform,
    /// How a play becomes samples; none for images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextSection>,
}

/// A data set or a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DataSource {
    /// The embedded handwritten digits: 10 classes, 8x8 grey pixels.
    Digits,
    /// CIFAR-10 in the official binary or Python layout, folder or .tar.gz.
    Cifar10,
    /// CIFAR-100 in the official binary or Python layout, folder or .tar.gz.
    Cifar100,
    /// Image files: `train/CLASS/*` and `test/CLASS/*`, Tiny-ImageNet, CUB, DomainNet, or undivided.
    Folder,
    /// The IDX files of MNIST and its family, gzipped or not: 28x28 grey pixels.
    Idx,
    /// Parquet files of images, as on the Hugging Face hub.
    Parquet,
    /// Rows of numbers, such as features: .npz, .npy, .parquet, .csv.
    Table,
    /// LEAF's JSON files of users and their images (FEMNIST): 28x28 grey pixels.
    Leaf,
    /// A play as plain text, speakers' lines under their names.
    Play,
}

/// What `data.client` says of a folder: the folder above that of the class, `train/CLIENT/CLASS/*`.
pub const ABOVE: &str = "folder";

/// What accuracies are measured on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Evaluated {
    /// The test set.
    #[default]
    Test,
    /// What `data.validation` holds out of the training data; the test set is not looked at.
    Validation,
}

/// What is held out of the training samples of every class, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Of every class.
    pub share: f64,
    /// What accuracies are measured on.
    pub evaluate: Evaluated,
}

impl fmt::Display for HeldOut {
    /// One line for readers of tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.share;
        match self.evaluate {
            Evaluated::Validation => write!(
                f,
                "VALIDATION: accuracies are of held-out training samples ({share} of every class), not of the test set"
            ),
            Evaluated::Test => write!(
                f,
                "held out: {share} of every class's training samples, unused; accuracies are of the test set"
            ),
        }
    }
}

impl Evaluated {
    fn is_test(&self) -> bool {
        *self == Evaluated::Test
    }
}

impl Choice for Evaluated {}

/// Sizes of a data set as published: numbers to plan with, spread evenly over classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NominalSizes {
    pub classes: u32,
    /// Training samples of all classes together.
    pub train: u32,
    /// Test samples of all classes together.
    pub test: u32,
}

/// Which transform statistics passes (prototypes, Gaussians, Grams) use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum StatisticsTransform {
    /// That of `[data.test]`.
    Test,
    /// That of `[data.train]`, with its draws.
    Train,
    /// Values in `[0, 1]`, neither augmented nor normalised, at the size of `[data.test]` (what the public code
    /// of HGP does).
    Raw,
}

impl DataSection {
    /// Sizes to plan with, before anything is held out: those given, or those known of the source.
    pub fn sizes(&self) -> Option<NominalSizes> {
        let known = match self.source {
            DataSource::Digits => Some((10, 1433, 364)),
            DataSource::Cifar10 => Some((10, 50_000, 10_000)),
            DataSource::Cifar100 => Some((100, 50_000, 10_000)),
            _ => None,
        };
        let known = known.map(|(classes, train, test)| NominalSizes { classes, train, test });
        let sizes = self.nominal.or(known)?;
        let train = self
            .subset
            .map_or(sizes.train, |most| sizes.train.min(most.saturating_mul(sizes.classes)));
        Some(NominalSizes { train, ..sizes })
    }

    /// By which name it was fetched, where no path says where it is.
    pub fn name(&self) -> Option<Name> {
        let named = self.path.is_none().then(|| entry(&self.source.word())).flatten();
        named.map(Name::Known)
    }

    /// What is held out, where anything is.
    pub fn validation_set(&self) -> Option<HeldOut> {
        self.validation.map(|share| HeldOut { share, evaluate: self.evaluate })
    }

    /// How many of a class's training samples are held out: the share, rounded down, but one at least and never all.
    pub fn held_out(&self, samples: usize) -> usize {
        let of = |share: f64| floor(share * samples as f64).max(1).min(samples.saturating_sub(1));
        self.validation.map_or(0, of)
    }

    /// How many of a class's training samples clients learn from: all, less those of nobody and those held out.
    pub fn learnt(&self, samples: usize) -> usize {
        let nobodys = self.auxiliary.as_ref().map_or(0, |section| section.of_class(samples));
        let left = samples - nobodys;
        left - self.held_out(left)
    }

    /// Pixels of the shorter side of its images before any transform; `None` where each has its own.
    pub fn side(&self) -> Option<u32> {
        match self.source {
            DataSource::Digits => Some(8),
            DataSource::Cifar10 | DataSource::Cifar100 => Some(32),
            DataSource::Folder | DataSource::Parquet => self.store.side(),
            DataSource::Idx | DataSource::Leaf => Some(28),
            DataSource::Play | DataSource::Table => Some(1),
        }
    }

    /// Whether its images are files, packed or not, which are brought to one size as they are read.
    pub fn is_encoded(&self) -> bool {
        matches!(self.source, DataSource::Folder | DataSource::Parquet)
    }

    /// Whether all its images are squares before any transform.
    pub fn is_square(&self) -> bool {
        !self.is_encoded() || matches!(self.store, StoredSize::Square(_))
    }

    /// Whether the data say whose a sample is.
    pub fn has_owners(&self) -> bool {
        let always = matches!(self.source, DataSource::Play | DataSource::Leaf);
        always || self.client.is_some()
    }

    /// Classes, where they are known without opening it.
    pub fn classes(&self) -> Option<u32> {
        match &self.text {
            Some(text) => Some(text.symbols),
            None => self.sizes().map(|sizes| sizes.classes),
        }
    }

    /// Colour channels of its images; of a table, the numbers in a row.
    pub fn channels(&self) -> u32 {
        match self.source {
            DataSource::Digits | DataSource::Play | DataSource::Idx | DataSource::Leaf => 1,
            DataSource::Cifar10 | DataSource::Cifar100 => 3,
            DataSource::Folder | DataSource::Parquet => 3,
            DataSource::Table => self.width.unwrap_or(1),
        }
    }

    /// Tokens of a sample, where samples are text.
    pub fn tokens(&self) -> u32 {
        self.text.as_ref().map_or(1, TextSection::tokens)
    }

    /// Pixels of both sides of what the network sees.
    pub fn output(&self) -> u32 {
        // Images of shapes of their own without a crop are refused when the scenario is read.
        self.test.output().or(self.side()).unwrap_or(224)
    }
}

impl Choice for DataSource {}

impl Choice for StatisticsTransform {}

impl DataSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> DataSection {
        let source = Param::required("source", DataSource::Digits, "which images or text");
        let known: Option<DataSource> = table.require(&source);
        // Where it cannot be read, what depends on it is not judged.
        let source = known.unwrap_or(DataSource::Digits);
        let path = "folder or file, relative to this file, or a name that was fetched";
        let path = Param::<String>::unset("path", path);
        let path: Option<PathBuf> = table.optional(&path).map(PathBuf::from);
        match (known, &path) {
            (Some(DataSource::Digits), Some(_)) => table.reject(
                "path",
                "the digits are inside the program and have no path",
                "not needed",
                "remove this line, or set `data.source`",
            ),
            (Some(DataSource::Digits) | None, _) | (_, Some(_)) => {}
            // They can be fetched by their names.
            (Some(DataSource::Cifar10 | DataSource::Cifar100), None) => {}
            (Some(source), None) => table.reject(
                "source",
                &format!("`data.source = \"{}\"` needs `data.path`", source.word()),
                "where is it?",
                &format!("add `path = \"...\"` with {}, relative to this file", source.place()),
            ),
        }
        if known.is_none() {
            table.accept_rest();
        }
        let subset = Param::unset("subset", "training samples kept of every class").at_least(1.0);
        let text = match source {
            DataSource::Play => Some(table.table("text", TextSection::read)),
            _ => {
                table.foreign(&["text"], &format!("source = \"{}\"", source.word()));
                None
            }
        };
        let validation = Param::unset("validation", "share of every class held out of training");
        let validation: Option<f64> = table.optional(&validation.above(0.0).below(1.0));
        let evaluate = Param::new("evaluate", Evaluated::Test, "what accuracies are measured on");
        let evaluate = table.get(&evaluate);
        if evaluate == Evaluated::Validation && !table.given("validation") {
            table.reject(
                "evaluate",
                "nothing is held out to measure accuracies on",
                "which samples?",
                "add `validation = 0.2`: a fifth of every class's training samples",
            );
        }
        let beside = format!("source = \"{}\"", source.word());
        let split = match source {
            DataSource::Folder => table.optional_table("split", SplitSection::read),
            _ => {
                table.foreign(&["split"], &beside);
                None
            }
        };
        let test_share = match source {
            DataSource::Folder | DataSource::Parquet | DataSource::Table | DataSource::Leaf => {
                TestShare::read(table)
            }
            _ => {
                table.foreign(&["test_share", "test_seed"], &beside);
                None
            }
        };
        if test_share.is_some() && split.is_some() {
            table.reject(
                "test_share",
                "`data.split` says already what is tested",
                "not beside `split`",
                "remove one of the two",
            );
        }
        let columns = Columns::read(table, source);
        let nominal = table.optional_table("nominal", NominalSizes::read);
        let auxiliary = table.optional_table("auxiliary", |t| AuxiliarySection::read(t, source));
        let train = table.table("train", |t| TransformSection::read(t, None));
        DataSection {
            source,
            path,
            subset: table.optional(&subset),
            validation,
            evaluate,
            store: StoredSize::read(table),
            test_share,
            width: columns.width,
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
                    "what images go through when features are only measured",
                ))
            }),
            text,
        }
    }
}

/// Which columns, arrays or folders hold what.
#[derive(Default)]
pub(super) struct Columns {
    width: Option<u32>,
    pub input: Option<String>,
    pub label: Option<String>,
    client: Option<String>,
}

/// The default names.
const IMAGE: &str = "image";
const FEATURES: &str = "features";
const LABEL: &str = "label";

impl Columns {
    /// Those of a source where nobody names any.
    pub fn of(source: DataSource) -> Columns {
        let input = match source {
            DataSource::Table => FEATURES,
            DataSource::Parquet => IMAGE,
            _ => return Columns::default(),
        };
        let name = |name: &str| Some(name.to_owned());
        Columns { input: name(input), label: name(LABEL), ..Columns::default() }
    }

    fn read(table: &mut TableReader<'_>, source: DataSource) -> Columns {
        let beside = format!("source = \"{}\"", source.word());
        let doc = "column or array of the images or rows";
        let input = |default: &str| Param::new("input", default.to_owned(), doc);
        let label = Param::new("label", LABEL.to_owned(), "column or array of the classes");
        let client = "column or array that says whose a sample is; of a folder \"folder\", the one above the class";
        let client = Param::unset("client", client);
        let width = Param::required("width", 768, "numbers in a row");
        match source {
            DataSource::Table => Columns {
                width: Some(table.get(&width.at_least(1.0).at_most(1e6))),
                input: Some(table.get(&input(FEATURES))),
                label: Some(table.get(&label)),
                client: table.optional(&client),
            },
            DataSource::Parquet => {
                table.foreign(&["width"], &beside);
                Columns {
                    width: None,
                    input: Some(table.get(&input(IMAGE))),
                    label: Some(table.get(&label)),
                    client: table.optional(&client),
                }
            }
            DataSource::Folder => {
                table.foreign(&["width", "input", "label"], &beside);
                let client: Option<String> = table.optional(&client);
                if client.as_ref().is_some_and(|client| client != ABOVE) {
                    table.reject(
                        "client",
                        "image files have no columns",
                        "not a column",
                        "write `client = \"folder\"`: the folder above that of the class, train/CLIENT/CLASS/*",
                    );
                }
                Columns { client, ..Columns::default() }
            }
            _ => {
                table.foreign(&["width", "input", "label", "client"], &beside);
                Columns::default()
            }
        }
    }
}

impl DataSource {
    /// What lies at its path.
    fn place(self) -> &'static str {
        match self {
            DataSource::Play => "the text",
            DataSource::Cifar10 | DataSource::Cifar100 => "the folder or the .tar.gz",
            DataSource::Table => "the file, or the folder of train and test files",
            _ => "the folder",
        }
    }
}

impl NominalSizes {
    fn read(table: &mut TableReader<'_>) -> NominalSizes {
        let classes = Param::required("classes", 200, "classes of the data set");
        let train = Param::required("train", 24_000, "training samples of all classes together");
        let test = Param::required("test", 6_000, "test samples of all classes together");
        NominalSizes {
            classes: table.get(&classes.at_least(1.0)),
            train: table.get(&train.at_least(1.0)),
            test: table.get(&test.at_least(1.0)),
        }
    }
}

fn as_table<S: Serializer>(transform: &StatisticsTransform, s: S) -> Result<S::Ok, S::Error> {
    BTreeMap::from([("transform", transform)]).serialize(s)
}

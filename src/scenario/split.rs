//! `data.split`: which images of a folder are trained on and which are tested.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};

/// How a folder is divided into training and test images.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SplitSection {
    /// `{ list = ".." }`: a published list of both parts.
    List {
        /// A `.json` file with `train` and `test`.
        list: PathBuf,
    },
    /// `{ train = "..", test = ".." }`: a published list of each part.
    Lists {
        /// A `.yaml` or `.txt` file.
        train: PathBuf,
        /// Another one.
        test: PathBuf,
    },
    /// `{ share = 0.8 }`: all images in a drawn order, the first of them are trained on.
    Share {
        /// Part of all images that is trained on, rounded down.
        share: f64,
        /// Of the draw. Default 0. Not the run's: the split belongs to the benchmark.
        seed: u64,
        /// Default `classes`.
        layout: FolderLayout,
    },
}

/// A part of the samples of every class, to be tested: for data that nobody has divided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TestShare {
    /// Of every class, rounded down; one at least and never all.
    #[serde(rename = "test_share")]
    pub share: f64,
    /// Of the draw. Default 0. Not the run's: the split belongs to the benchmark.
    #[serde(rename = "test_seed")]
    pub seed: u64,
}

impl TestShare {
    /// `test_share` and `test_seed` of `[data]`.
    pub(super) fn read(table: &mut TableReader<'_>) -> Option<TestShare> {
        let share = Param::unset("test_share", "part of every class that is tested, drawn");
        let share = table.optional(&share.above(0.0).below(1.0));
        let seed = Param::new("test_seed", 0, "of that draw; not the run's");
        match share {
            Some(share) => Some(TestShare { share, seed: table.get(&seed) }),
            None if table.given("test_share") => {
                // It is wrong by itself; its seed is not.
                table.get(&seed);
                None
            }
            None => {
                table.foreign(&["test_seed"], "no `test_share`");
                None
            }
        }
    }
}

/// Where images lie that nobody has divided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FolderLayout {
    /// `CLASS/*`.
    Classes,
    /// `DOMAIN/CLASS/*`: the domains are pooled class by class.
    Domains,
}

impl Choice for FolderLayout {}

impl SplitSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> SplitSection {
        let path = |name, doc| Param::required(name, "list.json".to_owned(), doc);
        let list = path("list", "a published list of both parts: .json");
        let train = path("train", "a published list of the training images: .yaml, .txt");
        let test = path("test", "and of the test images");
        if table.given("list") {
            table.foreign(&["train", "test", "share", "seed", "layout"], "list");
            return SplitSection::List { list: table.get(&list).into() };
        }
        if table.given("train") || table.given("test") {
            table.foreign(&["share", "seed", "layout"], "train");
            return SplitSection::Lists {
                train: table.get(&train).into(),
                test: table.get(&test).into(),
            };
        }
        let share = Param::required("share", 0.8, "part of all images that is trained on");
        SplitSection::Share {
            share: table.get(&share.above(0.0).below(1.0)),
            seed: table.get(&Param::new("seed", 0, "of the draw; not the run's")),
            layout: table.get(&Param::new("layout", FolderLayout::Classes, "where images lie")),
        }
    }

    /// Its lists, with their keys.
    pub(super) fn files_mut(&mut self) -> Vec<(&'static str, &mut PathBuf)> {
        match self {
            SplitSection::List { list } => vec![("data.split.list", list)],
            SplitSection::Lists { train, test } => {
                vec![("data.split.train", train), ("data.split.test", test)]
            }
            SplitSection::Share { .. } => Vec::new(),
        }
    }
}

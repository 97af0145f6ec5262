//! `data.split` and `data.layout`: published lists of training and test images of a folder, and its layout.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};

/// Published lists that divide a folder into training and test images.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SplitSection {
    /// One list of both parts: `{ list = ".." }`.
    List {
        /// File `.json` with `train` and `test`.
        list: PathBuf,
    },
    /// One list of each part: `{ train = "..", test = ".." }`.
    Lists {
        /// File `.yaml` or `.txt` of the training images.
        train: PathBuf,
        /// File `.yaml` or `.txt` of the test images.
        test: PathBuf,
    },
}

/// Layout of the images of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum FolderLayout {
    /// Images in `CLASS/*`.
    #[default]
    Classes,
    /// Images in `DOMAIN/CLASS/*`; the domains are pooled class by class.
    Domains,
}

impl FolderLayout {
    pub(super) fn is_classes(&self) -> bool {
        *self == FolderLayout::Classes
    }
}

impl SplitSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> SplitSection {
        let path = |name, doc| Param::required(name, "list.json".to_owned(), doc);
        let list = path("list", "published list of training and test images: .json");
        let train = path("train", "published list of the training images: .yaml or .txt");
        let test = path("test", "published list of the test images: .yaml or .txt");
        if table.given("share") {
            ["share", "seed", "layout"].into_iter().for_each(|key| table.reported(key));
            table.reject(
                "share",
                "`data.split` has no key `share`: it names published lists",
                "drawn, not published",
                "write `test_fraction = 0.2` in [data], the part that is tested: of every class, or with \
                 `test_drawn = \"together\"` of all images; `test_seed` and `layout` are keys of [data], too",
            );
            return SplitSection::List { list: PathBuf::new() };
        }
        if table.given("train") || table.given("test") {
            table.foreign(&["list"], "train");
            return SplitSection::Lists {
                train: table.get(&train).into(),
                test: table.get(&test).into(),
            };
        }
        table.foreign(&["train", "test"], "list");
        SplitSection::List { list: table.get(&list).into() }
    }

    /// Returns the lists with their keys.
    pub(super) fn files_mut(&mut self) -> Vec<(&'static str, &mut PathBuf)> {
        match self {
            SplitSection::List { list } => vec![("data.split.list", list)],
            SplitSection::Lists { train, test } => {
                vec![("data.split.train", train), ("data.split.test", test)]
            }
        }
    }
}

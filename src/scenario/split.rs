//! `data.split`: which images of a folder are trained on and which are tested, as somebody has published it; and
//! `data.layout`: where its images lie.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};

/// The published lists by which a folder is divided into training and test images.
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
}

/// Where the images of a class lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum FolderLayout {
    /// `CLASS/*`.
    #[default]
    Classes,
    /// `DOMAIN/CLASS/*`: the domains are pooled class by class.
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
        let list = path("list", "a published list of both parts: .json");
        let train = path("train", "a published list of the training images: .yaml, .txt");
        let test = path("test", "and of the test images");
        if table.given("share") {
            ["share", "seed", "layout"].into_iter().for_each(|key| table.reported(key));
            table.reject(
                "share",
                "`data.split` names published lists; a part that is drawn is `data.test_share`",
                "drawn, not published",
                "write `test_share = 0.2` in [data], the part that is tested: of every class, or with \
                 `test_drawn = \"together\"` of all images; `test_seed` and `layout` stand beside it",
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

    /// Its lists, with their keys.
    pub(super) fn files_mut(&mut self) -> Vec<(&'static str, &mut PathBuf)> {
        match self {
            SplitSection::List { list } => vec![("data.split.list", list)],
            SplitSection::Lists { train, test } => {
                vec![("data.split.train", train), ("data.split.test", test)]
            }
        }
    }
}

//! NumPy arrays by name: members of a `.npz`, or `.npy` files in a folder.

mod array;
mod error;
mod images;

use std::io::BufReader;
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use super::foreign::foreign;
use super::labels::Labels;
use super::{Cause, DataError};
use crate::files::{self, FileKind};
pub(super) use array::Array;
#[cfg(test)]
pub(super) use array::tests;
pub(super) use error::ArrayError;
pub(super) use images::ImageValues;

/// Arrays of one part of a data set, each read on request.
#[derive(Clone, Debug)]
pub(super) struct NamedArrays {
    path: PathBuf,
    naming: ArrayNaming,
}

/// Rule that finds the file of an array by its name.
#[derive(Clone, Copy, Debug)]
enum ArrayNaming {
    /// File of that name in the folder.
    Folder,
    /// Member of a `.npz`, with the part's name before or behind the array's.
    Packed { before: &'static str, behind: &'static str },
}

impl NamedArrays {
    /// Returns the arrays in a folder of `.npy` files.
    pub fn folder(path: &Path) -> NamedArrays {
        NamedArrays { path: path.to_owned(), naming: ArrayNaming::Folder }
    }

    /// Returns the arrays in a `.npz`.
    pub fn packed(path: &Path) -> NamedArrays {
        NamedArrays::affixed(path, "", "")
    }

    /// Returns the arrays of both parts of a `.npz`; `None` if it does not have `input` for both.
    ///
    /// Members are named by part, `train_input` or `input_train`.
    ///
    /// # Errors
    /// Returns an error if the file is no `.npz`.
    pub fn both(path: &Path, input: &str) -> Result<Option<(Self, Self)>, DataError> {
        let there = members(&archive(path)?);
        let has = |name: String| there.contains(&format!("{name}.npy"));
        let parts = |[train, test]: [NamedArrays; 2]| Ok(Some((train, test)));
        if has(format!("train_{input}")) {
            return parts(["train_", "test_"].map(|part| NamedArrays::affixed(path, part, "")));
        }
        if has(format!("{input}_train")) {
            return parts(["_train", "_test"].map(|part| NamedArrays::affixed(path, "", part)));
        }
        Ok(None)
    }

    fn affixed(path: &Path, before: &'static str, behind: &'static str) -> NamedArrays {
        NamedArrays { path: path.to_owned(), naming: ArrayNaming::Packed { before, behind } }
    }

    /// Returns the place of an array, for errors.
    pub fn place(&self, name: &str) -> PathBuf {
        self.path.join(self.member(name))
    }

    fn member(&self, name: &str) -> String {
        match self.naming {
            ArrayNaming::Folder => name.to_owned(),
            ArrayNaming::Packed { before, behind } => format!("{before}{name}{behind}"),
        }
    }

    /// Reads an array.
    ///
    /// # Errors
    /// Returns an error if the array is missing or cannot be read.
    pub fn array(&self, name: &str) -> Result<Array, DataError> {
        let limit = FileKind::Data.limit().0;
        match self.naming {
            ArrayNaming::Folder => {
                let file = self.path.join(format!("{name}.npy"));
                let source = files::open(&file, FileKind::Data)
                    .map_err(|e| DataError::io(&file, "an array", e))?;
                Array::read(BufReader::new(source), limit)
                    .map_err(|error| foreign(&file).unwrap_or_else(|| broken(&file, &error)))
            }
            ArrayNaming::Packed { .. } => {
                let name = self.member(name);
                let mut zip = archive(&self.path)?;
                let there = members(&zip);
                let member = zip.by_name(&format!("{name}.npy")).map_err(|_| {
                    DataError::advised(
                        &self.path,
                        format!("an array `{name}`"),
                        format!("the arrays {}", there.join(", ").replace(".npy", "")),
                        "Name the right one: data.input, data.label, data.client",
                    )
                })?;
                let place = self.path.join(&name);
                Array::read(member, limit).map_err(|error| broken(&place, &error))
            }
        }
    }

    /// Reads one label or owner per sample.
    ///
    /// # Errors
    /// Fails as [`array`](Self::array) does, and if there are several values per sample or missing ones.
    pub fn labels(&self, name: &str) -> Result<Labels, DataError> {
        self.array(name)?.labels(&self.place(name), name)
    }
}

fn members(zip: &ZipArchive<BufReader<std::fs::File>>) -> Vec<String> {
    // A name that is not valid text cannot be that of a requested array.
    zip.file_names().filter_map(|name| name.ok().map(std::borrow::Cow::into_owned)).collect()
}

fn archive(path: &Path) -> Result<ZipArchive<BufReader<std::fs::File>>, DataError> {
    let file =
        files::open(path, FileKind::Data).map_err(|e| DataError::io(path, "a .npz file", e))?;
    ZipArchive::new(BufReader::new(file)).map_err(|error| {
        foreign(path).unwrap_or_else(|| {
            DataError::because(Cause::Damaged, path, "a whole .npz file", error.to_string())
        })
    })
}

/// Returns the error for an array, with its place.
pub(super) fn broken(place: &Path, error: &ArrayError) -> DataError {
    DataError::advised(place, "an array that fits", error.to_string(), error.advice())
}

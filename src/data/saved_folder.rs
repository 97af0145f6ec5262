//! Folders written by `save_to_disk` of Hugging Face's `datasets`: one part, or several and a list of them.
//!
//! ```text
//! dataset_dict.json                 the names of the parts
//! train/state.json                  the files of the part, in their order
//! train/data-00000-of-00002.arrow   its rows
//! ```

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::columnar::is_arrow;
use super::{Cause, DataError};
use crate::files::{self, FileKind};

/// File that lists the parts of a folder.
const PARTS: &str = "dataset_dict.json";

/// File that lists the files of a part.
const STATE: &str = "state.json";

/// Folder written by `save_to_disk`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SavedFolder {
    /// A single part without division.
    Part(PathBuf),
    /// Parts by their names, each in a separate folder.
    Parts { folder: PathBuf, names: Vec<String> },
}

#[derive(Deserialize)]
struct PartNames {
    splits: Vec<String>,
}

#[derive(Deserialize)]
struct SavedFolderState {
    #[serde(rename = "_data_files")]
    data_files: Vec<StateFile>,
    /// Files with the selected rows, if the part is a selection.
    #[serde(default, rename = "_indices_files")]
    indices_files: Option<Vec<StateFile>>,
    /// Name of the same key before version 2 of `datasets`.
    #[serde(default, rename = "_indices_data_files")]
    indices_data_files: Option<Vec<StateFile>>,
}

#[derive(Deserialize)]
struct StateFile {
    filename: String,
}

impl SavedFolder {
    /// Opens a folder; `None` if `save_to_disk` did not write it.
    ///
    /// # Errors
    /// Returns an error if the list of parts cannot be read.
    pub fn open(folder: &Path) -> Result<Option<SavedFolder>, DataError> {
        let parts = folder.join(PARTS);
        if parts.is_file() {
            let PartNames { splits: names } = read(&parts)?;
            names.iter().try_for_each(|name| check_listed_name(&parts, name))?;
            return Ok(Some(SavedFolder::Parts { folder: folder.to_owned(), names }));
        }
        let is_part = folder.join(STATE).is_file() && folder.join("dataset_info.json").is_file();
        Ok(is_part.then(|| SavedFolder::Part(folder.to_owned())))
    }

    /// Returns the file that describes this folder, for the user.
    pub fn list(&self) -> PathBuf {
        match self {
            SavedFolder::Part(folder) => folder.join(STATE),
            SavedFolder::Parts { folder, .. } => folder.join(PARTS),
        }
    }

    /// Returns the files of the training part, or of the only part.
    ///
    /// # Errors
    /// Returns an error if there is no training part, and fails as [`part`](Self::part) does.
    pub fn train(&self) -> Result<Vec<PathBuf>, DataError> {
        match self {
            SavedFolder::Part(folder) => files_of(folder),
            SavedFolder::Parts { folder, names } => match self.part("train")?.as_slice() {
                [] => Err(DataError::advised(
                    &self.list(),
                    "a part `train`",
                    format!("the parts {}", names.join(", ")),
                    format!(
                        "Rename one of them, or read one alone: data.path = \"{}\" with data.test_fraction = 0.2",
                        folder.join(names.first().map_or("PART", String::as_str)).display()
                    ),
                )),
                files => Ok(files.to_vec()),
            },
        }
    }

    /// Returns the files of a part, in order; empty if there is no such part.
    ///
    /// # Errors
    /// Returns an error if a list or a file is missing, or if the part is a selection of its rows.
    pub fn part(&self, name: &str) -> Result<Vec<PathBuf>, DataError> {
        match self {
            SavedFolder::Parts { folder, names } if names.iter().any(|known| known == name) => {
                files_of(&folder.join(name))
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Returns the files of a part in their order.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let path = folder.join(STATE);
    let SavedFolderState { data_files, indices_files, indices_data_files } = read(&path)?;
    if [indices_files, indices_data_files].into_iter().flatten().any(|files| !files.is_empty()) {
        return Err(DataError::advised(
            &path,
            "a part without a selection of rows",
            "a selection of them (`_indices_files`)",
            "Copy the selected rows before saving: d.flatten_indices().save_to_disk(FOLDER)",
        ));
    }
    let names = data_files.into_iter().map(|file| file.filename);
    let files = names.map(|name| {
        check_listed_name(&path, &name)?;
        Ok(folder.join(name))
    });
    let files = files.collect::<Result<Vec<_>, DataError>>()?;
    match files.as_slice() {
        [] => Err(DataError::because(Cause::OtherContent, &path, "files of the part", "none")),
        _ => Ok(files),
    }
}

/// Checks that a file does not belong to a part that is a selection of its rows.
///
/// # Errors
/// Returns an error if it does, or if the list of the part cannot be read.
pub(super) fn check_whole_part(file: &Path) -> Result<(), DataError> {
    let folder = file.parent().unwrap_or(Path::new(""));
    match is_arrow(file) && folder.join(STATE).is_file() {
        true => files_of(folder).map(|_| ()),
        false => Ok(()),
    }
}

/// Checks that a listed name is a file or folder directly next to the list.
fn check_listed_name(list: &Path, name: &str) -> Result<(), DataError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) => Ok(()),
        _ => Err(DataError::because(
            Cause::OtherContent,
            list,
            "names of files next to it",
            format!("`{name}`"),
        )),
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, DataError> {
    let expected = "a list that save_to_disk wrote";
    let text =
        files::read_text(path, FileKind::Manifest).map_err(|e| DataError::io(path, expected, e))?;
    serde_json::from_str(&text)
        .map_err(|error| DataError::corrupt(path, expected, error.to_string()))
}

#[cfg(test)]
mod tests;
